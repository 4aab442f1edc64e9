// What was deleted last, put in as text, for as long as it can be undone. Triggers 'undo' with {kind, id}.
const bar = element.querySelector('.bar');
const status = element.querySelector('[role="status"]');
const undo = element.querySelector('.undo');
let end = null;
let dismissed = '';

const nameOf = ({ kind, id }) => `${kind} ${id}`;

function hide() {
  clearTimeout(end);
  bar.hidden = true;
}

function show() {
  const deletion = props.value;
  undo.disabled = false;
  clearTimeout(end);
  if (!deletion.kind || nameOf(deletion) === dismissed) {
    hide();
    return;
  }
  if (status.textContent !== deletion.text) status.textContent = deletion.text;
  bar.hidden = false;
  end = setTimeout(hide, 1000 * deletion.seconds);
}

undo.addEventListener('click', () => {
  undo.disabled = true; // until the answer, so that two clicks do not undo two deletions
  dismissed = '';
  trigger('undo', { kind: props.value.kind, id: props.value.id });
});
element.querySelector('.dismiss').addEventListener('click', () => {
  dismissed = nameOf(props.value);
  hide();
});
watch('value', show);
show();
