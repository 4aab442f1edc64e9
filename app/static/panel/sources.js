// The five places a token can come from, in the order they are shown in.
const SOURCES = {
  chat: { name: 'This chat', meaning: 'Accepted tokens drafted from this conversation: its questions, its answers, and this answer so far.' },
  history: { name: 'Earlier chats', meaning: 'Accepted tokens drafted from other conversations kept on this machine.' },
  document: { name: 'Documents', meaning: 'Accepted tokens drafted from the documents you imported.' },
  recycled: { name: 'Recycled', meaning: 'Accepted tokens drafted from what the model thought likely at earlier positions.' },
  model: { name: 'The model', meaning: 'Tokens that no draft offered: the first one, and the one the model adds itself at the end of every step.' },
};
const SOURCE_NAMES = Object.keys(SOURCES);

// Where an accepted token's source stands, in words. `origins` names sequences by their id.
function placeOf(token, origins) {
  const { source, origin } = token;
  if (typeof origin === 'number') return `${plural(origin, 'token')} back`;
  if (!Array.isArray(origin)) return '';
  const [sequence, offset] = origin;
  const kind = source === 'document' ? 'a document' : 'a chat';
  return `${origins[sequence] ?? `${kind} that was deleted`}, token ${(offset + 1).toLocaleString('en')}`;
}
