"""Candidates: places where the end of the context occurred before, and what came next there.

Arrays of tokens in, arrays of positions out; knows neither sequences nor probabilities. A position
always points at the first token *after* a match. Used by the request view, the segment and the
Trie to answer one question in the same terms, and read by the drafter.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MATCH_LENGTHS",
    "MAX_MATCH_LENGTH",
    "Candidates",
    "IntArray",
    "evenly_spaced",
    "level_of",
    "measure_matches",
    "rank",
    "scan",
]

IntArray = NDArray[np.integer[Any]]

MATCH_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The suffix lengths told apart; a match counts at the longest one it reaches, its level."""

MAX_MATCH_LENGTH = MATCH_LENGTHS[-1]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Continuations of the context found in one store, longest match and then latest first.

    Args:
        positions: [num_candidates] where the store continues after the match.
        match_lengths: [num_candidates] tokens before it that agree with the end of the context.
        windows: [num_candidates, depth] the tokens from there on; -1 from a sequence border on.
        wraps_at: where windows return to their position: the end of the request's own tokens.
    """

    positions: IntArray
    match_lengths: IntArray
    windows: IntArray
    wraps_at: int

    def position(self, candidate: int, depth: int) -> int:
        """Where in the store the token stands that `windows[candidate, depth]` shows."""
        start = int(self.positions[candidate])
        return start + depth % (self.wraps_at - start)

    @classmethod
    def none(cls, depth: int) -> Self:
        """Nothing was found."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, np.empty((0, depth), np.int64), 1)


def scan(tokens: IntArray, suffix: IntArray) -> tuple[IntArray, IntArray]:
    """Find every place in `tokens` that follows the last token of `suffix`.

    Returns:
        positions [n] in ascending order, and their match lengths [n], both within `tokens`.
    """
    positions = np.flatnonzero(tokens[:-1] == suffix[-1]) + 1
    return positions, measure_matches(tokens, positions, suffix)


def measure_matches(tokens: IntArray, positions: IntArray, suffix: IntArray) -> IntArray:
    """For each position, how many tokens before it agree with the end of `suffix`."""
    back = positions[:, None] - np.arange(1, len(suffix) + 1)  # [num_positions, suffix_length]
    agrees = (tokens.take(back, mode="clip") == suffix[::-1]) & (back >= 0)
    lengths: IntArray = np.logical_and.accumulate(agrees, axis=1).sum(axis=1)
    return lengths


def level_of(match_lengths: IntArray) -> IntArray:
    """Index into `MATCH_LENGTHS` of the longest one that each match reaches; -1 for no match."""
    return np.searchsorted(MATCH_LENGTHS, match_lengths, side="right") - 1


def evenly_spaced(values: IntArray, limit: int) -> IntArray:
    """At most `limit` of `values`, evenly spaced: a quantile sample where they are sorted."""
    if len(values) <= limit:
        return values
    return values[np.arange(limit) * len(values) // limit]


def rank(positions: IntArray, match_lengths: IntArray) -> IntArray:
    """Order that puts the longest level first and, within a level, the latest position."""
    return np.lexsort((-positions, -level_of(match_lengths)))
