// The answer's text in its steps: what was accepted in one step is one chip, its pieces by source.
// White space is shown by glyphs that CSS draws, so that the text stays the answer's, sign for sign.
const GLYPHS = { ' ': 'space', '\u00a0': 'space', '\t': 'tab', '\n': 'newline' };

function appendText(parent, text) {
  for (const part of text.split(/([ \u00a0\t\n])/)) {
    if (GLYPHS[part]) parent.append(make('i', GLYPHS[part], part));
    else if (part) parent.append(part);
  }
}

// Neighbouring tokens of one source become one piece.
function appendPieces(parent, tokens) {
  let piece = null;
  for (const token of tokens) {
    if (piece?.dataset.source !== token.source) {
      piece = make('span');
      piece.dataset.source = token.source;
      parent.append(piece);
    }
    appendText(piece, token.text);
  }
}

const CHARACTERS = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

// A character of several signs, such as a flag, is drawn whole where the last of them stands.
function joinCharacter(before, behind) {
  behind.normalize();
  const [left, right] = [before?.lastChild, behind.firstChild];
  if (!(left instanceof Text && right instanceof Text) || right.data < '\u0300') return;
  const place = left.data.length;
  const { index } = CHARACTERS.segment(left.data + right.data).containing(place);
  right.insertData(0, left.data.slice(index));
  left.deleteData(index, place - index);
}

class StepText {
  constructor() {
    this.box = make('div', 'steps-box');
    this.box.tabIndex = 0;
    this.box.setAttribute('role', 'group');
    this.box.setAttribute('aria-label', 'The answer in its steps; the arrow keys go from step to step');
    this.note = make('p', 'unsplit-note', 'It is not known which step gave which words: this answer was kept before that was recorded.');
    this.text = make('div', 'steps');
    this.text.dir = 'auto';
    this.box.append(this.note, this.text);
    this.follower = new Follower(this.box);
    this.forget();
  }

  forget() {
    this.nodes = [];
    this.text.replaceChildren();
    this.block = null;
    this.piece = null; // the last one with a text
    this.endsLine = true;
    this.current = null;
    this.unsplit = '';
    this.note.hidden = true;
    this.follower.rewind();
  }

  // An answer whose text cannot be divided stands there as a whole, before its steps.
  showUnsplit(text) {
    if (text === this.unsplit) return;
    this.unsplit = text;
    this.note.hidden = !text;
    const whole = make('div', 'unsplit');
    appendText(whole, text);
    this.text.prepend(whole);
  }

  add({ first, steps }) {
    if (first) this.append(this.bonus(first.text), first.text);
    for (const step of steps) {
      const own = step.tokens.filter((token) => token.source === 'model');
      let node = null;
      if (step.accepted.length) {
        node = make('span', 'run');
        node.dataset.step = step.index;
        appendPieces(node, step.accepted);
        node.firstChild.dataset.count = plural(step.accepted.length, 'token');
        this.append(node, step.accepted.at(-1).text);
      }
      for (const token of own) {
        const bonus = this.bonus(token.text);
        bonus.dataset.step = step.index;
        this.append(bonus, token.text);
        node ??= bonus;
      }
      this.nodes[step.index] = node;
    }
  }

  bonus(text) {
    const node = make('span', 'bonus');
    appendText(node, text);
    return node;
  }

  // A line that ended opens a new block, so that what stands above it is laid out once only.
  append(node, lastText) {
    if (this.endsLine) {
      this.block = make('div');
      this.text.append(this.block);
    }
    this.block.append(node);
    for (const piece of node.className === 'run' ? node.children : [node]) {
      joinCharacter(this.piece, piece);
      if (piece.textContent) this.piece = piece;
    }
    if (lastText) this.endsLine = lastText.endsWith('\n');
    else if (node.textContent) this.endsLine = node.textContent.endsWith('\n');
    else this.endsLine = false;
  }

  select(index) {
    this.current?.removeAttribute('aria-current');
    this.current = index === null ? null : this.nodes[index];
    this.current?.setAttribute('aria-current', 'step');
    if (this.current) showInside(this.box, this.current);
  }
}
