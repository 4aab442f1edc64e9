// The chat's answers as a line of tokens per step. Each point is a button that shows its answer.
class Answers {
  constructor(onShow) {
    this.onShow = onShow;
    this.nav = make('nav', 'answers');
    this.nav.setAttribute('aria-label', 'Answers of this chat');
    this.back = makeIconButton('step', 'Earlier answer', ['M10 3 5 8l5 5'], () => this.move(-1));
    this.forth = makeIconButton('step', 'Later answer', ['m6 3 5 5-5 5'], () => this.move(1));
    this.label = make('p', 'label');
    this.line = make('div', 'sparkline');
    this.nav.append(this.back, this.label, this.forth, this.line);
    this.shown = '';
    this.answers = [];
    this.place = -1;
  }

  move(by) {
    const target = this.answers[this.place + by];
    if (target) this.onShow(target.id);
  }

  show(answers, id) {
    const value = JSON.stringify([answers, id]);
    if (value === this.shown) return;
    this.shown = value;
    this.answers = JSON.parse(value)[0];
    this.place = this.answers.findIndex((answer) => answer.id === id);
    this.nav.hidden = this.answers.length < 2;
    this.back.disabled = this.place <= 0;
    this.forth.disabled = this.place >= this.answers.length - 1;
    const position = make('b', '', `Answer ${this.place + 1} of ${this.answers.length}`);
    this.label.replaceChildren(position, make('span', '', this.answers[this.place]?.label ?? ''));
    this.draw();
  }

  draw() {
    const top = Math.max(2, ...this.answers.map((answer) => answer.tokens_per_step));
    const height = (answer) => Math.max(0, answer.tokens_per_step - 1) / (top - 1); // 1: nothing was gained
    while (this.line.children.length > this.answers.length + 1) this.line.lastElementChild.remove();
    if (!this.line.firstElementChild) this.line.append(document.createElementNS(SVG, 'svg'));
    this.line.classList.toggle('dense', this.answers.length > 36);
    this.answers.forEach((answer, i) => {
      const button = this.line.children[i + 1] ?? this.add();
      button.dataset.answer = answer.id;
      button.dataset.tip = `${answer.label}\n${answer.tokens_per_step.toFixed(1)} tokens per step, ${Math.round(answer.tokens_per_second)} tokens/s`;
      button.setAttribute('aria-label', `Answer ${i + 1}: ${answer.label}; ${answer.tokens_per_step.toFixed(1)} tokens per step`);
      button.style.setProperty('--height', height(answer));
      if (i === this.place) button.setAttribute('aria-current', 'true');
      else button.removeAttribute('aria-current');
    });
    this.drawLine(this.answers.map(height));
  }

  add() {
    const button = makeButton('point', '', () => this.onShow(Number(button.dataset.answer)));
    this.line.append(button);
    return button;
  }

  drawLine(heights) {
    const drawing = this.line.firstElementChild;
    drawing.setAttribute('viewBox', `0 0 ${heights.length} 1`);
    drawing.setAttribute('preserveAspectRatio', 'none');
    drawing.setAttribute('aria-hidden', 'true');
    const line = drawing.firstElementChild ?? document.createElementNS(SVG, 'polyline');
    line.setAttribute('points', heights.map((height, i) => `${i + 0.5},${1 - height}`).join(' '));
    if (!line.parentElement) drawing.append(line);
  }
}
