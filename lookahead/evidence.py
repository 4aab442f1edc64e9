"""Evidence: the places where the context was seen before, in the order in which they speak.

The longest match first; of equal ones the conversation's own before the Trie's; of one store the
latest first. Compiled, arrays only; knows no probabilities. Made by the drafter from what both
stores found, read as the draft grows.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.candidates import MAX_PLACES, Candidates, IntArray

__all__ = ["Evidence", "gather"]

FROZEN = 0xE947D882  # what is compiled in from other files: see tests/lookahead/test_frozen.py


class Evidence(NamedTuple):
    """Places, each with what came there next.

    Attributes:
        windows: [num_places, depth] tokens from the place on; -1 from a border on.
        positions: [num_places] in the store.
        match_lengths: [num_places] that of the place's level.
        is_own: [num_places] in the conversation, not in the Trie.
        is_document: [num_places] in a document of the Trie.
        wraps_at: where windows of the conversation return to their position.
    """

    windows: IntArray
    positions: IntArray
    match_lengths: IntArray
    is_own: NDArray[np.bool_]
    is_document: NDArray[np.bool_]
    wraps_at: int


@njit(cache=True)
def gather(own: Candidates, other: Candidates, levels: IntArray) -> Evidence:
    """Put the candidates of the conversation and of the Trie, each ranked already, in one order.

    Args:
        levels: [num_levels] `MATCH_LENGTHS`.
    """
    most = len(levels) * MAX_PLACES
    capacity = min(len(own.positions), most) + min(len(other.positions), most)
    evidence = Evidence(
        np.empty((capacity, own.windows.shape[1]), np.int32),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.bool_),
        np.empty(capacity, np.bool_),
        own.wraps_at,
    )
    indexes = np.zeros(2, np.int64)  # of the next candidate of each store
    count = 0
    for level in range(len(levels) - 1, -1, -1):
        for store in range(2):
            found = (own, other)[store]
            indexes[store], count = _take(
                found, indexes[store], levels[level], store == 0, evidence, int(count)
            )
    return Evidence(
        evidence.windows[:count],
        evidence.positions[:count],
        evidence.match_lengths[:count],
        evidence.is_own[:count],
        evidence.is_document[:count],
        evidence.wraps_at,
    )


@njit(cache=True)
def _take(
    found: Candidates, index: int, match_length: int, is_own: bool, evidence: Evidence, count: int
) -> tuple[int, int]:
    """Write down the candidates of one level; the first index behind it, and the places now."""
    end = count + MAX_PLACES
    while index < len(found.positions) and found.match_lengths[index] >= match_length:
        if count < end:
            for step in range(found.windows.shape[1]):  # a slice takes seconds longer to compile
                evidence.windows[count, step] = found.windows[index, step]
            evidence.positions[count] = found.positions[index]
            evidence.match_lengths[count] = match_length
            evidence.is_own[count] = is_own
            evidence.is_document[count] = found.is_document[index]
            count += 1
        index += 1
    return index, count
