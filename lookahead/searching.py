"""Searching: where in a sorted token log the end of the context stands, at each match length.

Compiled loops, arrays in, arrays out; what they mean is said in `segment.py`. Numba compiles each
at its first call, once per machine, and keeps the result on disk. Nothing here checks an index:
callers pass logs whose every sequence ends in a border (word 0), the last word of a log included,
and orders that lie within their log. A *suffix* is the end of the context as words, none of them 0.
Called by the Trie's snapshot, segment by segment.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["COUNT", "FENCE_STEP", "LOW", "NUM_LISTED", "WEIGHT", "find_ranges"]

Ints = NDArray[np.integer[Any]]

FENCE_STEP = 64  # entries of an order from one post of its fence to the next
_FIRST_LISTED = 64  # places looked at first: mostly less than half of them are masked
LOW, COUNT, NUM_LISTED, WEIGHT = range(4)  # columns of `ranges`


@njit(cache=True)
def find_ranges(
    words: Ints,
    order: Ints,
    fence: Ints,
    suffix: Ints,
    levels: Ints,
    edges: Ints,
    ranges: Ints,
    listed: Ints,
) -> None:
    """Find the range of the order that begins with the suffix's last tokens, at each level.

    Args:
        words, order: of the segment.
        fence: [len(order) / FENCE_STEP, rounded up] the first two words, in one number, that stand
            at each FENCE_STEPth place of the order.
        levels: [num_levels] suffix lengths, rising.
        edges: begin and end in turn of the stretches of `words` that are masked, ascending.
        ranges: [num_levels, 4] to be filled, zeros: the range's first index, its length, how many
            places of it are in `listed`, and how many of its places are not masked, an estimate.
        listed: [num_levels, limit] to be filled: places not masked; unused where nothing is.
    """
    for level in range(len(levels)):
        length = levels[level]
        if length > len(suffix):
            return
        begin = len(suffix) - length
        low, high = _range(words, order, fence, suffix, begin)
        if low == high:
            return
        count = high - low
        ranges[level, LOW] = low
        ranges[level, COUNT] = count
        ranges[level, WEIGHT] = count
        if len(edges):
            for limit in (min(_FIRST_LISTED, listed.shape[1]), listed.shape[1]):
                num_seen = min(count, limit)
                num_kept = 0
                for index in range(num_seen):
                    place = order[low + index * count // num_seen]
                    if not _is_masked(edges, place):
                        listed[level, num_kept] = place
                        num_kept += 1
                if num_kept * 2 >= limit or num_seen == count:
                    break
            ranges[level, NUM_LISTED] = num_kept
            ranges[level, WEIGHT] = num_kept * count // num_seen


@njit(cache=True)
def _range(words: Ints, order: Ints, fence: Ints, suffix: Ints, begin: int) -> tuple[int, int]:
    """The range of the order whose places begin with `suffix[begin:]`.

    Most of an order lies far away in memory; the fence, a hundredth of it, says where to look.
    """
    length = len(suffix) - begin
    key = int(suffix[begin]) << 32
    end_key = key + (1 << 31)  # beyond every second word
    if length > 1:
        key += int(suffix[begin + 1])
        end_key = key + 1
    first, last = _post(fence, key), _post(fence, end_key)
    start = max(0, (first - 1) * FENCE_STEP)
    end = min(len(order), last * FENCE_STEP)
    if length <= 2:
        low = _bound(words, order, suffix, begin, start, min(end, first * FENCE_STEP), False)
        start = max(low, (last - 1) * FENCE_STEP)
        return low, _bound(words, order, suffix, begin, start, end, True)
    low = _bound(words, order, suffix, begin, start, end, False)
    reach = 0  # a long match has few places: they are near the first one
    step = 1
    while low + reach < end and _begins(words, order[low + reach], suffix, begin):
        reach += step
        step *= 2
    if reach == 0:
        return low, low
    start = low + reach - step // 2 + 1
    return low, _bound(words, order, suffix, begin, start, min(end, low + reach), True)


@njit(cache=True)
def _post(fence: Ints, key: int) -> int:
    """The first post of the fence that is not before `key`."""
    low, high = 0, len(fence)
    while low < high:
        middle = (low + high) >> 1
        if fence[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _begins(words: Ints, place: int, suffix: Ints, begin: int) -> bool:
    matched = 0
    length = len(suffix) - begin
    while matched < length and words[place + matched] == suffix[begin + matched]:
        matched += 1
    return matched == length


@njit(cache=True)
def _bound(
    words: Ints, order: Ints, suffix: Ints, begin: int, low: int, high: int, is_upper: bool
) -> int:
    """The first index from `low` on whose place does not stand before the pattern, or after it."""
    length = len(suffix) - begin
    while low < high:
        middle = (low + high) >> 1
        place = order[middle]
        matched = 0
        while matched < length and words[place + matched] == suffix[begin + matched]:
            matched += 1
        if matched == length:
            is_before = is_upper
        else:
            is_before = words[place + matched] < suffix[begin + matched]
        if is_before:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _is_masked(edges: Ints, place: int) -> bool:
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] <= place:
            low = middle + 1
        else:
            high = middle
    return low % 2 == 1
