// The chat's answers as a line of tokens per step. Each point is a button that shows its answer. The
// points are made once for a list; while an answer runs, its own changes.
class Answers {
  constructor(onShow) {
    this.onShow = onShow;
    this.nav = make('nav', 'answers');
    this.nav.setAttribute('aria-label', 'Answers of this chat');
    this.back = makeIconButton('step', 'Earlier answer', ['M10 3 5 8l5 5'], () => this.move(-1));
    this.forth = makeIconButton('step', 'Later answer', ['m6 3 5 5-5 5'], () => this.move(1));
    this.label = make('p', 'label');
    this.position = make('b');
    this.question = make('span');
    this.label.append(this.position, this.question);
    this.line = make('div', 'sparkline');
    this.drawing = document.createElementNS(SVG, 'svg');
    this.drawing.setAttribute('preserveAspectRatio', 'none');
    this.drawing.setAttribute('aria-hidden', 'true');
    this.path = document.createElementNS(SVG, 'path');
    this.drawing.append(this.path);
    const name = makeTerm('Tokens per step', 'Each point is an answer of this chat, in order; the higher, the more tokens per step. The bottom is 1, no gain.');
    const head = make('p', 'sparkline-name');
    head.append(name);
    this.nav.append(this.back, this.label, this.forth, this.line, head);
    this.answers = [];
    this.points = [];
    this.place = -1;
    this.top = 0;
  }

  move(by) {
    const target = this.answers[this.place + by];
    if (target) this.onShow(target.id);
  }

  show(given, id) {
    const answers = given.map((answer) => ({ ...answer })); // the page's own objects may change
    const isSameList = answers.length === this.answers.length && answers.every((answer, i) => answer.id === this.answers[i].id);
    const before = this.answers;
    this.answers = answers;
    if (!isSameList) this.build();
    const top = Math.max(2, ...answers.map((answer) => answer.tokens_per_step ?? 0));
    const isSameScale = isSameList && top === this.top;
    this.top = top;
    const changed = answers.map((answer, i) => i).filter((i) => !isSameScale || isOther(answers[i], before[i]));
    for (const i of changed) this.drawPoint(i);
    if (changed.length) this.drawLine();
    this.setPlace(answers.findIndex((answer) => answer.id === id));
  }

  build() {
    this.points = this.answers.map(({ id }) => {
      const point = makeButton('point', '', () => this.onShow(id));
      point.dataset.answer = id;
      return point;
    });
    this.line.replaceChildren(this.drawing, ...this.points);
    this.line.classList.toggle('dense', this.points.length > 36);
    this.nav.hidden = this.points.length < 2;
    this.place = -1;
  }

  setPlace(place) {
    setText(this.position, `Answer ${place + 1} of ${this.answers.length}`);
    setText(this.question, this.answers[place]?.label ?? '');
    this.back.disabled = place <= 0;
    this.forth.disabled = place >= this.answers.length - 1;
    if (place === this.place) return;
    this.points[this.place]?.removeAttribute('aria-current');
    this.points[place]?.setAttribute('aria-current', 'true');
    this.place = place;
  }

  // 0 is one token per step, where nothing was gained; null is not known.
  height({ tokens_per_step: tokens }) {
    return isKnown(tokens) ? Math.max(0, tokens - 1) / (this.top - 1) : null;
  }

  drawPoint(i) {
    const answer = this.answers[i];
    const point = this.points[i];
    const height = this.height(answer);
    const rate = isKnown(answer.tokens_per_step) ? `${answer.tokens_per_step.toFixed(1)} tokens per step` : '';
    const told = [answer.note, rate].filter(Boolean).join(', ');
    const speed = isKnown(answer.tokens_per_second) ? `, ${Math.round(answer.tokens_per_second)} tokens/s` : '';
    setTip(point, `${answer.label}\n${told}${speed}`);
    point.setAttribute('aria-label', `Answer ${i + 1}: ${answer.label}; ${told}`);
    point.classList.toggle('unknown', height === null);
    point.style.setProperty('--height', height ?? 0);
  }

  drawLine() {
    const heights = this.answers.map((answer) => this.height(answer));
    this.drawing.setAttribute('viewBox', `0 0 ${Math.max(1, heights.length)} 1`);
    this.path.setAttribute('d', linePath(heights));
  }
}

function isKnown(number) {
  return typeof number === 'number';
}

function isOther(answer, before) {
  return answer.label !== before.label || answer.note !== before.note || answer.tokens_per_step !== before.tokens_per_step || answer.tokens_per_second !== before.tokens_per_second;
}

// A line through the known heights of 0 to 1, with gaps where one is null.
function linePath(heights) {
  return heights.map((height, i) => {
    if (height === null) return '';
    return `${i && heights[i - 1] !== null ? 'L' : 'M'}${i + 0.5},${1 - height}`;
  }).join('');
}
