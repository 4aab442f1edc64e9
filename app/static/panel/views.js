// Several views of one thing, of which one is shown; radio buttons, so that the arrow keys choose.
class Views {
  constructor(title, label, views, onChoose) {
    const choice = make('div', 'segments');
    choice.setAttribute('role', 'radiogroup');
    choice.setAttribute('aria-label', label);
    for (const name of Object.keys(views)) {
      const option = make('label');
      const radio = make('input');
      radio.type = 'radio';
      radio.name = 'panel-view';
      radio.checked = name === Object.keys(views)[0];
      radio.addEventListener('change', () => {
        for (const [other, view] of Object.entries(views)) view.hidden = other !== name;
        onChoose();
      });
      option.append(radio, make('span', '', name));
      choice.append(option);
    }
    this.section = makeSection('accepted', makeHead(title, choice), ...Object.values(views));
  }

  focus() {
    this.section.querySelector('input:checked').focus({ preventScroll: true });
  }
}
