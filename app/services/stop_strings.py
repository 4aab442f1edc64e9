"""A stop rule for the engine: ids that end where a text appears.

Knows a tokenizer and the texts. Made per generation by the workbench, called by the decode loop.
"""

from collections.abc import Sequence
from typing import Any

from app.services.text_stream import TextStream

__all__ = ["StopStrings"]


class StopStrings:
    """Called with the ids emitted so far after each of them; says how many to keep at the end."""

    def __init__(self, tokenizer: Any, strings: Sequence[str]) -> None:
        self._stream = TextStream(tokenizer)
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings))
        self._text_lengths: list[int] = []  # characters after each id
        self._tail = ""

    def __call__(self, token_ids: Sequence[int]) -> int | None:
        """The number of ids before the first stop string, or None where there is none."""
        length = self._text_lengths[-1] if self._text_lengths else 0
        piece = self._stream.append(token_ids[len(self._text_lengths) :])
        missing = len(token_ids) - len(self._text_lengths)
        self._text_lengths.extend([length + len(piece)] * missing)
        window = self._tail + piece
        starts = [at for string in self._strings if (at := window.find(string)) >= 0]
        if starts:
            start = length - len(self._tail) + min(starts)
            return sum(text_length <= start for text_length in self._text_lengths)
        self._tail = window[-self._longest :]
        return None
