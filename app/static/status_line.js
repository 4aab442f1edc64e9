// The status of the model: one sentence, put in as text. Triggers 'leave_tab' when the tab goes out of
// sight and 'enter_tab' when it comes back, since only tabs in sight are told about the model.
const PATIENCE = 5000; // milliseconds until an 'enter_tab' that nobody answered is sent again

const line = element.querySelector('p');
const text = element.querySelector('.text');
let unanswered = null;

function show() {
  const { status, text: sentence, more } = props.value;
  line.dataset.status = status;
  line.title = more;
  if (text.textContent !== sentence) text.textContent = sentence;
}

function enter() {
  trigger('enter_tab');
  unanswered = setTimeout(enter, PATIENCE);
}

function leave() {
  clearTimeout(unanswered);
  trigger('leave_tab');
}

document.addEventListener('visibilitychange', () => (document.hidden ? leave() : enter()));
watch('value', () => {
  clearTimeout(unanswered);
  show();
  if (document.hidden) leave(); // again: what it said got lost, or came too early
});
show();
