"""Compiled loops over token logs and suffix orders: search, sampling, merging.

Arrays in, arrays out; what they mean is said in `segment.py` and `trie.py`, which call them. Numba
compiles each at its first call, some seconds once per machine, and keeps the result on disk.
Nothing here checks an index: callers pass logs whose every sequence ends in a border (word 0), the
last word of a log included, and orders that lie within their log. A *suffix* is the end of the
context as words, none of them 0.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.candidates import Candidates

__all__ = [
    "FENCE_STEP",
    "find_ranges",
    "is_whole",
    "merge_orders",
    "ranked",
    "scan_request",
    "scan_tail",
    "take_samples",
]

Ints = NDArray[np.integer[Any]]

BORDER = 0
FENCE_STEP = 64  # entries of an order from one post of its fence to the next
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
            for limit in (min(64, listed.shape[1]), listed.shape[1]):
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
def scan_tail(
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
) -> int:
    """Write down the latest places of an unsorted log that follow the end of the context.

    Args:
        limit: places per level at most.

    The rest as in `find_ranges` and `take_samples`. Returns candidates written now.
    """
    taken = np.zeros(len(levels), np.int64)
    last = suffix[len(suffix) - 1]
    for position in range(len(words) - 1, 0, -1):
        if words[position - 1] != last or words[position] == BORDER:
            continue
        matched = _matched_length(words, position, suffix)
        level = _level_of(levels, matched)
        if taken[level] == limit or (len(edges) and _is_masked(edges, position)):
            continue
        taken[level] += 1
        found.match_lengths[count] = matched
        _emit(words, starts, places, is_document, position, count, found)
        count += 1
    return count


@njit(cache=True)
def scan_request(
    tokens: Ints, suffix: Ints, levels: Ints, limit: int, found: Candidates
) -> tuple[int, int]:
    """Write down the latest places of a conversation that follow the end of its context.

    Windows that reach the end of the conversation go round to their beginning.

    Args:
        limit: places per level at most.
        found: to be filled, the latest place first.

    Returns:
        candidates written, and the length of the longest match, written or not.
    """
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
        for step in range(found.windows.shape[1]):
            found.windows[count, step] = tokens[source]
            source = source + 1 if source + 1 < len(tokens) else position
        count += 1
    return count, longest


@njit(cache=True)
def ranked(found: Candidates, count: int, longest: int, levels: Ints) -> Candidates:
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
