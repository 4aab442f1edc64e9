// What the tooltip of a step says: its outcome, and each passage that it was drafted from.
const PAUSED = 'drafting paused: not paying';
const MOST_QUOTED = 48; // characters
const DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/g; // would turn round what the page says after them

function stepTip(step, log, labels) {
  const line = (className, text) => make('p', className, text);
  const drafted = step.width - 1;
  const none = step.isPaused ? PAUSED : 'nothing drafted';
  const outcome = drafted > 0 ? `${step.acceptedLength} of ${drafted} accepted` : none;
  const lines = [line('title', `Step ${step.index + 1} · ${outcome}`)];
  if (step.matchLength) lines.push(line('', `Match length ${step.matchLength}`));
  const { accepted } = step;
  if (accepted.length) {
    const [from, to] = [accepted[0].probability, accepted.at(-1).probability];
    lines.push(line('', `Probability ${percent(from)}${accepted.length > 1 ? ` to ${percent(to)}` : ''}`));
  }
  for (const passage of passagesOf(step)) {
    const told = line('origin', passageLine(passage, log, labels));
    told.dataset.source = passage.source;
    lines.push(told);
  }
  return lines;
}

function passageLine(passage, log, labels) {
  const place = [placeOf(passage, labels), messageOf(passage, log)].filter(Boolean).join(', ');
  const text = quoted(passage.text);
  return `${SOURCES[passage.source].name}${place ? ` · ${place}` : ''}${text ? `: ${text}` : ''}`;
}

// Of a passage of this conversation, which message it stands in, and where there.
function messageOf({ origin, position }, log) {
  if (typeof origin !== 'number') return '';
  const target = position - origin;
  if (target < 0) return 'before this answer';
  const step = log.stepAt(target);
  return step ? `step ${step.index + 1} of this answer` : 'the first token of this answer';
}

function quoted(text) {
  const words = text.replace(DIRECTIONS, '').trim().replace(/\s+/g, ' ');
  if (!words) return '';
  const characters = [...words];
  return `“${characters.length > MOST_QUOTED ? `${characters.slice(0, MOST_QUOTED - 1).join('')}…` : words}”`;
}
