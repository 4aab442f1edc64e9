// The imported documents as a table, put in as text. Triggers 'delete_document' with {id}.
const body = element.querySelector('tbody');

function button(label, className, onClick) {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = className;
  made.textContent = label;
  made.addEventListener('click', onClick);
  return made;
}

function cell(text, title = '') {
  const made = document.createElement('td');
  made.textContent = text;
  made.title = title;
  return made;
}

function askBeforeDelete(buttons, source) {
  const keep = button('Keep', 'quiet', () => { buttons.replaceWith(deleteCell(source)); });
  const remove = button('Delete', 'danger', () => trigger('delete_document', { id: source.id }));
  buttons.setAttribute('role', 'group');
  buttons.setAttribute('aria-label', `Delete the document ${source.name}?`);
  buttons.replaceChildren(remove, keep);
  buttons.addEventListener('keydown', (event) => { if (event.key === 'Escape') keep.click(); });
  keep.focus();
}

function deleteCell(source) {
  const buttons = cell('');
  const remove = button('×', 'delete', () => askBeforeDelete(buttons, source));
  remove.title = 'Delete this document';
  remove.setAttribute('aria-label', `Delete the document ${source.name}`);
  buttons.append(remove);
  return buttons;
}

function show() {
  const documents = props.value ?? [];
  body.replaceChildren(...documents.map((source) => {
    const row = document.createElement('tr');
    row.append(cell(source.name, source.uri), cell(source.length), deleteCell(source));
    return row;
  }));
  element.querySelector('table').hidden = documents.length === 0;
  element.querySelector('p').hidden = documents.length > 0;
}

watch('value', show);
show();
