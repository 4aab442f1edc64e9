"""A stop rule for the engine: ids that end where a text appears.

Knows a tokenizer and the texts. Made per generation by the workbench, called by the decode loop.
"""

from collections.abc import Sequence
from typing import Any

from app.services.text_stream import TextStream

__all__ = ["StopStrings"]


class StopStrings:
    """Called with the ids emitted so far after each of them; says how many to keep at the end.

    The answer ends with the first string that is complete in its text, and what is kept of it ends
    before that string begins: of two that end together, the longer one.

    Attributes:
        remainder: what the text has beyond the ids kept, once a string was found: the beginning of
            the token in which the string begins.
    """

    def __init__(self, tokenizer: Any, strings: Sequence[str]) -> None:
        self._stream = TextStream(tokenizer)
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings))
        self._text_lengths: list[int] = []  # characters after each id
        self._tail = ""
        self.remainder = ""

    def __call__(self, token_ids: Sequence[int]) -> int | None:
        """The number of ids wholly before the stop string, or None where there is none."""
        for token_id in token_ids[len(self._text_lengths) :]:
            length = self._text_lengths[-1] if self._text_lengths else 0
            piece = self._stream.append([token_id])
            self._text_lengths.append(length + len(piece))
            window = self._tail + piece
            found = [(at + len(s), at) for s in self._strings if (at := window.find(s)) >= 0]
            if found:
                return self._cut(length - len(self._tail) + min(found)[1], token_ids)
            self._tail = window[-self._longest :]
        return None

    def _cut(self, start: int, token_ids: Sequence[int]) -> int:
        """How many ids stand wholly before a character, bytes of a broken one not among them."""
        length = max((done for done in self._text_lengths if done <= start), default=0)
        num_kept = self._text_lengths.index(length) + 1 if length else 0
        kept = self._stream.decode(token_ids[:num_kept])
        self.remainder = self._stream.text[len(kept) : start]
        return num_kept
