// Everything about one step. The head is known here; the tree and the passages come from the server.
const PATIENCE = 4000; // milliseconds until it is said that the server is silent; what comes later is shown
const SILENCE = 'The server did not answer. Is the program still running?';

class Details {
  constructor({ load, onMove, onClose, onOpenChat }) {
    this.load = load;
    this.onOpenChat = onOpenChat;
    this.section = make('section', 'details');
    this.section.hidden = true;
    this.section.tabIndex = -1;
    this.section.setAttribute('aria-label', 'Details of the selected step');
    this.title = make('h3');
    this.back = makeIconButton('step', 'Earlier step', ['M10 3 5 8l5 5'], () => onMove(-1));
    this.forth = makeIconButton('step', 'Later step', ['m6 3 5 5-5 5'], () => onMove(1));
    const close = makeIconButton('close', 'Close the details', ['m4 4 8 8M12 4l-8 8'], onClose);
    const head = make('div', 'section-head');
    head.append(this.title, this.back, this.forth, close);
    this.outcome = make('p', 'outcome');
    this.body = make('div', 'details-body');
    this.section.append(head, this.outcome, this.body);
    this.request = 0;
    this.step = null;
  }

  hide() {
    this.request += 1;
    this.step = null;
    this.section.hidden = true;
    this.body.replaceChildren();
  }

  // While the answer runs there are more and more later steps.
  setNumSteps(numSteps) {
    if (!this.step) return;
    this.back.disabled = this.step.index === 0;
    this.forth.disabled = this.step.index >= numSteps - 1;
    // the focus is not left on a button that does nothing
    if (this.section.querySelector(':disabled:focus')) this.section.focus({ preventScroll: true });
  }

  // Returns whether this step is still the one that is shown.
  async show(answer, step, numSteps, labels) {
    const request = (this.request += 1);
    this.step = step;
    this.section.hidden = false;
    this.section.setAttribute('aria-busy', 'true');
    setText(this.title, `Step ${step.index + 1}`);
    this.setNumSteps(numSteps);
    setText(this.outcome, outcomeOf(step));
    const patience = setTimeout(() => { if (request === this.request) this.showError(SILENCE); }, PATIENCE);
    let told;
    try {
      told = await this.load({ answer, step: step.index });
    } catch {
      told = { error: SILENCE };
    }
    clearTimeout(patience);
    if (request !== this.request) return false;
    this.section.removeAttribute('aria-busy');
    if (told.error) this.showError(told.error);
    else this.body.replaceChildren(...this.parts(told, labels));
    return true;
  }

  showError(sentence) {
    this.section.removeAttribute('aria-busy');
    this.body.replaceChildren(make('p', 'error', sentence));
  }

  parts(told, labels) {
    const numbers = new Numbers();
    numbers.show(told.numbers);
    const parts = [numbers.list];
    if (told.nodes.length) {
      const names = { ...labels };
      for (const { sequence, label } of told.passages) names[sequence] ??= label;
      parts.push(make('h4', '', treeTitle(told)), drawTree(told.nodes, told.bonus, names));
    }
    if (told.passages.length) {
      const list = make('ul', 'origins');
      list.append(...told.passages.map((passage) => this.passage(passage)));
      parts.push(make('h4', '', 'Where the draft was found'), list);
    }
    return parts;
  }

  passage(passage) {
    const item = make('li');
    item.dataset.kind = passage.kind;
    const head = make('p', 'origin-head');
    head.append(this.passageName(passage), make('span', 'place', passagePlace(passage)));
    item.append(head);
    if (passage.message) item.append(make('p', 'message', passage.message));
    if (passage.before || passage.run || passage.after) {
      const excerpt = make('blockquote', 'excerpt');
      excerpt.dir = 'auto';
      const mark = make('mark', '', passage.run);
      mark.dataset.source = passage.kind === 'document' ? 'document' : 'history';
      excerpt.append(passage.before.trimStart(), mark, passage.after.trimEnd());
      item.append(excerpt);
    }
    return item;
  }

  passageName({ kind, label, uri, conversation }) {
    if (kind !== 'chat' || conversation === null) {
      return uri ? makeTerm(label, uri) : make('b', '', label);
    }
    const link = make('a', '', label);
    link.href = `?chat=${conversation}`;
    link.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
      event.preventDefault();
      this.onOpenChat(conversation);
    });
    return link;
  }
}

// In a sentence. A step adds no token of the model where the answer ended within it.
function outcomeOf(step) {
  const drafted = step.width - 1;
  const hasOwn = step.tokens.some((token) => token.source === 'model');
  if (drafted <= 0) {
    const why = step.isPaused ? 'Drafting was paused, since it would not have paid' : 'Nothing was drafted';
    return hasOwn ? `${why}; the model added one token.` : `${why}, and the answer ended there.`;
  }
  if (step.acceptedLength === 0) {
    return `None of ${plural(drafted, 'drafted token')} accepted; ${hasOwn ? 'the model added its own' : 'the answer ended there'}.`;
  }
  return `${step.acceptedLength} of ${plural(drafted, 'drafted token')} accepted in one forward pass${hasOwn ? '' : ', where the answer ended'}.`;
}

function treeTitle({ nodes }) {
  const rejected = nodes.filter((node, i) => i > 0 && !node.accepted).length;
  return nodes.length > 1 ? `Draft tree · ${rejected} rejected` : 'Draft tree';
}

function passagePlace({ kind, offset, start, end, accepted }) {
  const token = offset < 0 ? '' : `token ${(offset + 1).toLocaleString('en')}`;
  const place = start === null ? token
    : `characters ${(start + 1).toLocaleString('en')}–${end.toLocaleString('en')}`;
  const parts = [kind === 'deleted' ? '' : place, accepted ? '' : 'not accepted'];
  return parts.filter(Boolean).join(' · ');
}
