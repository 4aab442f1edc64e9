// A tooltip. Things that have one carry `data-tip`; of others `describe` knows the lines.
class Tooltip {
  constructor(id, { lifetime, owners = '[data-tip]', describe = tipLines }) {
    this.owners = owners;
    this.describe = describe;
    this.lifetime = lifetime;
    this.owner = null;
    this.hovered = null; // what the pointer was moved onto
    this.pointer = '';
    this.shown = '';
    this.box = make('div', 'tooltip');
    this.box.id = id;
    this.box.setAttribute('role', 'tooltip');
    this.box.hidden = true;
  }

  show(owner) {
    if (owner === this.owner) return;
    this.hide();
    const lines = this.describe(owner);
    if (!lines.length) return;
    this.box.replaceChildren(...lines);
    this.box.hidden = false;
    this.owner = owner;
    this.shown = owner.dataset.tip;
    if (owner === document.activeElement) owner.setAttribute('aria-describedby', this.box.id);
    this.place();
  }

  // What the tooltip tells may have changed while it is read.
  renew() {
    if (!this.owner) return;
    if (!this.owner.isConnected) this.hide();
    else if (this.owner.dataset.tip !== this.shown) {
      this.shown = this.owner.dataset.tip;
      this.box.replaceChildren(...this.describe(this.owner));
      this.place();
    }
  }

  place() {
    const place = this.owner.getClientRects()[0] ?? this.owner.getBoundingClientRect();
    const size = this.box.getBoundingClientRect();
    const left = Math.min(Math.max(8, place.left + place.width / 2 - size.width / 2), window.innerWidth - size.width - 8);
    const isBelow = place.top < size.height + 16;
    this.box.style.left = `${Math.round(left)}px`;
    this.box.style.top = `${Math.round(isBelow ? place.bottom + 8 : place.top - size.height - 8)}px`;
  }

  hide() {
    if (this.owner?.getAttribute('aria-describedby') === this.box.id) this.owner.removeAttribute('aria-describedby');
    this.box.hidden = true;
    this.owner = null;
  }

  // Hover and focus anywhere inside `area`; Escape closes. Touch has no hover: there a tap on a term
  // tells its meaning, and a tap on a step selects it.
  watch(area) {
    const ownerOf = (event) => event.target.closest?.(this.owners);
    // by movement alone: what comes to lie under a resting pointer was not pointed at
    area.addEventListener('pointermove', (event) => {
      const pointer = `${event.screenX} ${event.screenY}`;
      if (event.pointerType === 'touch' || pointer === this.pointer) return;
      this.pointer = pointer;
      const owner = ownerOf(event) ?? null;
      if (owner === this.hovered) return;
      this.hovered = owner;
      if (owner) this.show(owner);
      else this.hide();
    });
    area.addEventListener('pointerleave', () => {
      this.hovered = null;
      this.hide();
    });
    area.addEventListener('click', (event) => {
      const owner = event.target.closest('[data-tip]');
      if (owner) this.show(owner);
      else this.hide();
    });
    area.addEventListener('focusin', (event) => {
      const owner = event.target.matches(':focus-visible') && ownerOf(event);
      if (owner) this.show(owner);
    });
    area.addEventListener('focusout', () => this.hide());
    // what has the focus keeps its tooltip where its details are scrolled into sight
    area.addEventListener('scroll', () => {
      if (this.owner && this.owner === document.activeElement) this.place();
      else if (this.owner) {
        this.hovered = null;
        this.hide();
      }
    }, { passive: true, capture: true });
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || this.box.hidden) return;
      this.hide();
      event.preventDefault(); // and nothing else closes
      event.stopPropagation();
    }, { capture: true, signal: this.lifetime });
  }
}

function tipLines(owner) {
  return owner.dataset.tip.split('\n').map((line) => make('p', '', line));
}
