"""Text of a growing list of token ids, a piece at a time and never half a character.

Knows only a tokenizer. Used by the answer jobs.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ["TextStream"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what a decoder gives for an incomplete character
_MAX_PENDING_LENGTH = 12  # ids of one character at most; longer runs are bytes that are no text


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
        context = self.decode(self._token_ids[self._window_start : self._shown])
        window = self.decode(self._token_ids[self._window_start :])
        is_text = len(self._token_ids) - self._shown > _MAX_PENDING_LENGTH
        if len(window) <= len(context) or (window.endswith(_REPLACEMENT) and not is_text):
            return ""
        piece = window[len(context) :]
        self._pieces.append(piece)
        self._window_start, self._shown = self._shown, len(self._token_ids)
        return piece

    @property
    def text(self) -> str:
        """The text so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of these ids, decoded at once."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))
