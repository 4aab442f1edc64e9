"""Beliefs: the calibration as tables, which compiled code reads.

The cells never change and are tabulated once; the shares are as they are at the moment. Knows what
the calibration says and no more. Made by the drafter for every draft.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.agreement import EDGES, FIRST_CELLS, MOST
from lookahead.calibration import MAX_DISTINCT, MAX_RECENT_DEPTH, MAX_SEEN, Calibration
from lookahead.candidates import MAX_MATCH_LENGTH, IntArray

__all__ = ["Beliefs", "beliefs_of"]

_FACTOR_CELLS = np.array(FIRST_CELLS)
_EDGES = np.array(EDGES)


class Beliefs(NamedTuple):
    """How far to believe each kind of evidence: the share of its cell.

    Attributes:
        shares: by cell.
        match_cells: [conversation or not, match length, times seen, different continuations],
            each up to where nothing changes any more.
        pair_cells: [match length, up to 2] first cell of a row.
        token_cells: [has matches, has a pair] likewise.
        recent_cells: [depth] likewise.
        factors: the last one on what a branch was given, by cell: see `Agreement`.
        factor_cells: [set of kinds] first cell, followed by one for each class of shares.
        edges: between classes of shares.
        most: given to the branches of one node together.
    """

    shares: NDArray[np.float64]
    match_cells: IntArray
    pair_cells: IntArray
    token_cells: IntArray
    recent_cells: IntArray
    factors: NDArray[np.float64]
    factor_cells: IntArray
    edges: NDArray[np.float64]
    most: float


def beliefs_of(calibration: Calibration) -> Beliefs:
    """What this calibration says now."""
    shares = np.asarray(calibration.shares, np.float64)
    factors = np.asarray(calibration.agreement.factors, np.float64)
    return Beliefs(shares, *_cells(), factors, _FACTOR_CELLS, _EDGES, MOST)


@cache
def _cells() -> tuple[IntArray, IntArray, IntArray, IntArray]:
    ask = Calibration
    matches = np.zeros((2, MAX_MATCH_LENGTH + 1, MAX_SEEN + 1, MAX_DISTINCT + 1), np.int64)
    for is_own, length, num_seen, num_distinct in np.ndindex(matches.shape):
        if length and num_seen and num_distinct:
            cell = ask.match_cell(bool(is_own), length, num_seen, num_distinct)
            matches[is_own, length, num_seen, num_distinct] = cell
    pairs = [ask.pair_cell(length) for length in range(3)]
    tokens = [
        [ask.token_cell(has_matches=bool(matched), has_pair=bool(pair)) for pair in range(2)]
        for matched in range(2)
    ]
    recent = [ask.recent_cell(depth) for depth in range(MAX_RECENT_DEPTH)]
    return matches, np.array(pairs), np.array(tokens), np.array(recent)
