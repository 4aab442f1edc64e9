// The status of the model: one sentence, put in as text.
const line = element.querySelector('p');
const text = element.querySelector('.text');

function show() {
  const { status, text: sentence, more } = props.value;
  line.dataset.status = status;
  line.title = more;
  if (text.textContent !== sentence) text.textContent = sentence;
}

watch('value', show);
show();
