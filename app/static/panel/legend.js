// What the looks mean, and how many tokens of the answer came from each source so far. A pressed
// entry leaves the tint to its own source.
class Legend {
  constructor(onPick) {
    this.onPick = onPick;
    this.picked = null;
    this.terms = {};
    this.list = make('ul', 'legend');
    this.list.setAttribute('aria-label', 'Tokens by source');
    this.counts = {};
    for (const source of SOURCE_NAMES) {
      const item = make('li');
      item.dataset.source = source;
      const term = makeButton('term', '', () => this.pick(source));
      term.setAttribute('aria-pressed', 'false');
      this.terms[source] = term;
      term.dataset.tip = SOURCES[source].meaning;
      const sample = make('span', 'sample', 'ab');
      sample.dataset.source = source;
      sample.setAttribute('aria-hidden', 'true');
      this.counts[source] = make('span', 'count', '0');
      term.append(sample, make('span', 'name', SOURCES[source].name), this.counts[source]);
      item.append(term);
      this.list.append(item);
    }
  }

  pick(source) {
    if (this.picked) this.terms[this.picked].setAttribute('aria-pressed', 'false');
    this.picked = source === this.picked ? null : source;
    if (this.picked) this.terms[this.picked].setAttribute('aria-pressed', 'true');
    this.onPick(this.picked);
  }

  show(counts) {
    for (const source of SOURCE_NAMES) {
      const number = counts[source] ?? 0;
      setText(this.counts[source], number.toLocaleString('en'));
      this.counts[source].parentElement.parentElement.classList.toggle('none', number === 0);
    }
  }
}
