"""Text of a growing list of token ids, a piece at a time and never half a character.

Knows only a tokenizer. Used by the answer jobs, and where it is shown what a token stands for.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

__all__ = ["REPLACEMENT", "TextStream", "token_texts"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what a decoder gives for an incomplete character
_MAX_PENDING_LENGTH = 12  # ids of one character at most; longer runs are bytes that are no text
_MAX_INCOMPLETE_LENGTH = 3  # ids at the end that can still begin a character


class TextStream:
    """Decodes as ids arrive, in time linear in their number.

    Only the last few ids are decoded again, behind the ones before them, since a token's text can
    depend on its neighbour. The text to keep is `decode` of all ids.

    Attributes:
        text_lengths: characters that each id completed; 0 within a character.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._token_ids: list[int] = []
        self._pieces: list[str] = []
        self._window_start = 0  # decoded again as context
        self._shown = 0  # ids whose text is in the pieces
        self.text_lengths: list[int] = []

    def append(self, token_ids: Sequence[int]) -> str:
        """Take more ids; returns the text they completed, possibly none."""
        return "".join([self._append(token_id) for token_id in token_ids])

    def _append(self, token_id: int) -> str:
        self._token_ids.append(token_id)
        num_ids = len(self._token_ids)
        piece = ""
        if not self._window(num_ids).endswith(REPLACEMENT):
            piece = self._show(num_ids)
        elif num_ids - self._shown > _MAX_PENDING_LENGTH:
            piece = self._show(num_ids - _MAX_INCOMPLETE_LENGTH)
        self.text_lengths.append(len(piece))
        return piece

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

    def settle(self, num_ids: int) -> str:
        """The text of the first `num_ids` ids decoded at once, where no more will come.

        `text_lengths` become theirs and add up to its length: what is left, such as half a
        character, goes to the last of them.
        """
        text = self.decode(self._token_ids[:num_ids])
        ends = [min(end, len(text)) for end in accumulate(self.text_lengths[:num_ids])]
        ends[-1:] = [len(text)] * min(1, num_ids)
        self.text_lengths = [end - start for start, end in pairwise([0, *ends])]
        return text


def token_texts(tokenizer: Any, token_ids: Sequence[int]) -> list[str]:
    """What each id completes of the text of them all; joined, they are that text."""
    stream = TextStream(tokenizer)
    stream.append(token_ids)
    text = stream.settle(len(token_ids))
    ends = accumulate(stream.text_lengths)
    return [text[start:end] for start, end in pairwise([0, *ends])]
