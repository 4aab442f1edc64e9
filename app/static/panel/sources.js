// The five places a token can come from, in the order they are shown in. `SOURCES` has their names and
// meanings, from the server.
const SOURCE_NAMES = Object.keys(SOURCES);

// Where an accepted token's source stands, in words. `labels` names sequences by their id.
function placeOf(token, labels) {
  const { source, origin } = token;
  if (typeof origin === 'number') return `${plural(origin, 'token')} back`;
  if (!Array.isArray(origin)) return '';
  const [sequence, offset] = origin;
  const kind = source === 'document' ? 'a document' : 'a chat';
  const name = labels[sequence] ?? `${kind} that was deleted`;
  return offset < 0 ? name : `${name}, token ${(offset + 1).toLocaleString('en')}`; // below 0: not known
}
