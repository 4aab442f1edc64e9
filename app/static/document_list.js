// The imported documents by folder, put in as text. Triggers 'delete_document' with {id},
// 'pin_document' with {id, is_pinned}, 'update_folder' and 'delete_folder' with {folder}.
const folderList = element.querySelector('.folders');
const nothing = element.querySelector('p');
const filterLabel = element.querySelector('label');
const filter = element.querySelector('input');
const FEW = 20; // documents, up to which a folder stands open
const open = new Map(); // what was opened or closed by hand, by folder
let justPinned = null; // the document whose switch is to have the focus again

function button(label, className, onClick) {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = className;
  made.textContent = label;
  made.addEventListener('click', onClick);
  return made;
}

function textElement(tag, text, className = '', title = '') {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  if (title) made.title = title;
  return made;
}

// The buttons of a row or a folder; its Delete asks once more, in its place.
function actions(name, label, others, onDelete) {
  const made = textElement('span', '', 'actions');
  const rest = () => {
    const remove = button(label, 'delete', ask);
    remove.title = `Delete ${name}`;
    remove.setAttribute('aria-label', `Delete ${name}`);
    made.removeAttribute('role');
    made.removeAttribute('aria-label');
    made.replaceChildren(...others(), remove);
    return remove;
  };
  const ask = () => {
    const keep = button('Keep', 'quiet', () => rest().focus());
    const remove = button('Delete', 'danger', onDelete);
    made.setAttribute('role', 'group');
    made.setAttribute('aria-label', `Delete ${name}?`);
    made.replaceChildren(remove, keep);
    keep.focus();
  };
  made.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') made.querySelector('.quiet')?.click();
  });
  rest();
  return made;
}

function pinSwitch(source) {
  const made = button(source.is_pinned ? 'Pinned' : 'Pin', 'pin', () => {
    justPinned = source.id;
    trigger('pin_document', { id: source.id, is_pinned: !source.is_pinned });
  });
  made.dataset.id = source.id;
  made.title = 'A pinned document is always kept among what drafts come from';
  made.setAttribute('aria-label', `Pin ${source.name}`);
  made.setAttribute('aria-pressed', source.is_pinned);
  return made;
}

function documentRow(source) {
  const row = document.createElement('tr');
  const last = document.createElement('td');
  last.append(actions(
    `the document ${source.name}`, '×', () => [pinSwitch(source)],
    () => trigger('delete_document', { id: source.id }),
  ));
  row.append(
    textElement('td', source.name, '', source.uri), textElement('td', source.length), last,
  );
  return row;
}

function documentTable(folder) {
  const table = document.createElement('table');
  const head = table.createTHead().insertRow();
  for (const title of ['Document', 'Length']) {
    const cell = textElement('th', title);
    cell.scope = 'col';
    head.append(cell);
  }
  head.append(document.createElement('td'));
  table.createTBody().append(...folder.documents.map(documentRow));
  return table;
}

function folderSection(folder) {
  const section = textElement('section', '');
  const details = document.createElement('details');
  details.open = open.get(folder.key) ?? folder.documents.length + folder.more <= FEW;
  details.addEventListener('toggle', () => open.set(folder.key, details.open));
  const summary = document.createElement('summary');
  summary.append(
    textElement('span', folder.name, 'name', folder.name), textElement('span', folder.length, 'length'),
  );
  details.append(summary, documentTable(folder));
  if (folder.more > 0) {
    details.append(textElement('p', `and ${folder.more.toLocaleString('en')} more`));
  }
  const update = () => {
    const made = button('Update', 'update', () => trigger('update_folder', { folder: folder.key }));
    made.title = 'Import again what is new or changed';
    made.setAttribute('aria-label', `Update ${folder.name}`);
    return made;
  };
  section.append(details, actions(
    `all documents of ${folder.name}`, 'Delete all', () => (folder.can_update ? [update()] : []),
    () => trigger('delete_folder', { folder: folder.key }),
  ));
  return section;
}

// Rows that do not hold what is looked for are hidden, and folders without any.
function applyFilter() {
  const wanted = filter.value.trim().toLowerCase();
  for (const section of folderList.children) {
    let isFound = false;
    for (const row of section.querySelectorAll('tbody tr')) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      isFound ||= !row.hidden;
    }
    section.hidden = !isFound;
    if (wanted && isFound) section.firstElementChild.open = true;
  }
  const isNothingFound = wanted && [...folderList.children].every((section) => section.hidden);
  nothing.textContent = isNothingFound ? 'No document has this in its name.'
    : folderList.children.length ? '' : 'No documents yet.';
}

function show() {
  const folders = props.value?.folders ?? [];
  folderList.replaceChildren(...folders.map(folderSection));
  filterLabel.hidden = folders.reduce((sum, { documents }) => sum + documents.length, 0) <= FEW;
  if (filterLabel.hidden) filter.value = '';
  applyFilter();
  if (justPinned !== null) folderList.querySelector(`.pin[data-id="${justPinned}"]`)?.focus();
  justPinned = null;
}

filter.addEventListener('input', applyFilter);
watch('value', show);
show();
