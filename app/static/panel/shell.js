// The panel's frame: beside the chat where there is room, else a sheet over it; open or closed, which
// the browser remembers.
const REMEMBERED = 'lookahead-chat-panel';
const roomy = window.matchMedia('(min-width: 1100px)');

class Shell {
  constructor(onToggle) {
    this.onToggle = onToggle;
    this.isOpen = false;
    this.toggle = makeIconButton('panel-toggle', 'Behind the answer: its steps and numbers', ['M2 3.5h12v9H2zM9.5 3.5v9M11.5 6h.5M11.5 8h.5M11.5 10h.5'], () => this.set(!this.isOpen, true));
    this.toggle.id = 'panel-toggle';
    this.toggle.setAttribute('aria-controls', 'panel-body');
    this.body = make('aside', 'panel-body');
    this.body.id = 'panel-body';
    this.body.setAttribute('aria-label', 'Behind the answer');
    this.close = makeIconButton('close', 'Close the panel', ['m4 4 8 8M12 4l-8 8'], () => this.set(false, true));
    this.head = make('header', 'panel-head');
    roomy.addEventListener('change', () => this.fit());
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.isSheet() && !event.defaultPrevented) this.set(false, true);
    });
    // a sheet keeps the focus: what lies under it cannot be seen
    document.addEventListener('focusin', (event) => {
      if (this.isSheet() && !element.contains(event.target)) this.close.focus();
    });
  }

  isSheet() {
    return this.isOpen && !roomy.matches;
  }

  begin() {
    const remembered = remember();
    this.set(remembered === null ? roomy.matches : remembered === 'open', false);
  }

  set(isOpen, isAsked) {
    this.isOpen = isOpen;
    if (isAsked) remember(isOpen ? 'open' : 'closed');
    this.body.hidden = !isOpen;
    this.toggle.setAttribute('aria-expanded', String(isOpen));
    element.closest('#chat-row').dataset.panel = isOpen ? 'open' : 'closed';
    this.fit();
    this.onToggle(isOpen);
    if (!isAsked) return;
    if (this.isSheet()) this.close.focus();
    else if (!isOpen) this.toggle.focus();
  }

  // Brings a section to the top, below the head.
  scrollTo(node) {
    const by = node.getBoundingClientRect().top - this.head.getBoundingClientRect().bottom;
    this.body.scrollBy({ top: by, behavior: isCalm() ? 'auto' : 'smooth' });
  }

  fit() {
    const isSheet = this.isSheet();
    this.body.toggleAttribute('data-sheet', isSheet);
    if (isSheet) this.body.setAttribute('role', 'dialog');
    else this.body.removeAttribute('role');
    if (isSheet) this.body.setAttribute('aria-modal', 'true');
    else this.body.removeAttribute('aria-modal');
  }
}

// A browser may keep nothing; then the panel is as by default.
function remember(value) {
  try {
    if (value) window.localStorage.setItem(REMEMBERED, value);
    return window.localStorage.getItem(REMEMBERED);
  } catch {
    return null;
  }
}
