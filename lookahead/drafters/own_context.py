"""What a drafter has read of the request so far, and what is new in it.

Knows token ids and sources only. For the drafters of this package that index the request token by
token; they need no `begin` to notice that another request is being answered.
"""

from collections.abc import Sequence

import numpy as np

from lookahead.candidates import IntArray
from lookahead.draft import TokenSource
from lookahead.request_view import RequestView

__all__ = ["OwnContext", "prompt_of"]


class OwnContext:
    """A prompt and the answer behind it, as far as they were read."""

    def __init__(self) -> None:
        self._tokens = np.empty(1024, np.int32)
        self._length = 0
        self.prompt_length = 0

    @property
    def prompt_ids(self) -> IntArray:
        """The prompt."""
        return self._tokens[: self.prompt_length]

    @property
    def answer_ids(self) -> IntArray:
        """The answer, as far as it was read."""
        return self._tokens[self.prompt_length : self._length]

    def begin(self, prompt_ids: Sequence[int] | IntArray) -> None:
        """Start over with a prompt."""
        self._length = 0
        self._append(np.asarray(prompt_ids, np.int32))
        self.prompt_length = self._length

    def follow(self, request: RequestView) -> list[int] | None:
        """Take in the answer's new tokens and return them; None for another request."""
        tokens = request.token_ids
        known = self._length
        if len(tokens) < known or not np.array_equal(tokens[:known], self._tokens[:known]):
            return None
        if any(request.source_at(at) is not TokenSource.OUTPUT for at in range(known, len(tokens))):
            return None
        self._append(tokens[known:])
        fresh: list[int] = tokens[known:].tolist()
        return fresh

    def answer_in(self, token_ids: Sequence[int]) -> list[int]:
        """The part of a conversation behind the prompt, all of it if it has another beginning."""
        tokens = list(token_ids)
        is_ours = tokens[: self.prompt_length] == self.prompt_ids.tolist()
        return tokens[self.prompt_length :] if is_ours else tokens

    def _append(self, tokens: IntArray) -> None:
        end = self._length + len(tokens)
        if end > len(self._tokens):
            self._tokens = np.resize(self._tokens, max(end, 2 * len(self._tokens)))
        self._tokens[self._length : end] = tokens
        self._length = end


def prompt_of(request: RequestView) -> IntArray:
    """The tokens of a request before the answer being written."""
    end = len(request)
    while end and request.source_at(end - 1) is TokenSource.OUTPUT:
        end -= 1
    return request.token_ids[:end]
