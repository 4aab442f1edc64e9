// The imported documents as a table, put in as text.
const body = element.querySelector('tbody');

function cell(text, title = '') {
  const made = document.createElement('td');
  made.textContent = text;
  made.title = title;
  return made;
}

function show() {
  const documents = props.value ?? [];
  body.replaceChildren(...documents.map(({ name, uri, length }) => {
    const row = document.createElement('tr');
    row.append(cell(name, uri), cell(length));
    return row;
  }));
  element.querySelector('table').hidden = documents.length === 0;
  element.querySelector('p').hidden = documents.length > 0;
}

watch('value', show);
show();
