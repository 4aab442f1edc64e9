// Everything about one step. The head is known here; the tree and the passages come from the server.
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
  }

  hide() {
    this.request += 1;
    this.section.hidden = true;
    this.body.replaceChildren();
  }

  async show(answer, step, numSteps, origins) {
    const request = (this.request += 1);
    this.section.hidden = false;
    this.section.setAttribute('aria-busy', 'true');
    setText(this.title, `Step ${step.index + 1}`);
    this.back.disabled = step.index === 0;
    this.forth.disabled = step.index >= numSteps - 1;
    setText(this.outcome, outcomeOf(step));
    let told;
    try {
      told = await this.load({ answer, step: step.index });
    } catch {
      told = { error: 'The server did not answer. Is the program still running?' };
    }
    if (request !== this.request) return false;
    this.section.removeAttribute('aria-busy');
    if (told.error) this.body.replaceChildren(make('p', 'error', told.error));
    else this.body.replaceChildren(...this.parts(told, origins));
    return true;
  }

  parts(told, origins) {
    const numbers = new Numbers();
    numbers.show(told.numbers, '');
    const parts = [numbers.list];
    if (told.nodes.length) {
      const names = { ...origins };
      for (const { sequence, label } of told.origins) names[sequence] ??= label;
      parts.push(make('h4', '', treeTitle(told)), drawTree(told.nodes, told.bonus, names));
    }
    if (told.origins.length) {
      const list = make('ul', 'origins');
      list.append(...told.origins.map((origin) => this.origin(origin)));
      parts.push(make('h4', '', 'Where the draft was found'), list);
    }
    return parts;
  }

  origin(origin) {
    const item = make('li');
    item.dataset.kind = origin.kind;
    const head = make('p', 'origin-head');
    head.append(this.originName(origin), make('span', 'place', originPlace(origin)));
    item.append(head);
    if (origin.message) item.append(make('p', 'message', origin.message));
    if (origin.before || origin.run || origin.after) {
      const excerpt = make('blockquote', 'excerpt');
      excerpt.dir = 'auto';
      const mark = make('mark', '', origin.run);
      mark.dataset.source = origin.kind === 'document' ? 'document' : 'history';
      excerpt.append(origin.before.trimStart(), mark, origin.after.trimEnd());
      item.append(excerpt);
    }
    return item;
  }

  originName({ kind, label, uri, conversation }) {
    if (kind !== 'chat' || conversation === null) {
      const name = make('b', '', label);
      name.title = uri;
      return name;
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

function outcomeOf(step) {
  const drafted = step.width - 1;
  if (drafted <= 0) return 'Nothing was drafted; the model added one token.';
  if (step.acceptedLength === 0) return `None of ${plural(drafted, 'drafted token')} accepted; the model added its own.`;
  return `${step.acceptedLength} of ${plural(drafted, 'drafted token')} accepted in one forward pass.`;
}

function treeTitle({ nodes }) {
  const rejected = nodes.filter((node, i) => i > 0 && !node.accepted).length;
  return nodes.length > 1 ? `Draft tree · ${rejected} rejected` : 'Draft tree';
}

function originPlace({ kind, offset, start, end, accepted }) {
  const place = start === null ? `token ${(offset + 1).toLocaleString('en')}`
    : `characters ${(start + 1).toLocaleString('en')}–${end.toLocaleString('en')}`;
  const parts = [kind === 'deleted' ? '' : place, accepted ? '' : 'not accepted'];
  return parts.filter(Boolean).join(' · ');
}
