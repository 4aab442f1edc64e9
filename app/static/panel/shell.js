// The panel's frame: beside the chat where there is room, else a sheet over it; open or closed, which
// the browser remembers. How much room there is, the style sheets say in `--room`.
const REMEMBERED = 'lookahead-chat-panel';

class Shell {
  constructor(onToggle, lifetime) {
    this.onToggle = onToggle;
    this.isOpen = false;
    this.isAwaited = false; // closed yet, and told what it will show
    this.room = '';
    this.toggle = makeIconButton('panel-toggle', 'Behind the answer: its steps and numbers', ['M2 3.5h12v9H2zM9.5 3.5v9M11.5 6h.5M11.5 8h.5M11.5 10h.5'], () => this.choose(!this.isOpen));
    this.toggle.id = 'panel-toggle';
    this.toggle.setAttribute('aria-controls', 'panel-body');
    this.body = make('aside', 'panel-body');
    this.body.id = 'panel-body';
    this.body.setAttribute('aria-label', 'Behind the answer');
    this.close = makeIconButton('close', 'Close the panel', ['m4 4 8 8M12 4l-8 8'], () => this.choose(false));
    this.head = make('header', 'panel-head');
    const listen = (target, type, listener) => target.addEventListener(type, listener, { signal: lifetime });
    listen(window, 'resize', () => { if (roomNow() !== this.room) this.fit(); });
    listen(document, 'keydown', (event) => {
      if (event.key === 'Escape' && this.isSheet() && !event.defaultPrevented) this.choose(false);
      if (event.key === 'Tab' && this.isSheet()) this.goRound(event);
    });
    // a sheet keeps the focus: what lies under it cannot be seen
    listen(document, 'focusin', (event) => {
      if (this.isSheet() && !this.body.contains(event.target)) this.close.focus();
    });
    listen(document, 'lookahead-chat:demo', () => this.showDemo());
  }

  isSheet() {
    return this.isOpen && this.room !== 'wide';
  }

  begin() {
    const remembered = stored('sessionStorage') ?? stored('localStorage');
    this.room = roomNow();
    this.set(remembered === null ? this.room === 'wide' : remembered === 'open');
  }

  // What somebody chose is remembered, and the focus goes where they go on.
  choose(isOpen) {
    store('localStorage', isOpen ? 'open' : 'closed');
    store('sessionStorage', null);
    this.set(isOpen);
    if (!isOpen) this.toggle.focus();
  }

  // The demo is to be seen: at once beside the chat; over it, when its first answer has been read there.
  showDemo() {
    if (this.isOpen) return;
    if (roomNow() === 'wide') {
      this.openHere();
    } else {
      this.isAwaited = true;
      this.onToggle(true);
    }
  }

  // Opened by nobody: a reload of this tab keeps it so, and nothing else does.
  openHere() {
    store('sessionStorage', 'open');
    this.set(true);
  }

  set(isOpen) {
    this.isOpen = isOpen;
    this.isAwaited = false;
    this.body.hidden = !isOpen;
    this.toggle.setAttribute('aria-expanded', String(isOpen));
    element.closest('#chat-row').dataset.panel = isOpen ? 'open' : 'closed';
    this.fit();
    this.onToggle(isOpen);
  }

  // Brings a section to the top, below the head.
  scrollTo(node) {
    const by = node.getBoundingClientRect().top - this.head.getBoundingClientRect().bottom;
    this.body.scrollBy({ top: by, behavior: isCalm() ? 'auto' : 'smooth' });
  }

  fit() {
    this.room = roomNow();
    const isSheet = this.isSheet();
    this.toggle.hidden = isSheet; // it would lie under it
    this.body.toggleAttribute('data-sheet', isSheet);
    if (isSheet) this.body.setAttribute('role', 'dialog');
    else this.body.removeAttribute('role');
    if (isSheet) this.body.setAttribute('aria-modal', 'true');
    else this.body.removeAttribute('aria-modal');
    if (isSheet && !this.body.contains(document.activeElement)) this.close.focus();
  }

  // Tab goes round inside a sheet, both ways.
  goRound(event) {
    const stops = [...this.body.querySelectorAll('button, input, a[href], [tabindex="0"]')].filter(isTabStop);
    const [from, to] = event.shiftKey ? [stops[0], stops.at(-1)] : [stops.at(-1), stops[0]];
    if (document.activeElement !== from && this.body.contains(document.activeElement)) return;
    event.preventDefault();
    to.focus();
  }
}

function isTabStop(node) {
  const isOtherChoice = node.type === 'radio' && !node.checked;
  return node.tabIndex >= 0 && !node.disabled && !isOtherChoice && node.checkVisibility();
}

// "wide" where the panel stands beside the chat, "narrow" on a phone, "" between.
function roomNow() {
  return getComputedStyle(element).getPropertyValue('--room').trim();
}

// A browser may keep nothing; then the panel is as by default.
function stored(storage) {
  try {
    return window[storage].getItem(REMEMBERED);
  } catch {
    return null;
  }
}

function store(storage, value) {
  try {
    if (value === null) window[storage].removeItem(REMEMBERED);
    else window[storage].setItem(REMEMBERED, value);
  } catch {
    // it is as by default next time
  }
}
