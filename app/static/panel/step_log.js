// The steps of one answer, parsed from a string that only grows.
class StepLog {
  constructor() {
    this.forget();
  }

  forget() {
    this.text = '';
    this.first = null;
    this.steps = [];
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
      if (fields[0] === 'first') fresh.first = this.first = parseFirst(fields);
      else fresh.steps.push(parseStep(fields, this.steps.length + fresh.steps.length));
    }
    this.steps.push(...fresh.steps);
    this.text = text.slice(0, end);
    return fresh;
  }
}

function parseFirst([, text, reusedLength, prefilledLength, milliseconds]) {
  return { text, reusedLength, prefilledLength, milliseconds };
}

function parseStep([acceptedLength, matchLength, width, rows, milliseconds, draftMilliseconds, tokens], index) {
  const parsed = tokens.map(([text, source, probability = null, origin = null]) => ({ text, source, probability, origin }));
  return {
    index, acceptedLength, matchLength, width, rows, milliseconds, draftMilliseconds, tokens: parsed,
    accepted: parsed.filter((token) => token.source !== 'model'),
  };
}
