// Two more views of the same steps: how often each place of a draft was reached, and how often each
// accepted length occurred. Drawn when they are looked at.
function reachOf(steps, maxLength) {
  return Array.from({ length: maxLength }, (_, i) => steps.filter((step) => step.acceptedLength > i).length);
}

function histogramOf(steps, maxLength) {
  const counts = new Array(maxLength + 1).fill(0);
  for (const { acceptedLength } of steps) counts[Math.min(acceptedLength, maxLength)] += 1;
  return counts;
}

// bars: { label, count, share, tip, colour }
function drawBars(figure, bars) {
  const tallest = Math.max(1, ...bars.map((bar) => bar.count));
  const list = figure.querySelector('ol');
  list.replaceChildren(...bars.map(({ label, count, shown, tip, fill }) => {
    const item = make('li');
    item.dataset.tip = tip;
    const value = make('span', 'value', shown);
    const bar = make('span', 'bar');
    bar.style.height = `${(count / tallest) * 100}%`;
    bar.style.background = fill;
    const column = make('span', 'column');
    column.append(value, bar);
    column.setAttribute('aria-hidden', 'true');
    const name = make('span', 'label', label);
    name.setAttribute('aria-hidden', 'true');
    item.append(column, name, make('span', 'visually-hidden', tip));
    return item;
  }));
}

function makeChart(className, caption) {
  const figure = make('figure', className);
  figure.append(make('ol'), make('figcaption', '', caption));
  figure.hidden = true;
  return figure;
}

class Charts {
  constructor() {
    this.reach = makeChart('reach', 'Steps, in per cent, that reached each position of their draft');
    this.histogram = makeChart('histogram', 'Steps with each number of accepted tokens');
  }

  draw(steps, maxLength) {
    const total = Math.max(1, steps.length);
    const fill = (length) => colourOf(length, maxLength).fill;
    if (!this.reach.hidden) {
      drawBars(this.reach, reachOf(steps, maxLength).map((count, i) => ({
        label: String(i + 1), count, shown: count ? String(Math.round((count / total) * 100)) : '', fill: fill(i + 1),
        tip: `Position ${i + 1}: reached in ${plural(count, 'step')} of ${steps.length} (${percent(count / total)})`,
      })));
    }
    if (!this.histogram.hidden) {
      drawBars(this.histogram, histogramOf(steps, maxLength).map((count, length) => ({
        label: String(length), count, shown: count ? String(count) : '', fill: fill(length),
        tip: `${length} accepted: ${plural(count, 'step')} of ${steps.length} (${percent(count / total)})`,
      })));
    }
  }
}
