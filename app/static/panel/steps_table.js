// The steps as a table for screen readers. It is filled in idle moments when an answer is over; while
// it runs, the button before it brings it up to date, as soon as it has the focus.
const TABLE_COLUMNS = ['Step', 'Accepted', 'Match length', 'Width', 'Milliseconds', 'Text', 'Sources', 'Drafting'];
const ROWS_AT_ONCE = 60;
const whenIdle = window.requestIdleCallback ?? ((callback) => setTimeout(callback, 50));

class StepsTable {
  constructor() {
    this.steps = [];
    this.table = make('table', 'steps-table');
    this.table.append(make('caption', '', 'The decode steps of this answer'));
    const head = make('tr');
    for (const name of TABLE_COLUMNS) {
      const cell = make('th', '', name);
      cell.scope = 'col';
      head.append(cell);
    }
    const top = make('thead');
    top.append(head);
    this.body = make('tbody');
    this.table.append(top, this.body);
    const frame = make('div', 'visually-hidden');
    frame.append(this.table);
    this.reach = makeButton('table-reach', 'Table of all steps, for screen readers', () => this.fill());
    this.reach.addEventListener('focus', () => this.fill());
    this.frame = make('div', 'table-frame');
    this.frame.append(this.reach, frame);
  }

  forget() {
    this.steps = [];
    this.body.replaceChildren();
  }

  // `steps` may grow afterwards.
  show(steps) {
    this.steps = steps;
  }

  fill() {
    while (this.addRows());
  }

  fillWhenIdle() {
    whenIdle(() => { if (this.addRows()) this.fillWhenIdle(); });
  }

  // Whether there are more.
  addRows() {
    const done = this.body.rows.length;
    this.body.append(...this.steps.slice(done, done + ROWS_AT_ONCE).map(stepRow));
    return this.body.rows.length < this.steps.length;
  }
}

function stepRow(step) {
  const row = make('tr');
  const text = step.tokens.map((token) => token.text).join('');
  const sources = [...new Set(step.tokens.map((token) => SOURCES[token.source].name))].join(', ');
  const values = [step.index + 1, step.acceptedLength, step.matchLength, step.width, step.milliseconds, text, sources, step.isPaused ? 'paused' : ''];
  row.append(...values.map((value) => make('td', '', String(value))));
  return row;
}
