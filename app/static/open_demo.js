// A demo has begun and is to be seen: the chat in front, and the side bar out of the way where it
// covers that. Updates of the tabs and the side bar; the panel hears the event.
() => {
  document.dispatchEvent(new CustomEvent('lookahead-chat:demo'));
  const style = getComputedStyle(document.querySelector('#chat-row'));
  const isNarrow = style.getPropertyValue('--room').trim() === 'narrow';
  const sidebar = isNarrow ? { open: false, __type__: 'update' } : { __type__: 'update' };
  return [{ selected: 'chat', __type__: 'update' }, sidebar];
}
