// The steps as a table for screen readers. It is filled when an answer is over, in idle moments.
const TABLE_COLUMNS = ['Step', 'Accepted', 'Match length', 'Width', 'Milliseconds', 'Text'];
const ROWS_AT_ONCE = 60;
const whenIdle = window.requestIdleCallback ?? ((callback) => setTimeout(callback, 50));

class StepsTable {
  constructor() {
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
    this.frame = make('div', 'visually-hidden');
    this.frame.append(this.table);
    this.filling = 0;
  }

  forget() {
    this.filling += 1;
    this.body.replaceChildren();
  }

  fill(steps) {
    this.forget();
    const filling = this.filling;
    let done = 0;
    const more = () => {
      if (filling !== this.filling) return;
      this.body.append(...steps.slice(done, done + ROWS_AT_ONCE).map(stepRow));
      done += ROWS_AT_ONCE;
      if (done < steps.length) whenIdle(more);
    };
    whenIdle(more);
  }
}

function stepRow(step) {
  const row = make('tr');
  const text = step.tokens.map((token) => token.text).join('');
  const values = [step.index + 1, step.acceptedLength, step.matchLength, step.width, step.milliseconds, text];
  row.append(...values.map((value) => make('td', '', String(value))));
  return row;
}
