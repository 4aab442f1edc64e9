// Files and folders are dropped or chosen here and sent one by one; what is not wanted of them is
// asked for first. Triggers 'import_uploads' with {batch, is_hidden} when all are there.
const area = element.querySelector('.area');
const line = element.querySelector('[role=status]');
const bar = element.querySelector('progress');
const stop = element.querySelector('.stop');
const [fileInput, folderInput] = element.querySelectorAll('input');
const choosers = [element.querySelector('.files'), element.querySelector('.folder')];
const address = './documents/uploads';
let sending = null; // aborts what is being sent

function say(text, done = 0, total = 0) {
  line.textContent = text;
  line.hidden = !text;
  bar.hidden = total === 0;
  bar.max = Math.max(total, 1);
  bar.value = done;
}

async function ask(path, options) {
  const answer = await fetch(address + path, { ...options, signal: sending.signal });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.error ?? `The server refused it (${answer.status}).`);
}

async function send(files) {
  const listed = files.map(({ name, file }) => ({ name, size: file.size }));
  const { batch, wanted } = await ask('', { method: 'POST', body: JSON.stringify({ files: listed }) });
  try {
    for (const [number, index] of wanted.entries()) {
      const { name, file } = files[index];
      say(`Uploading ${number + 1} of ${wanted.length}: ${name}`, number, wanted.length);
      await ask(`/${batch}/${index}`, { method: 'PUT', body: file });
    }
  } catch (error) {
    fetch(`${address}/${batch}`, { method: 'DELETE' }).catch(() => {});
    throw error;
  }
  trigger('import_uploads', { batch, is_hidden: document.hidden });
}

async function upload(files) {
  if (sending || !files.length) return;
  sending = new AbortController();
  stop.hidden = false;
  for (const chooser of choosers) chooser.disabled = true;
  try {
    await send(files);
    say('');
  } catch (error) {
    const isGone = error instanceof TypeError; // the server does not answer, or a file has gone
    say(error.name === 'AbortError' ? 'Nothing was imported: the upload was stopped.'
      : `Nothing was imported: ${isGone ? 'the upload broke off. Try again.' : error.message}`);
  }
  sending = null;
  stop.hidden = true;
  for (const chooser of choosers) chooser.disabled = false;
}

// A directory gives its entries in parts, the last of which is empty.
async function entriesOf(directory) {
  const reader = directory.createReader();
  const found = [];
  for (;;) {
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!part.length) return found;
    found.push(...part);
  }
}

async function filesOf(entries) {
  const waiting = [...entries];
  const found = [];
  while (waiting.length) {
    const entry = waiting.pop();
    try {
      if (entry.isDirectory) waiting.push(...await entriesOf(entry));
      else {
        const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
        found.push({ name: entry.fullPath.replace(/^\/+/, ''), file });
      }
    } catch { /* it went away, or may not be read: the others need not wait */ }
  }
  return found;
}

area.addEventListener('dragover', (event) => {
  event.preventDefault();
  area.classList.add('over');
});
area.addEventListener('dragleave', (event) => {
  if (!area.contains(event.relatedTarget)) area.classList.remove('over');
});
area.addEventListener('drop', async (event) => {
  event.preventDefault();
  area.classList.remove('over');
  const items = [...event.dataTransfer.items].filter(({ kind }) => kind === 'file');
  const entries = items.map((item) => item.webkitGetAsEntry()); // lost once this event is over
  upload(await filesOf(entries.filter(Boolean)));
});
choosers.forEach((chooser, index) => {
  const input = [fileInput, folderInput][index];
  chooser.addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    upload([...input.files].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
    input.value = '';
  });
});
stop.addEventListener('click', () => sending?.abort());
