"""Weighing bystanders: how often a token occurs in the conversation and how long ago; compiled.

Arrays of numbers only; knows no noise. Called by foresight before every sampled draft.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.candidates import IntArray

__all__ = ["weigh"]

FloatArray = NDArray[np.float64]

_SPREAD = 2_654_435_769  # spreads token ids over slots (Knuth: multiplicative hashing)


@njit(cache=True)
def weigh(
    conversation: IntArray,
    nearly_ids: IntArray,
    nearly_often: FloatArray,
    power: float,
    fading: float,
    recent: float,
    limit: int,
) -> tuple[IntArray, FloatArray]:
    """The heaviest tokens, heaviest first, `limit` at most, and their weights.

    A token weighs (times it occurs + 1)^power · (1 + tokens ago / recent)^−fading, and as far as it
    was nearly said, the times it was to this power besides.
    """
    most = len(conversation) + len(nearly_ids)
    num_slots = 64
    while num_slots < 2 * most:
        num_slots *= 2
    slots = np.full(num_slots, -1, np.int32)
    token_ids = np.empty(most, np.int64)
    counts = np.zeros(most, np.int64)
    weights = np.zeros(most)
    count = 0
    for ago in range(len(conversation)):
        token_id = conversation[len(conversation) - 1 - ago]
        at = _find(slots, token_ids, token_id, count)
        if at == count:
            count += 1
            weights[at] = (1.0 + ago / recent) ** -fading
        counts[at] += 1
    for at in range(count):
        weights[at] *= (counts[at] + 1.0) ** power
    for number in range(len(nearly_ids)):
        at = _find(slots, token_ids, nearly_ids[number], count)
        count += at == count
        weights[at] += nearly_often[number] ** power
    order = np.argsort(-weights[:count], kind="mergesort")[:limit]
    return token_ids[order], weights[order]


@njit(cache=True)
def _find(slots: IntArray, token_ids: IntArray, token_id: int, count: int) -> int:
    """Where a token stands; `count`, where it is put now, if it was not there."""
    mask = len(slots) - 1
    slot = (token_id * _SPREAD >> 16) & mask
    while slots[slot] >= 0:
        if token_ids[slots[slot]] == token_id:
            return int(slots[slot])
        slot = (slot + 1) & mask
    slots[slot] = count
    token_ids[count] = token_id
    return count
