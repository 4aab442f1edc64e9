"""Evidence: places where the context was seen before, as far as they still agree with a path.

Splits the candidates of one store by match length and groups them by the token they go on with as
a draft deepens. Knows candidates only, no probabilities. Used by the drafter.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from lookahead.candidates import MATCH_LENGTHS, Candidates, level_of

__all__ = ["Evidence", "Level", "gather"]

_MAX_CANDIDATES = 64  # of one store at one match length, the latest ones


class Level:
    """The candidates of one store and match length, their windows read as the tree deepens."""

    __slots__ = ("_columns", "candidates", "is_own", "match_length")

    def __init__(
        self,
        candidates: Candidates,
        columns: dict[int, list[int]],
        is_own: bool,
        match_length: int,
    ) -> None:
        self.candidates = candidates
        self.is_own = is_own
        self.match_length = match_length
        self._columns = columns

    def group(self, members: Iterable[int], depth: int) -> dict[int, list[int]]:
        """Members by their token `depth` tokens after the match; ended ones are left out."""
        column = self._columns.get(depth)
        if column is None:
            column = self._columns[depth] = self.candidates.windows[:, depth].tolist()
        groups: dict[int, list[int]] = {}
        for member in members:
            groups.setdefault(column[member], []).append(member)
        groups.pop(-1, None)
        return groups


Evidence = list[tuple[Level, Sequence[int]]]  # candidates that agree with a path, latest first


def gather(candidates: Candidates, *, is_own: bool) -> Evidence:
    """The candidates of one store by match length, longest first."""
    columns: dict[int, list[int]] = {}
    levels = level_of(candidates.match_lengths)
    edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
    return [
        (
            Level(candidates, columns, is_own, MATCH_LENGTHS[levels[begin]]),
            range(begin, min(end, begin + _MAX_CANDIDATES)),
        )
        for begin, end in pairwise(edges)
        if begin < end
    ]
