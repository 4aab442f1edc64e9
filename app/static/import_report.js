// The import: a line with what can be done, a progress bar, and what was skipped and why. All put
// in as text. Triggers 'cancel_import', 'resume_import' and 'dismiss_import'.
const line = element.querySelector('p');
const bar = element.querySelector('progress');
const details = element.querySelector('details');
const summary = element.querySelector('summary');
const reasonList = element.querySelector('.reasons');
const skippedList = element.querySelector('.skipped');
const buttons = { cancel: 'running', resume: 'unfinished', dismiss: 'unfinished' };

function item(text) {
  const made = document.createElement('li');
  made.textContent = text;
  return made;
}

function skippedItem({ name, reason }) {
  const made = item('');
  const file = document.createElement('span');
  file.className = 'file';
  file.textContent = name;
  made.append(file, ` ${reason}`);
  return made;
}

function show() {
  const { text, state, done, total, reasons, skipped, more_skipped: more } = props.value;
  line.textContent = text;
  bar.hidden = total === 0;
  bar.max = Math.max(total, 1);
  bar.value = done;
  for (const [name, when] of Object.entries(buttons)) {
    const button = element.querySelector(`.${name}`);
    button.disabled = false;
    button.hidden = state !== when;
  }
  details.hidden = skipped.length === 0;
  summary.textContent = `Skipped files (${(skipped.length + more).toLocaleString('en')})`;
  reasonList.replaceChildren(...reasons.map(item));
  skippedList.replaceChildren(...skipped.map(skippedItem));
  if (more > 0) skippedList.append(item(`and ${more.toLocaleString('en')} more`));
}

for (const name of Object.keys(buttons)) {
  const button = element.querySelector(`.${name}`);
  button.addEventListener('click', () => {
    button.disabled = true; // until the next picture
    trigger(`${name}_import`, {});
  });
}
watch('value', show);
show();
