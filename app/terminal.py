"""What a command says on the terminal: results on stdout, messages and progress on stderr.

Knows nothing of what it is told; each message stays on its line, whatever names are in it. Used by
the command line; works without a terminal, line by line.
"""

import sys

from app.plain_text import on_one_line

__all__ = ["Terminal"]


class Terminal:
    """Messages that stay and one progress line that is written over."""

    def __init__(self) -> None:
        self._progress = ""

    def result(self, text: str) -> None:
        """Write what the command was asked for."""
        self.end_progress()
        print(on_one_line(text), flush=True)

    def say(self, text: str) -> None:
        """Write a message for the user."""
        self.end_progress()
        print(on_one_line(text), file=sys.stderr, flush=True)

    def progress(self, text: str) -> None:
        """Replace the progress line; without a terminal, write a line of its own."""
        text = on_one_line(text)
        if text == self._progress:
            return
        if sys.stderr.isatty():
            padding = " " * (len(self._progress) - len(text))
            print(f"\r{text}{padding}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
        self._progress = text

    def end_progress(self) -> None:
        """Leave the progress line as it is and go to the next."""
        if self._progress and sys.stderr.isatty():
            print(file=sys.stderr, flush=True)
        self._progress = ""
