// One tooltip for the whole panel. Things that have one carry `data-tip`; `describe` knows the rest.
const tooltip = make('div', 'panel-tooltip');
tooltip.id = 'panel-tooltip';
tooltip.setAttribute('role', 'tooltip');
tooltip.hidden = true;
let tipOwner = null;

function showTip(owner, describe) {
  if (owner === tipOwner) return;
  hideTip();
  const lines = describe(owner);
  if (!lines.length) return;
  tooltip.replaceChildren(...lines);
  tooltip.hidden = false;
  tipOwner = owner;
  if (owner === document.activeElement) owner.setAttribute('aria-describedby', tooltip.id);
  placeTip();
}

function placeTip() {
  const place = tipOwner.getClientRects()[0] ?? tipOwner.getBoundingClientRect();
  const size = tooltip.getBoundingClientRect();
  const left = Math.min(Math.max(8, place.left + place.width / 2 - size.width / 2), window.innerWidth - size.width - 8);
  const isBelow = place.top < size.height + 16;
  tooltip.style.left = `${Math.round(left)}px`;
  tooltip.style.top = `${Math.round(isBelow ? place.bottom + 8 : place.top - size.height - 8)}px`;
}

function hideTip() {
  if (tipOwner?.getAttribute('aria-describedby') === tooltip.id) tipOwner.removeAttribute('aria-describedby');
  tooltip.hidden = true;
  tipOwner = null;
}

// Hover and focus anywhere inside `area`; Escape closes. Touch has no hover: there a tap on a term
// tells its meaning, and a tap on a step selects it.
function giveTips(area, describe) {
  const ownerOf = (event) => event.target.closest?.('[data-tip], .heatmap [data-step], .steps [data-step]');
  area.addEventListener('pointerover', (event) => {
    if (event.pointerType === 'touch') return;
    const owner = ownerOf(event);
    if (owner) showTip(owner, describe);
    else hideTip();
  });
  area.addEventListener('pointerleave', hideTip);
  area.addEventListener('click', (event) => {
    const owner = event.target.closest('[data-tip]');
    if (owner && tipOwner !== owner) showTip(owner, describe);
    else if (!owner) hideTip();
  });
  area.addEventListener('focusin', (event) => {
    const owner = event.target.matches(':focus-visible') && ownerOf(event);
    if (owner) showTip(owner, describe);
  });
  area.addEventListener('focusout', hideTip);
  // what has the focus keeps its tooltip where its details are scrolled into sight
  area.addEventListener('scroll', () => {
    if (tipOwner && tipOwner === document.activeElement) placeTip();
    else hideTip();
  }, { passive: true, capture: true });
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || tooltip.hidden) return;
    hideTip();
    event.preventDefault(); // and nothing else closes
    event.stopPropagation();
  }, { capture: true });
}
