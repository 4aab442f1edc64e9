"""What a command says on the terminal: results on stdout, messages and progress on stderr.

Knows nothing of what it is told. Used by the command line; works without a terminal, line by line.
"""

import sys

__all__ = ["Terminal"]


class Terminal:
    """Messages that stay and one progress line that is written over."""

    def __init__(self) -> None:
        self._progress = ""

    def result(self, text: str) -> None:
        """Write what the command was asked for."""
        self.end_progress()
        print(text, flush=True)

    def say(self, text: str) -> None:
        """Write a message for the user."""
        self.end_progress()
        print(text, file=sys.stderr, flush=True)

    def progress(self, text: str) -> None:
        """Replace the progress line; without a terminal, write a line of its own."""
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
