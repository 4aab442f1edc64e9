// A walk through the Trie: a text, then one token after the other; counts and sources at each branch.
// All put in as text. The server is asked for each path; an answer that comes late is not shown.
const PAUSE = 200; // milliseconds without a key, after which what was typed is looked up

const find = (selector) => element.querySelector(selector);
const input = find('input');
const path = find('ol');
const line = find('.line');
const table = find('table');
const numbers = new Numbers();
let chosen = []; // tokens chosen behind the text: {id, text}
let asked = 0;
let timer = null;

function tokenButton(className, text, label, onClick) {
  const made = makeButton(className, text, onClick);
  made.setAttribute('aria-label', label);
  return made;
}

async function look(focused = null) {
  clearTimeout(timer);
  asked += 1;
  const mine = asked;
  element.setAttribute('aria-busy', 'true');
  let found;
  try {
    found = await server.trie_walk({ text: input.value, path: chosen.map(({ id }) => id) });
  } catch {
    found = { error: 'The app does not answer. Is it still running?' };
  }
  if (mine !== asked) return;
  element.removeAttribute('aria-busy');
  showPath(found);
  if (focused) find(focused)?.focus();
}

function showPath({ error, steps = [], line: sentence = '', branches = [] }) {
  line.dataset.kind = error ? 'error' : '';
  setText(line, error ?? sentence);
  path.replaceChildren(...steps.map(step));
  path.parentElement.hidden = !steps.length;
  table.hidden = !branches.length;
  table.tBodies[0].replaceChildren(...branches.map(row));
}

// A step back: to where the path ends with this token, where it was chosen; else it was typed.
function step({ text }, index, { length }) {
  const item = make('li');
  const place = chosen.length - (length - index);
  if (place < 0 || index === length - 1) {
    item.append(make('span', 'token', text));
    if (index === length - 1) item.setAttribute('aria-current', 'true');
    return item;
  }
  item.append(tokenButton('token', text, `Back to ${text}`, () => {
    chosen = chosen.slice(0, place + 1);
    look('tbody button');
  }));
  return item;
}

function row(branch) {
  const made = make('tr');
  const head = make('th');
  head.scope = 'row';
  head.append(tokenButton('token', branch.text, `Go on with ${branch.text}`, () => {
    chosen = [...chosen, { id: branch.id, text: branch.text }];
    look('tbody button');
  }));
  const count = make('td', 'count', branch.count);
  const bar = make('span', 'bar');
  bar.setAttribute('aria-hidden', 'true');
  for (const [kind, share] of [['document', branch.document_share], ['history', 1 - branch.document_share]]) {
    const part = make('i');
    part.dataset.kind = kind;
    part.style.width = `${100 * branch.share * share}%`;
    bar.append(part);
  }
  count.append(make('span', 'percent', branch.percent), bar);
  made.append(head, count, make('td', 'after', branch.after), sources(branch));
  return made;
}

function sources(branch) {
  const cell = make('td', 'sources');
  for (const source of branch.sources) {
    const place = make('span', 'source');
    place.dataset.kind = source.kind;
    const name = source.kind === 'history'
      ? makeButton('name', source.name, () => trigger('open_chat', { id: source.id }))
      : make('span', 'name', source.name);
    if (source.kind === 'history') name.title = 'Open this chat';
    place.append(name, make('span', 'percent', source.percent));
    cell.append(place);
  }
  if (branch.more) cell.append(make('span', 'more', `and ${branch.more.toLocaleString('en')} more`));
  return cell;
}

function show() {
  const { note, numbers: values } = props.value;
  find('.note').hidden = !note;
  setText(find('.note'), note);
  numbers.show(values);
  find('form').hidden = !values.length;
  if (values.length) look();
}

function typed() {
  chosen = [];
  clearTimeout(timer);
  timer = setTimeout(look, PAUSE);
}

find('.totals').append(numbers.list);
input.addEventListener('input', typed);
find('form').addEventListener('submit', (event) => {
  event.preventDefault();
  chosen = [];
  look();
});
const tooltip = new Tooltip('trie-tooltip', { lifetime: newLifetime('trie') });
element.append(tooltip.box);
tooltip.watch(find('.totals'));
watch('value', show);
show();
