// One cell a step, in order, in rows; its colour and its number are the accepted length.
const CELL_WIDTH = 24; // at least, gap included
const ROW_HEADER_WIDTH = 36;

const PAUSED_TIP = 'Steps in which nothing drafted was tried: by what steps cost here and what drafts gave lately, it would not have paid.';

class Heatmap {
  constructor(onSelect, lifetime) {
    this.onSelect = onSelect;
    this.view = make('div', 'heatmap-view');
    this.key = make('div', 'scale-key');
    this.box = make('div', 'heatmap-box');
    this.grid = make('div', 'heatmap');
    this.grid.setAttribute('role', 'grid');
    this.grid.setAttribute('aria-label', 'Accepted tokens of each step, in order');
    this.box.append(this.grid);
    this.view.append(this.box, this.key);
    this.follower = new Follower(this.box);
    this.columns = 15;
    this.maxLength = 0;
    this.pausedKey = makeTerm('drafting paused', PAUSED_TIP);
    this.pausedKey.classList.add('paused-key');
    this.forget();
    this.grid.addEventListener('click', (event) => this.clicked(event));
    this.grid.addEventListener('keydown', (event) => this.pressed(event));
    const observer = new ResizeObserver(([{ contentRect }]) => this.fit(contentRect.width));
    observer.observe(this.box);
    lifetime.addEventListener('abort', () => observer.disconnect());
  }

  forget() {
    this.cells = [];
    this.rows = [];
    this.colours = [];
    this.stop = null; // the cell that Tab goes to
    this.selected = null;
    this.pausedKey.hidden = true;
    this.grid.replaceChildren();
    this.grid.hidden = true; // a grid without rows is none
    this.follower.rewind();
  }

  // The scale is fixed for an answer. It is drawn where the longest possible draft is known.
  setScale(maxLength) {
    if (maxLength === this.maxLength) return;
    this.maxLength = maxLength;
    this.colours = [];
    const lengths = [...new Set([0, 1, 2, 4, 8, 16, 32, maxLength])].filter((length) => length <= maxLength);
    const steps = make('ol');
    for (const length of lengths) {
      const step = make('li', '', String(length));
      const { fill, ink } = this.colour(length);
      step.style.background = fill;
      step.style.color = ink;
      steps.append(step);
    }
    this.key.replaceChildren(steps, make('span', '', 'accepted tokens, log scale'), this.pausedKey);
  }

  colour(length) {
    return (this.colours[length] ??= colourOf(length, this.maxLength));
  }

  fit(width) {
    if (width === 0) return;
    const fitting = Math.floor((width - ROW_HEADER_WIDTH) / CELL_WIDTH);
    const columns = Math.max(5, fitting - (fitting % 5)); // rows that are easy to count
    if (columns === this.columns) return;
    this.columns = columns;
    this.rows = [];
    this.grid.replaceChildren();
    this.cells.forEach((cell, index) => this.place(cell, index));
  }

  place(cell, index) {
    if (index % this.columns === 0) {
      const row = make('div');
      row.setAttribute('role', 'row');
      row.style.setProperty('--columns', this.columns);
      const header = make('span', '', String(index + 1));
      header.setAttribute('role', 'rowheader');
      header.setAttribute('aria-label', `from step ${index + 1}`);
      row.append(header);
      this.grid.append(row);
      this.rows.push(row);
    }
    this.rows.at(-1).append(cell);
  }

  add(steps) {
    for (const { index, acceptedLength, isPaused } of steps) {
      const cell = make('div', '', String(acceptedLength));
      cell.setAttribute('role', 'gridcell');
      cell.dataset.step = index;
      cell.tabIndex = -1;
      if (isPaused) {
        cell.dataset.paused = '';
        this.pausedKey.hidden = false;
        cell.setAttribute('aria-label', '0, drafting paused');
      }
      const { fill, ink } = this.colour(acceptedLength);
      cell.style.backgroundColor = fill;
      cell.style.color = ink;
      this.cells.push(cell);
      this.place(cell, index);
    }
    if (this.stop !== null || !this.cells.length) return;
    this.grid.hidden = false;
    this.setStop(0);
  }

  setStop(index) {
    if (this.stop !== null) this.cells[this.stop].tabIndex = -1;
    this.stop = index;
    this.cells[index].tabIndex = 0;
  }

  select(index) {
    if (this.selected !== null) this.cells[this.selected].removeAttribute('aria-selected');
    this.selected = index;
    if (index === null) return;
    this.cells[index].setAttribute('aria-selected', 'true');
    this.setStop(index);
    showInside(this.box, this.cells[index]);
  }

  focus(index) {
    this.cells[index].focus({ preventScroll: true });
  }

  clicked(event) {
    const cell = event.target.closest('[data-step]');
    if (cell) this.onSelect(Number(cell.dataset.step), 'click');
  }

  pressed(event) {
    const cell = event.target.closest('[data-step]');
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = Number(cell.dataset.step);
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.onSelect(here, 'enter');
      return;
    }
    const target = {
      ArrowRight: here + 1, ArrowLeft: here - 1, ArrowDown: here + this.columns, ArrowUp: here - this.columns,
      Home: 0, End: this.cells.length - 1,
    }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    if (target < 0 || target >= this.cells.length || target === here) return;
    this.focus(target);
    this.onSelect(target, 'arrow');
  }
}
