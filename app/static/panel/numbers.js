// The answer's numbers. Each name can be focused and tells what it means. What is there stays in its
// place while the values change, so that focus and tooltip last.
const MAX_SHORT = 14; // characters of words that stand beside the numbers

class Numbers {
  constructor() {
    this.list = make('dl', 'numbers');
    this.summary = make('p', 'summary');
    this.summaryTerm = makeTerm('', '');
    this.summary.append(this.summaryTerm);
    this.names = '';
    this.terms = [];
    this.values = [];
  }

  show(numbers, summary = '', definition = '') {
    const names = numbers.map(({ name }) => name).join('\n');
    if (names !== this.names) this.build(numbers);
    this.names = names;
    numbers.forEach((number, i) => {
      setTip(this.terms[i], number.definition);
      setText(this.values[i], number.value);
      this.values[i].parentNode.classList.toggle('long', number.value.length > MAX_SHORT);
    });
    this.summary.hidden = !summary;
    setText(this.summaryTerm, summary);
    setTip(this.summaryTerm, definition);
  }

  build(numbers) {
    this.terms = numbers.map(({ name }) => makeTerm(name, ''));
    this.values = numbers.map(() => make('dd'));
    this.list.replaceChildren(...numbers.map(({ is_words: isWords }, i) => {
      const group = make('div', isWords ? 'words' : '');
      const term = make('dt');
      term.append(this.terms[i]);
      group.append(term, this.values[i]);
      return group;
    }));
  }
}
