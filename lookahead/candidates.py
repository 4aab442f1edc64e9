"""Candidates: places where the end of the context occurred before, and what came next there.

Arrays of tokens in, arrays of positions out; knows neither sequences nor probabilities. A position
always points at the first token *after* a match. Used by the request view, the segment and the
Trie to answer one question in the same terms, and read by the drafter.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MATCH_LENGTHS",
    "MAX_MATCH_LENGTH",
    "MAX_PLACES",
    "Candidates",
    "IntArray",
    "evenly_spaced",
]

IntArray = NDArray[np.integer[Any]]

MATCH_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The suffix lengths told apart; a match counts at the longest one it reaches, its level."""

MAX_MATCH_LENGTH = MATCH_LENGTHS[-1]

MAX_PLACES = 64
"""Of one store at one match length, so many are listened to, the latest ones."""


class Candidates(NamedTuple):
    """Continuations of the context found in one store, longest match and then latest first.

    Attributes:
        positions: [num_candidates] int64, where the store continues after the match.
        match_lengths: [num_candidates] int64, tokens before it that agree with the end of the
            context.
        windows: [num_candidates, depth] int32, the tokens from there on; -1 from a border on.
        is_document: [num_candidates] whether it is in a document of the Trie.
        wraps_at: where windows return to their position: the end of the request's own tokens.
        longest: length of the longest match, even where it is left out; 0: nothing was found.
    """

    positions: IntArray
    match_lengths: IntArray
    windows: IntArray
    is_document: NDArray[np.bool_]
    wraps_at: int
    longest: int = 0

    @classmethod
    def empty(cls, capacity: int, depth: int, wraps_at: int) -> Self:
        """Room for so many candidates, to be written."""
        return cls(
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty((capacity, depth), np.int32),
            np.zeros(capacity, np.bool_),
            wraps_at,
        )

    @classmethod
    def none(cls, depth: int) -> Self:
        """Nothing was found."""
        return cls.empty(0, depth, 1)


def evenly_spaced(values: IntArray, limit: int) -> IntArray:
    """At most `limit` of `values`, evenly spaced: a quantile sample where they are sorted."""
    if len(values) <= limit:
        return values
    return values[np.arange(limit) * len(values) // limit]
