// Two answers side by side as they grow, then the verdict and the numbers. All put in as text.
const result = element.querySelector('.result');
const find = (selector) => result.querySelector(selector);
const arms = [...result.querySelectorAll('[data-arm]')].map((section) => ({
  name: section.dataset.arm,
  line: section.querySelector('header p'),
  bar: section.querySelector('.bar i'),
  box: section.querySelector('.text'),
  text: '',
  pieces: '',
}));

// The end of so many characters from a place on: they may take two units each.
function after(text, start, length) {
  let at = start;
  for (let count = 0; count < length && at < text.length; count += 1) {
    at += text.codePointAt(at) > 0xffff ? 2 : 1;
  }
  return at;
}

// Adds what is new; where an answer does not go on from what is shown, it is shown anew.
function grow(arm, text, pieces) {
  if (text === arm.text) return;
  const { box } = arm;
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  if (!text.startsWith(arm.text) || !pieces.startsWith(arm.pieces)) {
    box.replaceChildren();
    arm.text = arm.pieces = '';
  }
  let at = arm.text.length;
  for (const piece of pieces.slice(arm.pieces.length).split('\n')) {
    const [length, source] = piece.split(' ');
    const end = after(text, at, Number(length));
    if (end > at) append(box, text.slice(at, end), source);
    at = end;
  }
  if (at < text.length) append(box, text.slice(at), 'model');
  arm.text = text;
  arm.pieces = pieces;
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

function append(box, text, source) {
  const last = box.lastElementChild;
  if (last && last.dataset.source === source) {
    last.append(text);
    return;
  }
  const run = make('span', '', text);
  run.dataset.source = source;
  box.append(run);
}

function row({ name, definition, plain, lookahead }) {
  const made = make('tr');
  const head = make('th');
  head.scope = 'row';
  head.append(makeTerm(name, definition));
  made.append(head, ...[plain, lookahead].map((value) => make('td', '', value)));
  return made;
}

// What is there stays, so that focus and tooltip last while the numbers change.
function showRows(rows) {
  const body = find('tbody');
  const names = rows.map(({ name }) => name).join('\n');
  if (names !== shownNames) body.replaceChildren(...rows.map(row));
  shownNames = names;
  rows.forEach(({ definition, plain, lookahead }, i) => {
    const [head, ...cells] = body.rows[i].cells;
    setTip(head.firstChild, definition);
    [plain, lookahead].forEach((value, at) => setText(cells[at], value));
  });
}

function showOutcome({ verdict, speed_up: speedUp }) {
  find('.outcome').hidden = !verdict && !speedUp;
  find('.speed-up').hidden = !speedUp;
  setText(find('.speed-up strong'), speedUp?.value ?? '');
  setText(find('.speed-up span'), speedUp?.definition ?? '');
  setText(find('.verdict'), verdict?.text ?? '');
  find('.verdict').dataset.kind = verdict?.kind ?? '';
}

function show() {
  const { value } = props;
  result.hidden = !value.status;
  if (!value.status) return;
  result.dataset.status = value.status;
  setText(find('.prompt'), value.prompt);
  setText(find('.line'), value.line);
  find('.line').hidden = !value.line;
  const isNothing = !value.rows.length; // neither has begun
  find('.arms').hidden = isNothing && ['stopped', 'failed'].includes(value.status);
  find('table').hidden = isNothing;
  const most = Math.max(1, ...arms.map(({ name }) => value.arms[name].tokens));
  for (const arm of arms) {
    const { line, text, pieces, tokens } = value.arms[arm.name];
    setText(arm.line, line);
    arm.bar.style.width = `${(100 * tokens) / most}%`;
    grow(arm, text, pieces);
  }
  showOutcome(value);
  showRows(value.rows);
  setText(find('.note'), value.note);
  find('.note').hidden = !value.note;
}

let shownNames = '';
const tooltip = new Tooltip('comparison-tooltip', { lifetime: newLifetime('comparison') });
element.append(tooltip.box);
tooltip.watch(result);
watch('value', show);
show();
