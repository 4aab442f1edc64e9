"""Text of a growing list of token ids, a piece at a time and never half a character.

Knows only a tokenizer. Used by the answer jobs.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ["TextStream"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what a decoder gives for an incomplete character
_MAX_PENDING_LENGTH = 12  # ids of one character at most; longer runs are bytes that are no text
_MAX_INCOMPLETE_LENGTH = 3  # ids at the end that can still begin a character


class TextStream:
    """Decodes as ids arrive, in time linear in their number.

    Only the last few ids are decoded again, behind the ones before them, since a token's text can
    depend on its neighbour. The text to keep is `decode` of all ids.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._token_ids: list[int] = []
        self._pieces: list[str] = []
        self._window_start = 0  # decoded again as context
        self._shown = 0  # ids whose text is in the pieces

    def append(self, token_ids: Sequence[int]) -> str:
        """Take more ids; returns the text they completed, possibly none."""
        self._token_ids.extend(token_ids)
        num_ids = len(self._token_ids)
        for end in range(num_ids, self._shown, -1):
            if not self._window(end).endswith(_REPLACEMENT):
                return self._show(end)
        if num_ids - self._shown > _MAX_PENDING_LENGTH:
            return self._show(num_ids - _MAX_INCOMPLETE_LENGTH)
        return ""

    def _window(self, end: int) -> str:
        return self.decode(self._token_ids[self._window_start : end])

    def _show(self, end: int) -> str:
        piece = self._window(end)[len(self._window(self._shown)) :]
        self._pieces.append(piece)
        self._window_start, self._shown = self._shown, end
        return piece

    @property
    def text(self) -> str:
        """The text so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of these ids, decoded at once."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))
