// Making elements. Text from anywhere goes in as text only.
const SVG = 'http://www.w3.org/2000/svg';

function make(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function makeButton(className, label, onClick) {
  const made = make('button', className, label);
  made.type = 'button';
  made.addEventListener('click', onClick);
  return made;
}

// A word that tells its definition to mouse, finger and keyboard, through the tooltip.
function makeTerm(word, definition) {
  const made = make('button', 'term', word);
  made.type = 'button';
  made.dataset.tip = definition;
  return made;
}

// A button that shows a drawing: `paths` are SVG path data in a square of 16.
function makeIconButton(className, label, paths, onClick) {
  const made = makeButton(className, '', onClick);
  made.setAttribute('aria-label', label);
  made.title = label;
  const drawing = document.createElementNS(SVG, 'svg');
  drawing.setAttribute('viewBox', '0 0 16 16');
  drawing.setAttribute('aria-hidden', 'true');
  for (const data of paths) {
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('d', data);
    drawing.append(path);
  }
  made.append(drawing);
  return made;
}

function makeSection(className, ...children) {
  const made = make('section', className);
  made.append(...children);
  return made;
}

function makeHead(title, ...rest) {
  const head = make('div', 'section-head');
  head.append(make('h3', '', title), ...rest);
  return head;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setTip(node, text) {
  if (node.dataset.tip !== text) node.dataset.tip = text;
}

function plural(number, noun) {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

function percent(share) {
  if (share > 0 && share < 0.01) return '< 1 %';
  return `${Math.round(share * 100)} %`;
}

function isCalm() {
  return window.matchMedia('(prefers-reduced-motion: reduce)').matches;
}

// For listeners that are not on the component's own elements. Gradio may put the component in anew;
// then what the script listened to before ends.
function newLifetime(name) {
  const lifetimes = (window.lookaheadChatLifetimes ??= {});
  lifetimes[name]?.abort();
  lifetimes[name] = new AbortController();
  return lifetimes[name].signal;
}
