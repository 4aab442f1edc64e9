// The demo is to be seen: the chat in front, the side bar out of the way, the panel open beside it.
() => {
  document.querySelector('[role="tab"]')?.click();
  if (window.matchMedia('(max-width: 768px)').matches) document.querySelector('#sidebar .toggle-button')?.click();
  const toggle = document.querySelector('#panel-toggle');
  if (window.matchMedia('(min-width: 1100px)').matches && toggle?.getAttribute('aria-expanded') === 'false') toggle.click();
}
