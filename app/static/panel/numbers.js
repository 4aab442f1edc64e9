// The answer's numbers. Each name can be focused and tells what it means.
class Numbers {
  constructor() {
    this.list = make('dl', 'numbers');
    this.summary = make('p', 'summary');
    this.names = '';
    this.values = [];
  }

  show(numbers, summary) {
    const names = JSON.stringify(numbers.map(({ name, definition }) => [name, definition]));
    if (names !== this.names) {
      this.names = names;
      this.values = numbers.map(() => make('dd'));
      this.list.replaceChildren(...numbers.map(({ name, definition }, i) => {
        const group = make('div');
        const term = make('dt');
        const button = makeButton('term', name, () => {});
        button.dataset.tip = definition;
        term.append(button);
        group.append(term, this.values[i]);
        return group;
      }));
    }
    numbers.forEach(({ value }, i) => setText(this.values[i], value));
    setText(this.summary, summary);
  }
}
