// The heatmap as a picture: title, numbers, cells, scale and legend, drawn on a canvas in the colours
// of the page, at twice its size.
const PICTURE_WIDTH = 960;
const PICTURE_MARGIN = 40;
const PICTURE_CELL = 28;
const PICTURE_SCALE = 2;

class Picture {
  constructor(styles, height) {
    const canvas = document.createElement('canvas');
    canvas.width = PICTURE_WIDTH * PICTURE_SCALE;
    canvas.height = height * PICTURE_SCALE;
    this.canvas = canvas;
    this.pen = canvas.getContext('2d');
    this.pen.scale(PICTURE_SCALE, PICTURE_SCALE);
    this.styles = styles;
    this.box(0, 0, PICTURE_WIDTH, height, styles.paper);
  }

  box(x, y, width, height, fill, radius = 0) {
    this.pen.fillStyle = fill;
    this.pen.beginPath();
    this.pen.roundRect(x, y, width, height, radius);
    this.pen.fill();
  }

  text(text, x, y, { size = 13, weight = 400, fill = this.styles.ink, align = 'left', room = PICTURE_WIDTH } = {}) {
    this.pen.font = `${weight} ${size}px ${this.styles.font}`;
    this.pen.fillStyle = fill;
    this.pen.textAlign = align;
    this.pen.textBaseline = 'alphabetic';
    let shown = text;
    while (shown.length > 1 && this.pen.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
    this.pen.fillText(shown, x, y);
    return this.pen.measureText(shown).width;
  }
}

function pictureStyles(panel) {
  const style = getComputedStyle(panel);
  const value = (name) => style.getPropertyValue(name).trim();
  const colours = Object.fromEntries(SOURCE_NAMES.map((source) => [source, value(`--${source}`)]));
  return { paper: value('--paper'), ink: style.color, quiet: value('--quiet'), font: style.fontFamily, colours };
}

function drawPicture(panel, { title, numbers, steps, maxLength, legend }) {
  const columns = Math.floor((PICTURE_WIDTH - 2 * PICTURE_MARGIN - 40) / PICTURE_CELL);
  const perRow = columns - (columns % 5);
  const numRows = Math.max(1, Math.ceil(steps.length / perRow));
  const top = 168;
  const bottom = top + numRows * PICTURE_CELL;
  const picture = new Picture(pictureStyles(panel), bottom + 128);
  const { quiet } = picture.styles;
  const room = PICTURE_WIDTH - 2 * PICTURE_MARGIN;
  picture.text(title, PICTURE_MARGIN, 52, { size: 20, weight: 650, room });
  const gap = room / Math.max(1, numbers.length);
  numbers.forEach(({ name, value }, i) => {
    picture.text(value, PICTURE_MARGIN + i * gap, 92, { size: 17, weight: 600, room: gap - 8 });
    picture.text(name, PICTURE_MARGIN + i * gap, 111, { size: 11, fill: quiet, room: gap - 8 });
  });
  picture.text('Accepted tokens per step, in order', PICTURE_MARGIN, 152, { size: 13, weight: 600 });
  drawCells(picture, steps, { maxLength, perRow, top });
  drawScale(picture, maxLength, bottom + 30);
  drawLegend(picture, legend, bottom + 82);
  return new Promise((resolve) => picture.canvas.toBlob(resolve, 'image/png'));
}

function drawCells(picture, steps, { maxLength, perRow, top }) {
  const left = PICTURE_MARGIN + 40;
  for (const { index, acceptedLength } of steps) {
    const x = left + (index % perRow) * PICTURE_CELL;
    const y = top + Math.floor(index / perRow) * PICTURE_CELL;
    const { fill, ink } = colourOf(acceptedLength, maxLength);
    if (index % perRow === 0) picture.text(String(index + 1), left - 10, y + 18, { size: 11, fill: picture.styles.quiet, align: 'right' });
    picture.box(x, y, PICTURE_CELL - 2, PICTURE_CELL - 2, fill, 3);
    picture.text(String(acceptedLength), x + PICTURE_CELL / 2 - 1, y + 17, { size: 12, weight: 600, fill: ink, align: 'center' });
  }
}

function drawScale(picture, maxLength, y) {
  const width = 26;
  for (let length = 0; length <= maxLength; length += 1) {
    const { fill, ink } = colourOf(length, maxLength);
    const x = PICTURE_MARGIN + 40 + length * width;
    picture.box(x, y - 14, width, 20, fill);
    picture.text(String(length), x + width / 2, y, { size: 11, weight: 600, fill: ink, align: 'center' });
  }
  const x = PICTURE_MARGIN + 40 + (maxLength + 1) * width + 12;
  picture.text('accepted tokens, logarithmic colours', x, y, { size: 11, fill: picture.styles.quiet, room: PICTURE_WIDTH - x - PICTURE_MARGIN });
}

function drawLegend(picture, legend, y) {
  let x = PICTURE_MARGIN + 40;
  for (const source of SOURCE_NAMES) {
    picture.box(x, y - 10, 12, 12, picture.styles.colours[source], 3);
    x += 18;
    x += picture.text(SOURCES[source].name, x, y, { size: 12 }) + 6;
    x += picture.text((legend[source] ?? 0).toLocaleString('en'), x, y, { size: 12, weight: 600 }) + 24;
  }
}
