// Accepted lengths as colours: cividis (Nuñez, Anderton, Renslow, PLOS ONE 2018), which reads the
// same with every kind of colour vision. Fixed from 0 to the longest draft; the position on it is
// logarithmic, because short runs are common and long ones rare.
const CIVIDIS = [[0, 32, 77], [49, 68, 107], [102, 105, 112], [149, 143, 120], [203, 186, 105], [255, 234, 70]];

function scalePosition(length, maxLength) {
  return maxLength > 0 ? Math.min(1, Math.log1p(length) / Math.log1p(maxLength)) : 0;
}

function cividis(position) {
  const place = position * (CIVIDIS.length - 1);
  const left = Math.min(Math.floor(place), CIVIDIS.length - 2);
  return CIVIDIS[left].map((channel, i) => Math.round(channel + (place - left) * (CIVIDIS[left + 1][i] - channel)));
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// { fill, ink }: the colour of a length, and black or white, whichever is read better on it.
function colourOf(length, maxLength) {
  const rgb = cividis(scalePosition(length, maxLength));
  const light = luminance(rgb);
  return { fill: `rgb(${rgb.join(' ')})`, ink: 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? '#fff' : '#000' };
}
