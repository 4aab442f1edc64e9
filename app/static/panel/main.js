// The panel: what the server sends is parsed once, added to what is shown, at most once a frame.
// Triggers 'toggle_panel' {open}, 'show_answer' {id}, 'hold_answer' {id}
// and 'open_chat' {id}.
const NOTHING = {
  answer: null, version: 0, status: '', running: null, answers: [], max_length: 0, steps: '', unsplit: '', labels: {}, numbers: [], legend: {}, summary: '', summary_definition: '',
};
const STATUSES = {
  queued: 'Waiting …', prefill: 'Reading the conversation …', decoding: 'Decoding …', stopping: 'Stopping …', stopped: 'Stopped', failed: 'Failed',
};
const lifetime = newLifetime('panel');
const log = new StepLog();
let shown = NOTHING;
let selected = null;
let cameFrom = null; // what had the focus when a step was selected
let held = null; // the answer that a selected step keeps in the panel
let awaitedAnswer = null;

const shell = new Shell((open) => {
  render(open ? props.value : NOTHING); // closed, it keeps nothing
  trigger('toggle_panel', { open });
}, lifetime);
const answers = new Answers((id) => trigger('show_answer', { id }));
const numbers = new Numbers();
const legend = new Legend((source) => {
  if (source) stepText.text.dataset.only = source;
  else delete stepText.text.dataset.only;
});
const heatmap = new Heatmap(select, lifetime);
const charts = new Charts();
const views = new Views(
  'Accepted per step',
  'View of the accepted lengths',
  { Steps: heatmap.view, Reach: charts.reach.figure, Histogram: charts.histogram.figure },
  () => charts.draw(shown.max_length),
);
const stepText = new StepText();
const table = new StepsTable();
const details = new Details({
  load: (request) => server.step_details(request),
  onMove: (by) => select(selected + by, 'move'),
  onClose: closeDetails,
  onOpenChat: (id) => {
    if (shell.isSheet()) shell.choose(false); // it lies over the chat
    trigger('open_chat', { id });
  },
});
const tooltip = new Tooltip('panel-tooltip', {
  lifetime,
  owners: '[data-tip], .heatmap [data-step], .steps [data-step]',
  describe: (owner) => {
    if (owner.dataset.tip) return tipLines(owner);
    const step = log.steps[owner.dataset.step];
    return step ? stepTip(step, log, shown.labels) : [];
  },
});
const status = make('p', 'panel-status');
const running = makeButton('running', 'An answer is being written', () => trigger('show_answer', { id: shown.running }));
running.title = 'Show the answer that is being written';
const empty = make('p', 'empty', 'Ask something: here you will see the answer as it is decoded, step by step, and where each step came from.');
const content = make('div', 'panel-content');
const nothing = make('p', 'nothing', 'This answer ended before its first token: there are no steps to show.');
const said = make('p', 'visually-hidden'); // the step that was selected, for who does not see it
said.setAttribute('aria-live', 'polite');

const figures = makeSection('figures', numbers.list, numbers.summary);
const textSection = makeSection('text', makeHead('The answer in its steps'), stepText.box);
const downloads = makeDownloads();

function makeDownloads() {
  const png = makeButton('download-png', 'PNG', async () => saveFile(`${fileName()}.png`, await drawPicture(shell.body, {
    title: shown.answers.find(({ id }) => id === shown.answer)?.label || 'Lookahead Chat',
    numbers: shown.numbers, steps: log.steps, maxLength: shown.max_length, legend: shown.legend,
  })));
  png.setAttribute('aria-label', 'Download the heatmap as a PNG picture');
  const csv = makeButton('download-csv', 'CSV', () => {
    saveFile(`${fileName()}.csv`, new Blob([csvOf(log)], { type: 'text/csv;charset=utf-8' }));
  });
  csv.setAttribute('aria-label', 'Download the steps as a CSV table');
  const row = make('div', 'downloads');
  row.append(make('span', '', 'Download'), png, csv);
  row.hidden = true;
  return row;
}

// Nothing to look at and nothing to save, where an answer ended before its first token.
function showParts(value) {
  const isEmpty = log.first === null && !log.steps.length && !value.unsplit;
  downloads.hidden = isEmpty;
  const isNothing = isEmpty && !isLive(value) && value.status !== 'queued';
  for (const part of [figures, legend.list, views.section, textSection, table.frame]) part.hidden = isNothing;
  nothing.hidden = !isNothing;
}

function fileName() {
  return `lookahead-answer-${shown.answer}`;
}

function select(index, how = 'click') {
  if (index !== null && !log.steps[index]) return;
  const focused = document.activeElement;
  if (shell.body.contains(focused) && !details.section.contains(focused)) cameFrom = focused;
  selected = index;
  shell.body.toggleAttribute('data-selected', index !== null); // the text makes room for the details
  heatmap.select(index);
  stepText.select(index);
  if (index === null) {
    details.hide();
    said.textContent = '';
    return;
  }
  hold();
  said.textContent = `Step ${index + 1}: ${outcomeOf(log.steps[index])} ${quoted(log.steps[index].tokens.map(({ text }) => text).join(''))}`;
  loadDetails().then((isCurrent) => {
    if (!isCurrent) return;
    shell.scrollTo(views.section); // cell, text and details in sight at once
    if (how === 'enter') details.section.focus({ preventScroll: true });
  });
}

// While a step is looked at, the panel stays at its answer, whatever is asked after it.
function hold() {
  if (held === shown.answer) return;
  held = shown.answer;
  trigger('hold_answer', { id: held });
}

function letGo() {
  if (held !== null) trigger('show_answer', { id: held });
  held = null;
}

function loadDetails() {
  return details.show(shown.answer, log.steps[selected], log.steps.length, shown.labels);
}

// The focus goes back to where the details came from, or near it where that is out of sight.
function closeDetails() {
  const last = selected;
  const hadFocus = details.section.contains(document.activeElement);
  select(null);
  letGo();
  if (!hadFocus) return;
  if (heatmap.grid.contains(cameFrom) && heatmap.grid.checkVisibility()) heatmap.focus(last);
  else if (cameFrom?.isConnected && cameFrom.checkVisibility()) cameFrom.focus({ preventScroll: true });
  else views.focus();
}

function forget() {
  tooltip.hide();
  select(null);
  held = null;
  for (const part of [log, heatmap, charts, stepText, table]) part.forget();
}

function show() {
  const { value } = props;
  const isLate = value.answer === shown.answer && value.version < shown.version;
  if ((!shell.isOpen && !shell.isAwaited) || isLate) return;
  render(value);
  if (shell.isAwaited) awaitAnswer(value);
}

// The sheet of the demo comes when the first answer can be read.
function awaitAnswer({ answer, status: stage }) {
  awaitedAnswer ??= answer;
  const isOther = answer !== awaitedAnswer;
  if (isOther || stage === 'complete') shell.openHere();
  else if (stage === 'stopped' || stage === 'failed') shell.set(false);
  if (!shell.isAwaited) awaitedAnswer = null;
}

function render(value) {
  const before = shown;
  const isSameAnswer = value.answer === before.answer;
  const kept = isSameAnswer ? selected : null;
  const isAnew = !isSameAnswer || !log.continues(value.steps);
  if (isAnew) forget();
  shown = { ...value, labels: { ...value.labels } };
  empty.hidden = value.answer !== null;
  content.hidden = value.answer === null;
  status.dataset.status = value.status;
  running.hidden = (value.running ?? null) === null || value.running === value.answer;
  status.hidden = !running.hidden;
  answers.show(value.answers, value.answer);
  numbers.show(value.numbers, value.summary, value.summary_definition);
  legend.show(value.legend);
  heatmap.setScale(value.max_length);
  const fresh = log.take(value.steps);
  addSteps(fresh);
  setText(status, value.status === 'decoding' && log.isPaused() ? `Decoding, ${PAUSED}` : STATUSES[value.status] ?? '');
  showParts(value);
  if (isAnew || fresh.steps.length) charts.draw(value.max_length);
  if (isLive(value) || isLive(before)) {
    heatmap.follower.follow();
    stepText.follower.follow();
  }
  if (!isLive(value) && (isLive(before) || fresh.first || fresh.steps.length)) table.fillWhenIdle();
  if (kept !== null && selected === null) select(kept, 'again'); // where there are other steps now
  else if (selected !== null && wasRenamed(before.labels, shown.labels)) loadDetails();
  tooltip.renew();
}

function addSteps(fresh) {
  heatmap.add(fresh.steps);
  charts.add(fresh.steps);
  stepText.add(fresh);
  stepText.showUnsplit(shown.unsplit ?? '');
  table.show(log.steps);
  if (fresh.steps.length) details.setNumSteps(log.steps.length);
}

function isLive({ status: stage }) {
  return stage === 'decoding' || stage === 'prefill' || stage === 'stopping';
}

// Whether a document or chat that was named before has another name now, or none.
function wasRenamed(before, labels) {
  return Object.entries(before).some(([sequence, label]) => labels[sequence] !== label);
}

// At most once a frame, and no more than a fifth of the time, however slow the machine is.
const pace = { isWaiting: false, next: 0 };

function soon() {
  if (pace.isWaiting) return;
  pace.isWaiting = true;
  setTimeout(() => requestAnimationFrame(() => {
    const start = performance.now();
    pace.isWaiting = false;
    show();
    setTimeout(() => { // after the frame was laid out and painted
      const end = performance.now();
      pace.next = end + 4 * (end - start);
    });
  }), Math.max(0, pace.next - performance.now()));
}

// All four arrows go from step to step, since the steps run on from line to line.
function stepByKey(event) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  event.preventDefault();
  select(selected === null ? 0 : selected + by, 'arrow');
}

function build() {
  running.hidden = true;
  shell.head.append(make('h2', '', 'Behind the answer'), status, running, shell.close);
  content.append(
    answers.nav,
    nothing,
    figures,
    legend.list,
    views.section,
    textSection,
    details.section,
    downloads,
    table.frame,
    said,
  );
  shell.body.append(shell.head, empty, content, tooltip.box);
  element.replaceChildren(shell.toggle, shell.body);
  tooltip.watch(shell.body);
  stepText.box.addEventListener('click', (event) => {
    const piece = event.target.closest('[data-step]');
    if (piece && window.getSelection().isCollapsed) select(Number(piece.dataset.step));
  });
  stepText.box.addEventListener('keydown', stepByKey);
  shell.body.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || selected === null) return; // then the sheet closes
    closeDetails();
    event.preventDefault();
  });
}

build();
watch('value', soon);
shell.begin();
