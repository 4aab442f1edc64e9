// The import: a line, a progress bar while it runs, and what was skipped and why. All put in as text.
const line = element.querySelector('p');
const bar = element.querySelector('progress');
const details = element.querySelector('details');
const summary = element.querySelector('summary');
const list = element.querySelector('ul');

function show() {
  const { text, done, total, skipped, more_skipped: more } = props.value;
  line.textContent = text;
  bar.hidden = total === 0;
  bar.max = Math.max(total, 1);
  bar.value = done;
  details.hidden = skipped.length === 0;
  summary.textContent = `Skipped files (${(skipped.length + more).toLocaleString('en')})`;
  list.replaceChildren(...skipped.map(({ name, reason }) => {
    const item = document.createElement('li');
    const file = document.createElement('span');
    file.className = 'file';
    file.textContent = name;
    item.append(file, ` ${reason}`);
    return item;
  }));
  if (more > 0) {
    const item = document.createElement('li');
    item.textContent = `and ${more.toLocaleString('en')} more`;
    list.append(item);
  }
}

watch('value', show);
show();
