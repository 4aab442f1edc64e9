// The list of chats. Titles are put in as text. Triggers 'open_chat' and 'delete_chat' with {id}.
const list = element.querySelector('ul');
const narrow = () => getComputedStyle(document.querySelector('#chat-row')).getPropertyValue('--room').trim() === 'narrow';

function button(label, className, onClick) {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = className;
  made.textContent = label;
  made.addEventListener('click', onClick);
  return made;
}

function closeSidebar() {
  if (narrow()) document.querySelector('#sidebar .toggle-button')?.click();
}

function askBeforeDelete(item, chat) {
  const keep = button('Keep', 'quiet', () => { item.replaceWith(row(chat)); });
  const remove = button('Delete', 'danger', () => trigger('delete_chat', { id: chat.id }));
  const question = document.createElement('span');
  question.className = 'question';
  question.textContent = 'Delete this chat?';
  item.className = 'confirm';
  item.setAttribute('role', 'group');
  item.setAttribute('aria-label', `Delete the chat ${chat.title}?`);
  item.replaceChildren(question, remove, keep);
  item.addEventListener('keydown', (event) => { if (event.key === 'Escape') keep.click(); });
  keep.focus();
}

function row(chat) {
  const item = document.createElement('li');
  const open = button(chat.title, 'open', () => { trigger('open_chat', { id: chat.id }); closeSidebar(); });
  open.title = chat.title;
  if (chat.id === props.value.open) open.setAttribute('aria-current', 'page');
  if (chat.running) {
    const dot = document.createElement('span');
    dot.className = 'running';
    dot.setAttribute('role', 'img');
    dot.setAttribute('aria-label', 'being answered');
    open.append(dot);
  }
  const remove = button('×', 'delete', () => askBeforeDelete(item, chat));
  remove.title = 'Delete this chat';
  remove.setAttribute('aria-label', `Delete the chat ${chat.title}`);
  item.append(open, remove);
  return item;
}

function show() {
  const { open, chats } = props.value;
  // building the list anew under a mouse that is being clicked would lose the click
  const value = JSON.stringify(props.value);
  if (value === shown) return;
  list.replaceChildren(...chats.map(row));
  element.querySelector('p').hidden = chats.length > 0;
  const address = new URL(window.location.href);
  if (open === null) address.searchParams.delete('chat');
  else address.searchParams.set('chat', open);
  // the address keeps the chat over a reload; the first, empty value must not wipe it out
  if (shown !== null) window.history.replaceState(window.history.state, '', address);
  shown = value;
}

let shown = null;
watch('value', show);
show();
