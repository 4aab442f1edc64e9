// The steps as a CSV file (RFC 4180), and the saving of files.
const CSV_COLUMNS = [
  'step', 'accepted_length', 'match_length', 'width', 'rows', 'paused', 'milliseconds', 'draft_milliseconds', 'tokens', 'sources', 'text',
];

// A spreadsheet runs what begins like a formula; an apostrophe keeps it text.
function csvText(text) {
  const guarded = /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
  return `"${guarded.replaceAll('"', '""')}"`;
}

function csvOf({ first, steps }) {
  const lines = [CSV_COLUMNS.join(',')];
  if (first) lines.push(['prefill', 0, '', '', '', '', first.milliseconds, '', 1, 'model', csvText(first.text)].join(','));
  for (const step of steps) {
    const sources = step.tokens.map((token) => token.source).join(' ');
    const text = csvText(step.tokens.map((token) => token.text).join(''));
    lines.push([
      step.index + 1, step.acceptedLength, step.matchLength, step.width, step.rows, step.isPaused ? 1 : 0,
      step.milliseconds, step.draftMilliseconds, step.tokens.length, sources, text,
    ].join(','));
  }
  return `${lines.join('\r\n')}\r\n`;
}

function saveFile(name, blob) {
  const link = make('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
