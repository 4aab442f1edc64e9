// Two more views of the same steps: how often each place of a draft was reached, and how often each
// accepted length occurred. What is counted grows with the steps; the bars in sight are drawn.

// counts: of each accepted length, how many steps have it. Longer ones than the scale count as its end.
function histogramOf(counts, maxLength) {
  const shown = new Array(maxLength + 1).fill(0);
  counts.forEach((count, length) => { shown[Math.min(length, maxLength)] += count; });
  return shown;
}

// Of each position of a draft, how many steps accepted as far as that.
function reachOf(counts, maxLength) {
  const reached = new Array(maxLength).fill(0);
  let total = 0;
  histogramOf(counts, maxLength).reduceRight((_, count, length) => {
    total += count;
    if (length) reached[length - 1] = total;
  }, 0);
  return reached;
}

class Chart {
  constructor(className, caption) {
    this.figure = make('figure', className);
    this.list = make('ol');
    this.figure.append(this.list, make('figcaption', '', caption));
    this.figure.hidden = true;
    this.bars = [];
  }

  // bars: { label, count, shown, tip, fill } each; those that stay keep their elements.
  draw(bars) {
    const tallest = Math.max(1, ...bars.map((bar) => bar.count));
    while (this.bars.length > bars.length) this.bars.pop().item.remove();
    while (this.bars.length < bars.length) this.bars.push(this.add());
    bars.forEach(({ label, count, shown, tip, fill }, i) => {
      const { item, value, bar, name, words } = this.bars[i];
      setTip(item, tip);
      setText(value, shown);
      setText(name, label);
      setText(words, tip);
      bar.style.height = `${(count / tallest) * 100}%`;
      bar.style.background = fill;
    });
  }

  add() {
    const parts = {
      item: make('li'), value: make('span', 'value'), bar: make('span', 'bar'), name: make('span', 'label'), words: make('span', 'visually-hidden'),
    };
    const column = make('span', 'column');
    column.append(parts.value, parts.bar);
    column.setAttribute('aria-hidden', 'true');
    parts.name.setAttribute('aria-hidden', 'true');
    parts.item.append(column, parts.name, parts.words);
    this.list.append(parts.item);
    return parts;
  }
}

class Charts {
  constructor() {
    this.reach = new Chart('reach', 'Steps, in per cent, that reached each position of their draft');
    this.histogram = new Chart('histogram', 'Steps with each number of accepted tokens');
    this.forget();
  }

  forget() {
    this.counts = [];
    this.numSteps = 0;
  }

  add(steps) {
    for (const { acceptedLength } of steps) this.counts[acceptedLength] = (this.counts[acceptedLength] ?? 0) + 1;
    this.numSteps += steps.length;
  }

  draw(maxLength) {
    const share = (count) => count / Math.max(1, this.numSteps);
    const told = (count) => `${plural(count, 'step')} of ${this.numSteps.toLocaleString('en')} (${percent(share(count))})`;
    const fill = (length) => colourOf(length, maxLength).fill;
    if (!this.reach.figure.hidden) {
      this.reach.draw(reachOf(this.counts, maxLength).map((count, i) => ({
        label: String(i + 1), count, shown: count ? String(Math.round(share(count) * 100)) : '', fill: fill(i + 1),
        tip: `Position ${i + 1}: reached in ${told(count)}`,
      })));
    }
    if (!this.histogram.figure.hidden) {
      this.histogram.draw(histogramOf(this.counts, maxLength).map((count, length) => ({
        label: String(length), count, shown: count ? String(count) : '', fill: fill(length),
        tip: `${length} accepted: ${told(count)}`,
      })));
    }
  }
}
