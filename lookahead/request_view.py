"""The request view: the conversation's own tokens, matchable the moment they are committed.

One growable array of token ids with a source each. Knows neither the Trie nor the model. The
session owns it and appends to it; the drafter reads it.
"""

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import MAX_MATCH_LENGTH, Candidates, IntArray, rank, scan
from lookahead.draft import TokenSource

__all__ = ["RequestView"]

SOURCES = (TokenSource.PROMPT, TokenSource.OUTPUT, TokenSource.DOCUMENT)


class RequestView:
    """Token ids of one conversation branch, append-only except for `truncate`."""

    def __init__(self) -> None:
        self._tokens = np.empty(1024, np.int32)
        self._sources = np.empty(1024, np.uint8)  # indexes into SOURCES
        self._length = 0
        self._distinct_ids: set[int] = set()

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
        self._sources[self._length : end] = SOURCES.index(source)
        self._length = end
        self._distinct_ids.update(self._tokens[end - len(token_ids) : end].tolist())

    def mark_document(self, start: int, end: int) -> None:
        """What stands from `start` to `end`, as far as there is something, is from a document."""
        self._sources[start : min(end, self._length)] = SOURCES.index(TokenSource.DOCUMENT)

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        if not 0 <= length <= self._length:
            raise ValueError(f"Cannot truncate {self._length} tokens to {length}.")
        self._length = length
        self._distinct_ids = set(self._tokens[:length].tolist())

    @property
    def distinct_ids(self) -> Set[int]:
        """The tokens that occur in it."""
        return self._distinct_ids

    def source_at(self, position: int) -> TokenSource:
        """Source of the token at `position`."""
        return SOURCES[self._sources[position]]

    def candidates(self, depth: int) -> Candidates:
        """Earlier continuations of the last tokens, `depth` tokens long, the end itself left out.

        A continuation that reaches the end goes round to its beginning, as an overlapping copy
        would: text that has begun to repeat is expected to go on repeating.
        """
        if self._length < 2:
            return Candidates.none(depth)
        tokens = self._tokens[: self._length]
        positions, match_lengths = scan(tokens, tokens[-MAX_MATCH_LENGTH:])
        ranks = rank(positions, match_lengths)
        positions, match_lengths = positions[ranks], match_lengths[ranks]
        starts = positions[:, None]
        steps = starts + np.arange(depth) % (self._length - starts)
        return Candidates(positions, match_lengths, tokens[steps], self._length)
