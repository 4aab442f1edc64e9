// The panel: what the server sends is parsed once, added to what is shown, at most once a frame.
// Triggers 'toggle_panel' {open}, 'show_answer' {id} and 'open_chat' {id}.
const log = new StepLog();
let shownAnswer = null;
let selected = null;
let isLive = false;

const shell = new Shell((open) => { trigger('toggle_panel', { open }); });
const answers = new Answers((id) => trigger('show_answer', { id }));
const numbers = new Numbers();
const legend = new Legend((source) => {
  if (source) stepText.text.dataset.only = source;
  else delete stepText.text.dataset.only;
});
const heatmap = new Heatmap(select);
const charts = new Charts();
const stepText = new StepText();
const table = new StepsTable();
const details = new Details({
  load: (request) => server.step_details(request),
  onMove: (by) => select(selected + by, 'move'),
  onClose: closeDetails,
  onOpenChat: (id) => {
    if (shell.isSheet()) shell.set(false, true); // it lies over the chat
    trigger('open_chat', { id });
  },
});
const status = make('p', 'panel-status');
const empty = make('p', 'empty', 'Ask something: here you will see the answer as it is decoded, step by step, and where each step came from.');
const content = make('div', 'panel-content');
const views = makeViews();

function section(className, ...children) {
  const made = make('section', className);
  made.append(...children);
  return made;
}

function headed(title, ...rest) {
  const head = make('div', 'section-head');
  head.append(make('h3', '', title), ...rest);
  return head;
}

// One of three views of the accepted lengths; radio buttons, so that the arrow keys choose.
function makeViews() {
  const views = { Steps: heatmap.view, Reach: charts.reach, Histogram: charts.histogram };
  const choice = make('div', 'segments');
  choice.setAttribute('role', 'radiogroup');
  choice.setAttribute('aria-label', 'View of the accepted lengths');
  for (const name of Object.keys(views)) {
    const label = make('label');
    const radio = make('input');
    radio.type = 'radio';
    radio.name = 'panel-view';
    radio.checked = name === 'Steps';
    radio.addEventListener('change', () => {
      for (const [other, view] of Object.entries(views)) view.hidden = other !== name;
      drawCharts();
    });
    label.append(radio, make('span', '', name));
    choice.append(label);
  }
  return section('accepted', headed('Accepted per step', choice), heatmap.view, charts.reach, charts.histogram);
}

function makeDownloads() {
  const png = makeButton('download-png', 'PNG', async () => saveFile(`${fileName()}.png`, await drawPicture(shell.body, {
    title: currentLabel(), numbers: props.value.numbers, steps: log.steps, maxLength: props.value.max_length, legend: props.value.legend,
  })));
  png.setAttribute('aria-label', 'Download the heatmap as a PNG picture');
  const csv = makeButton('download-csv', 'CSV', () => {
    saveFile(`${fileName()}.csv`, new Blob([csvOf(log)], { type: 'text/csv;charset=utf-8' }));
  });
  csv.setAttribute('aria-label', 'Download the steps as a CSV table');
  const row = make('div', 'downloads');
  row.append(make('span', '', 'Download'), png, csv);
  return row;
}

function currentLabel() {
  return props.value.answers.find(({ id }) => id === props.value.answer)?.label || 'Lookahead Chat';
}

function fileName() {
  return `lookahead-answer-${props.value.answer}`;
}

function select(index, how = 'click') {
  if (index !== null && !log.steps[index]) return;
  selected = index;
  shell.body.toggleAttribute('data-selected', index !== null); // the text makes room for the details
  heatmap.select(index);
  stepText.select(index);
  if (index === null) {
    details.hide();
    return;
  }
  details.show(shownAnswer, log.steps[index], log.steps.length, props.value.origins).then((isCurrent) => {
    if (!isCurrent) return;
    shell.scrollTo(views); // cell, text and details in sight at once
    if (how === 'enter') details.section.focus({ preventScroll: true });
  });
}

// The focus goes back to where the details came from.
function closeDetails() {
  const last = selected;
  const hadFocus = details.section.contains(document.activeElement);
  select(null);
  if (hadFocus) heatmap.focus(last);
}

function forget() {
  log.forget();
  hideTip();
  select(null);
  for (const part of [heatmap, stepText, table]) part.forget();
}

const STATUSES = {
  queued: 'Waiting …', prefill: 'Reading the conversation …', decoding: 'Decoding …', stopped: 'Stopped', failed: 'Failed',
};

function show() {
  const value = props.value;
  if (value.answer !== shownAnswer || !log.continues(value.steps)) forget();
  shownAnswer = value.answer;
  empty.hidden = value.answer !== null;
  content.hidden = value.answer === null;
  if (status.dataset.status !== value.status) {
    status.dataset.status = value.status;
    status.textContent = STATUSES[value.status] ?? '';
  }
  answers.show(value.answers, value.answer);
  numbers.show(value.numbers, value.summary);
  legend.show(value.legend);
  heatmap.setScale(value.max_length);
  const fresh = log.take(value.steps);
  heatmap.add(fresh.steps);
  stepText.add(fresh);
  const wasLive = isLive;
  isLive = value.status === 'decoding' || value.status === 'prefill';
  if (isLive || wasLive) {
    heatmap.follower.follow();
    stepText.follower.follow();
  }
  if (!isLive && (wasLive || fresh.first || fresh.steps.length)) {
    table.fill(log.steps);
    drawCharts();
  }
}

function drawCharts() {
  charts.draw(log.steps, props.value.max_length);
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

function tipLine(className, text) {
  return make('p', className, text);
}

// What the tooltip of a thing says: a definition, or the outcome of a step.
function describe(owner) {
  if (owner.dataset.tip) return owner.dataset.tip.split('\n').map((line) => tipLine('', line));
  const step = log.steps[owner.dataset.step];
  if (!step) return [];
  const lines = [tipLine('title', `Step ${step.index + 1} · ${step.acceptedLength} of ${Math.max(0, step.width - 1)} accepted`)];
  if (step.matchLength) lines.push(tipLine('', `Match length ${step.matchLength}`));
  const { accepted } = step;
  if (accepted.length) {
    const [from, to] = [accepted[0].probability, accepted.at(-1).probability];
    lines.push(tipLine('', `Probability ${percent(from)}${accepted.length > 1 ? ` to ${percent(to)}` : ''}`));
  }
  accepted.forEach((token, i) => {
    if (i && token.source === accepted[i - 1].source && Array.isArray(token.origin) === Array.isArray(accepted[i - 1].origin)) return;
    const place = placeOf(token, props.value.origins);
    const line = tipLine('origin', `${SOURCES[token.source].name}${place ? ` · ${place}` : ''}`);
    line.dataset.source = token.source;
    lines.push(line);
  });
  return lines;
}

function build() {
  shell.head.append(make('h2', '', 'Behind the answer'), status, shell.close);
  content.append(
    answers.nav,
    section('figures', numbers.list, numbers.summary),
    legend.list,
    views,
    section('text', headed('The answer in its steps'), stepText.box),
    details.section,
    makeDownloads(),
    table.frame,
  );
  shell.body.append(shell.head, empty, content);
  element.replaceChildren(shell.toggle, shell.body, tooltip);
  giveTips(shell.body, describe);
  stepText.box.addEventListener('click', (event) => {
    const piece = event.target.closest('[data-step]');
    if (piece && window.getSelection().isCollapsed) select(Number(piece.dataset.step));
  });
  stepText.box.addEventListener('keydown', (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    select(selected === null ? 0 : selected + by, 'arrow');
  });
  shell.body.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || selected === null) return; // then the sheet closes
    closeDetails();
    event.preventDefault();
  });
}

build();
watch('value', soon);
show();
shell.begin();
