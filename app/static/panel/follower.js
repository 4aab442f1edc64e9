// Keeps a scrolling box at its end while new things are added, unless somebody scrolled away.
class Follower {
  constructor(box) {
    this.box = box;
    this.isAtEnd = true;
    box.addEventListener('scroll', () => {
      this.isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    }, { passive: true });
  }

  follow() {
    if (this.isAtEnd) this.box.scrollTop = 1e7;
  }

  rewind() {
    this.box.scrollTop = 0;
    this.isAtEnd = true;
  }
}

// Brings a node to the middle of its own box where it is out of sight; the page around it stays.
function showInside(box, node) {
  const frame = box.getBoundingClientRect();
  const place = node.getBoundingClientRect();
  if (place.top >= frame.top && place.bottom <= frame.bottom) return;
  box.scrollTop += place.top - frame.top - Math.max(12, (frame.height - place.height) / 2);
}
