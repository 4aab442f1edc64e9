"""Collecting: candidates are written down from what was found, or from a look at every place.

Of sorted segments a sample, from ranges that `searching.py` found; of an unsorted tail and of the
conversation itself the latest places; then all in order. Compiled loops over arrays, as
there. Called by the Trie's snapshot and the request view.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.candidates import Candidates
from lookahead.searching import COUNT, LOW, NUM_LISTED, WEIGHT
from lookahead.token_log import BORDER

__all__ = ["search_request", "search_tail", "take_samples"]

FROZEN = 0xE947D882  # what is compiled in from other files: see tests/lookahead/test_frozen.py

Ints = NDArray[np.integer[Any]]


@njit(cache=True)
def take_samples(
    words: Ints,
    order: Ints,
    starts: Ints,
    places: Ints,
    is_document: Ints,
    suffix: Ints,
    levels: Ints,
    sample_size: int,
    segment: int,
    ranges: Ints,
    listed: Ints,
    count: int,
    found: Candidates,
) -> int:
    """Write down this segment's share of an evenly spaced sample of all segments' ranges.

    Per level, of the places that match just that long; each place once.

    Args:
        starts, places, is_document: of the log's sequences.
        segment: which of the segments in `ranges` this is.
        ranges: [num_segments, num_levels, 4] what `find_ranges` found in each.
        listed: what it listed in this one.
        count: candidates written already; so many are kept.
        found: to be filled.

    Returns:
        candidates written now.
    """
    for level in range(len(levels)):
        total = ranges[:, level, WEIGHT].sum()
        if total == 0:
            continue
        num_longer = ranges[:, level + 1, COUNT].sum() if level + 1 < len(levels) else 0
        if num_longer == ranges[:, level, COUNT].sum():  # no place matches just this long
            continue
        before = ranges[:segment, level, WEIGHT].sum()
        weight = ranges[segment, level, WEIGHT]
        low = ranges[segment, level, LOW]
        num_listed = ranges[segment, level, NUM_LISTED]
        num_taken = min(sample_size, total)
        latest = -1
        for number in range(num_taken):
            index = number * total // num_taken - before
            if index < 0 or index >= weight:
                continue
            if num_listed:
                index = index * num_listed // weight
                if index == latest:
                    continue
                place = listed[level, index]
            else:
                place = order[low + index]
            latest = index
            position = place + levels[level]
            if words[position] == BORDER:
                continue
            matched = _matched_length(words, position, suffix)
            if _level_of(levels, matched) == level:
                found.match_lengths[count] = matched
                _emit(words, starts, places, is_document, position, count, found)
                count += 1
    return count


@njit(cache=True)
def search_tail(
    words: Ints,
    starts: Ints,
    places: Ints,
    is_document: Ints,
    suffix: Ints,
    levels: Ints,
    edges: Ints,
    limit: int,
    count: int,
    found: Candidates,
) -> Candidates:
    """Write down the latest places of an unsorted log, too, that follow the end of the context.

    Args:
        limit: places per level at most.

    The rest as in `find_ranges` and `take_samples`. Returns all candidates, ranked.
    """
    taken = np.zeros(len(levels), np.int64)
    last = suffix[len(suffix) - 1]
    num_edges = len(edges)  # of them, those that do not lie behind the position
    for position in range(len(words) - 1, 0, -1):
        if words[position - 1] != last or words[position] == BORDER:
            continue
        while num_edges and edges[num_edges - 1] > position:
            num_edges -= 1
        if num_edges % 2:  # within a stretch that is masked
            continue
        matched = _matched_length(words, position, suffix)
        level = _level_of(levels, matched)
        if taken[level] == limit:
            continue
        taken[level] += 1
        found.match_lengths[count] = matched
        _emit(words, starts, places, is_document, position, count, found)
        count += 1
    longest = 0
    for index in range(count):
        longest = max(longest, found.match_lengths[index])
    return _ranked(found, count, longest, levels)


@njit(cache=True)
def search_request(tokens: Ints, levels: Ints, limit: int, depth: int) -> Candidates:
    """The latest places of a conversation that follow the end of its context, ranked.

    Windows that reach the end of the conversation go round to their beginning. The longest match
    counts, written down or not.

    Args:
        limit: places per level at most.
        depth: tokens of a window.
    """
    capacity = min(len(tokens), len(levels) * limit)
    found = Candidates(
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty((capacity, depth), np.int32),
        np.zeros(capacity, np.bool_),
        len(tokens),
        0,
    )
    suffix = tokens[-levels[-1] :]
    taken = np.zeros(len(levels), np.int64)
    last = suffix[len(suffix) - 1]
    count = longest = 0
    for position in range(len(tokens) - 1, 0, -1):
        if tokens[position - 1] != last:
            continue
        matched = _matched_length(tokens, position, suffix)
        longest = max(longest, matched)
        level = _level_of(levels, matched)
        if taken[level] == limit:
            continue
        taken[level] += 1
        found.positions[count] = position
        found.match_lengths[count] = matched
        source = position
        for step in range(depth):
            found.windows[count, step] = tokens[source]
            source = source + 1 if source + 1 < len(tokens) else position
        count += 1
    return _ranked(found, count, longest, levels)


@njit(cache=True)
def _ranked(found: Candidates, count: int, longest: int, levels: Ints) -> Candidates:
    """The first `count` candidates in order: the longest level first, of one the latest first."""
    ends = np.zeros(len(levels), np.int64)  # of each level in the order
    for index in range(count):
        ends[_level_of(levels, found.match_lengths[index])] += 1
    for level in range(len(levels) - 2, -1, -1):
        ends[level] += ends[level + 1]
    order = np.empty(count, np.int64)
    filled = np.zeros(len(levels), np.int64)
    for index in range(count):
        level = _level_of(levels, found.match_lengths[index])
        begin = ends[level + 1] if level + 1 < len(levels) else 0
        at = begin + filled[level]
        filled[level] += 1
        while at > begin and found.positions[order[at - 1]] < found.positions[index]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = index
    return Candidates(
        found.positions[order],
        found.match_lengths[order],
        found.windows[order],
        found.is_document[order],
        found.wraps_at,
        longest,
    )


@njit(cache=True)
def _emit(
    words: Ints,
    starts: Ints,
    places: Ints,
    is_document: Ints,
    position: int,
    count: int,
    found: Candidates,
) -> None:
    """Write down candidate number `count`: its place in the Trie and the tokens from there on."""
    low, high = 0, len(starts)
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] <= position:
            low = middle + 1
        else:
            high = middle
    found.positions[count] = places[low - 1] + position - starts[low - 1]
    found.is_document[count] = is_document[low - 1]
    depth = found.windows.shape[1]
    step = 0
    while step < depth and words[position + step] != BORDER:
        found.windows[count, step] = words[position + step] - 1
        step += 1
    while step < depth:
        found.windows[count, step] = -1
        step += 1


@njit(cache=True)
def _matched_length(words: Ints, place: int, suffix: Ints) -> int:
    """How many tokens before `place` agree with the end of the suffix."""
    limit = min(place, len(suffix))
    matched = 0
    while matched < limit and words[place - 1 - matched] == suffix[len(suffix) - 1 - matched]:
        matched += 1
    return matched


@njit(cache=True)
def _level_of(levels: Ints, matched: int) -> int:
    level = -1
    while level + 1 < len(levels) and levels[level + 1] <= matched:
        level += 1
    return level
