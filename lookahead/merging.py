"""Merging: one order of two sorted token logs, and whether an order is one at all.

Compiled loops, arrays in, arrays out, which let other threads go on; what they mean is said in
`segment.py`, which calls them. Numba compiles each at its first call, once per machine. Merging
checks no index: every sequence ends in a border (word 0), and orders lie within their log.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.token_log import BORDER

__all__ = ["is_whole", "merge_orders"]

FROZEN = 0xE947D882  # what is compiled in from other files: see tests/lookahead/test_frozen.py

Ints = NDArray[np.integer[Any]]


@njit(cache=True, nogil=True)
def is_whole(words: Ints, order: Ints, ends: Ints) -> bool:
    """Whether `order` names every word that is no border once, and borders stand at `ends` alone.

    Args:
        ends: where each sequence's border should be, within `words`; as many as `order` leaves.
    """
    num_borders = 0
    for word in words:
        if word < 0:
            return False
        if word == BORDER:
            num_borders += 1
    if num_borders != len(ends):
        return False
    is_named = np.zeros(len(words), np.bool_)
    for end in ends:
        if words[end] != BORDER:
            return False
        is_named[end] = True
    for position in order:
        if position < 0 or position >= len(words) or is_named[position]:
            return False
        is_named[position] = True
    return True


@njit(cache=True, nogil=True)
def merge_orders(
    older_words: Ints,
    older: Ints,
    newer_words: Ints,
    newer: Ints,
    older_index: int,
    newer_index: int,
    depth: int,
    merged: Ints,
    num_entries: int,
) -> tuple[int, int]:
    """Write the next entries of the order of two logs laid end to end; other threads go on.

    Args:
        older_index, newer_index: how much of each order is merged already.
        depth: words that are compared; where they are the same the older one comes first.
        merged: [both lengths] to be filled.
        num_entries: how many to write at most.

    Returns:
        how much of each order is merged now.
    """
    shift = len(older_words)
    end = min(older_index + newer_index + num_entries, len(merged))
    for target in range(older_index + newer_index, end):
        if newer_index == len(newer):
            takes_older = True
        elif older_index == len(older):
            takes_older = False
        else:
            older_place, newer_place = older[older_index], newer[newer_index]
            step = 0
            while True:
                older_word = older_words[older_place + step]
                newer_word = newer_words[newer_place + step]
                step += 1
                if older_word != newer_word or older_word == BORDER or step == depth:
                    break
            takes_older = older_word <= newer_word
        if takes_older:
            merged[target] = older[older_index]
            older_index += 1
        else:
            merged[target] = newer[newer_index] + shift
            newer_index += 1
    return older_index, newer_index
