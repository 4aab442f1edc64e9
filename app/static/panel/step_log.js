// The steps of one answer, parsed from a string that only grows.
const LATEST = 4; // steps: a single one that was not drafted for is nothing to tell

class StepLog {
  constructor() {
    this.forget();
  }

  forget() {
    this.text = '';
    this.first = null;
    this.steps = [];
    this.numTokens = 0;
  }

  // Whether a value goes on from what was parsed; else it belongs to something else.
  continues(text) {
    return text.startsWith(this.text);
  }

  // Parses what is new: { first, steps }, `first` being null where it was seen before.
  take(text) {
    const end = text.lastIndexOf('\n') + 1;
    const fresh = { first: null, steps: [] };
    for (const line of text.slice(this.text.length, end).split('\n')) {
      if (!line) continue;
      const fields = JSON.parse(line);
      if (fields[0] === 'first') {
        fresh.first = this.first = parseFirst(fields);
        this.numTokens = 1;
        continue;
      }
      const step = parseStep(fields, this.steps.length, this.numTokens);
      this.numTokens += step.tokens.length;
      this.steps.push(step);
      fresh.steps.push(step);
    }
    this.text = text.slice(0, end);
    return fresh;
  }

  // Whether the latest steps were all plain, since drafting would not have paid.
  isPaused() {
    const latest = this.steps.slice(-LATEST);
    return latest.length === LATEST && latest.every((step) => step.isPaused);
  }

  // The step that emitted the answer's token at a position; undefined for the first token.
  stepAt(position) {
    return this.steps.findLast((step) => step.position <= position);
  }
}

function parseFirst([, text, reusedLength, prefilledLength, milliseconds]) {
  return { text, reusedLength, prefilledLength, milliseconds };
}

// `position`: of its first token in the answer, counted from 0.
function parseStep([acceptedLength, matchLength, width, rows, milliseconds, draftMilliseconds, tokens, isPaused = false], index, position) {
  const parsed = tokens.map(([text, source, probability = null, origin = null]) => ({ text, source, probability, origin }));
  return {
    index, position, acceptedLength, matchLength, width, rows, milliseconds, draftMilliseconds, isPaused, tokens: parsed,
    accepted: parsed.filter((token) => token.source !== 'model'),
  };
}

// The passages that a step's accepted tokens were taken from, in order, each with the text it gave:
// { source, origin, text, position }, `position` and `origin` being its first token's.
function passagesOf(step) {
  const passages = [];
  step.accepted.forEach((token, i) => {
    if (i && goesOn(step.accepted[i - 1], token)) passages.at(-1).text += token.text;
    else passages.push({ source: token.source, origin: token.origin, text: token.text, position: step.position + i });
  });
  return passages;
}

function goesOn(last, token) {
  if (last.source !== token.source) return false;
  if (!Array.isArray(token.origin)) return last.origin === token.origin;
  if (!Array.isArray(last.origin) || last.origin[0] !== token.origin[0]) return false;
  return token.origin[1] === (last.origin[1] < 0 ? -1 : last.origin[1] + 1);
}
