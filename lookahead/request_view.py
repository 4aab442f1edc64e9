"""The request view: the conversation's own tokens, matchable the moment they are committed.

One growable array of token ids with a source each. Knows neither the Trie nor the model. The
session owns it and appends to it; the drafter reads it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import MATCH_LENGTHS, MAX_PLACES, Candidates, IntArray
from lookahead.collecting import search_request
from lookahead.draft import SOURCE_CODES, TokenSource

__all__ = ["RequestView"]

SOURCES = (TokenSource.PROMPT, TokenSource.OUTPUT, TokenSource.DOCUMENT)

_LEVELS = np.array(MATCH_LENGTHS)
_SOURCE_OF_CODE = {code: source for source, code in SOURCE_CODES.items()}


class RequestView:
    """Token ids of one conversation branch, append-only except for `truncate`."""

    def __init__(self) -> None:
        self._tokens = np.empty(1024, np.int32)
        self._sources = np.empty(1024, np.uint8)  # SOURCE_CODES
        self._length = 0
        self._occurs = np.zeros(1024, np.bool_)  # by token id

    def __len__(self) -> int:
        return self._length

    @property
    def token_ids(self) -> NDArray[np.int32]:
        """All tokens, as a read-only view that the next `append` or `truncate` may outdate."""
        view = self._tokens[: self._length]
        view.flags.writeable = False
        return view

    def append(self, token_ids: Sequence[int] | IntArray, source: TokenSource) -> None:
        """Add tokens at the end; `source` is PROMPT, OUTPUT or DOCUMENT."""
        if source not in SOURCES:
            raise ValueError(f"A request's own tokens cannot come from {source!r}.")
        end = self._length + len(token_ids)
        if end > len(self._tokens):
            capacity = max(end, 2 * len(self._tokens))
            self._tokens = np.resize(self._tokens, capacity)
            self._sources = np.resize(self._sources, capacity)
        self._tokens[self._length : end] = token_ids
        self._sources[self._length : end] = SOURCE_CODES[source]
        self._length = end
        self._note(self._tokens[end - len(token_ids) : end])

    def mark_document(self, start: int, end: int) -> None:
        """What stands from `start` to `end`, as far as there is something, is from a document."""
        self._sources[start : min(end, self._length)] = SOURCE_CODES[TokenSource.DOCUMENT]

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        if not 0 <= length <= self._length:
            raise ValueError(f"Cannot truncate {self._length} tokens to {length}.")
        self._length = length
        self._occurs[:] = False
        self._note(self._tokens[:length])

    def _note(self, token_ids: IntArray) -> None:
        highest = int(token_ids.max(initial=0))
        if highest >= len(self._occurs):
            self._occurs = np.append(self._occurs, np.zeros(highest + 1, np.bool_))
        self._occurs[token_ids] = True

    @property
    def occurs(self) -> NDArray[np.bool_]:
        """By token id, whether it occurs in it; ids behind its end do not."""
        return self._occurs

    @property
    def source_codes(self) -> NDArray[np.uint8]:
        """The source of every token, by `SOURCE_CODES`."""
        return self._sources[: self._length]

    def source_at(self, position: int) -> TokenSource:
        """Source of the token at `position`."""
        return _SOURCE_OF_CODE[int(self._sources[position])]

    def candidates(self, depth: int) -> Candidates:
        """Earlier continuations of the last tokens, `depth` tokens long, the end itself left out.

        Of each match length the latest 64. A continuation that reaches the end goes round to its
        beginning, as an overlapping copy would: text that has begun to repeat is expected to go on
        repeating.
        """
        if self._length < 2:
            return Candidates.none(depth)
        return search_request(self._tokens[: self._length], _LEVELS, MAX_PLACES, depth)
