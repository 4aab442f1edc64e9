"""The segment: its order, its samples of long ranges, and bytes believed only when whole."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookahead import blob
from lookahead.candidates import MATCH_LENGTHS
from lookahead.draft import TokenSource
from lookahead.searching import find_ranges
from lookahead.segment import HEADER, MERGE_DEPTH, Merge, Segment, SegmentFormatError
from lookahead.token_log import MAX_TOKEN_ID, TokenLog, as_words

NO_EDGES = np.empty(0, np.int64)
SEQUENCES = st.lists(st.lists(st.integers(0, 2), max_size=30), max_size=6)


def log_of(sequences: list[list[int]], first_id: int = 1) -> TokenLog:
    return TokenLog.of(
        [
            (first_id + index, TokenSource.HISTORY, as_words(tokens))
            for index, tokens in enumerate(sequences)
        ]
    )


def suffixes(segment: Segment) -> list[list[int]]:
    """What follows each position of the order, up to the border or to the depth that is sorted."""
    words = segment.log.words.tolist()
    return [
        [word - 1 for word in words[begin : words.index(0, begin)]][:MERGE_DEPTH]
        for begin in segment.order.tolist()
    ]


@settings(max_examples=40)
@given(SEQUENCES, SEQUENCES, st.lists(st.integers(0, 2), max_size=12), st.integers(1, 50))
def test_every_order_is_sorted_however_it_came_about(
    first: list[list[int]], forgotten: list[list[int]], last: list[int], piece: int
) -> None:
    segment = Segment.sort(log_of([[0, 1, 2] * 45, *first, *forgotten]))
    segment = segment.without(range(2 + len(first), 2 + len(first) + len(forgotten)))
    merge = Merge(segment, Segment.sort(log_of([last], first_id=99)))
    while (merged := merge.advance(piece)) is None:
        pass
    assert merged._is_consistent()
    found = suffixes(merged)
    assert all(before <= after for before, after in pairwise(found))
    tokens = [[0, 1, 2] * 45, *first, last]
    assert len(found) == sum(map(len, tokens))
    assert sorted(found) == sorted(
        sequence[begin : begin + MERGE_DEPTH]
        for sequence in tokens
        for begin in range(len(sequence))
    )


def test_stored_bytes_bring_back_the_same_segment() -> None:
    segment = Segment.sort(log_of([[1, 2, 0], [], [3, 1, 2]])).without([1])
    again = Segment.from_bytes(segment.to_bytes())
    np.testing.assert_array_equal(again.order, segment.order)
    np.testing.assert_array_equal(again.log.words, segment.log.words)
    assert again.log.words.tolist() == [0, 4, 2, 3, 0]
    assert again.log.sequence_ids.tolist() == [2, 3]
    assert Segment.from_bytes(Segment.sort(log_of([])).to_bytes()).log.num_bytes == 0


def test_damaged_bytes_are_refused_wherever_the_damage_is() -> None:
    whole = Segment.sort(log_of([[1, 2, 0], [3, 1, 2]])).to_bytes()
    for index in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[index] ^= 1
        with pytest.raises(SegmentFormatError):
            Segment.from_bytes(bytes(damaged))
    for cut in (b"", whole[:10], whole[:-1], whole + b"\0"):
        with pytest.raises(SegmentFormatError):
            Segment.from_bytes(cut)


def test_another_version_is_refused_by_name() -> None:
    whole = Segment.sort(log_of([[1]])).to_bytes()
    newer = whole.replace(HEADER.encode(), b"segment 9", 1)
    with pytest.raises(SegmentFormatError, match="version"):
        Segment.from_bytes(newer)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order", np.array([0, 0, 1], np.int32)),
        ("order", np.array([0, 1, 9], np.int32)),
        ("order", np.array([0, 1, -1], np.int32)),
        ("order", np.array([0, 1, 3], np.int32)),
        ("order", np.array([0, 1], np.int32)),
        ("order", np.array([0, 1, 2], np.int64)),
        ("words", np.array([2, 3, 4, 5], np.int32)),
        ("words", np.array([2, 0, 4, 0], np.int32)),
        ("words", np.array([2, -3, 4, 0], np.int32)),
        ("words", np.array([2, 3, 4], np.int32)),
        ("lengths", np.array([2])),
        ("lengths", np.array([-1, 3])),
        ("lengths", np.array([1.5])),
        ("is_document", np.array([], np.uint8)),
        ("sequence_ids", np.array([1, 2])),
        ("surplus", np.array([1])),
    ],
)
def test_well_wrapped_nonsense_is_refused(name: str, value: np.ndarray) -> None:
    whole = Segment.sort(log_of([[1, 2, 3]])).to_bytes()
    arrays = blob.unpack_arrays(HEADER, whole)
    arrays[name] = value
    with pytest.raises(SegmentFormatError):
        Segment.from_bytes(blob.pack_arrays(HEADER, arrays))


def test_a_missing_array_is_refused() -> None:
    arrays = blob.unpack_arrays(HEADER, Segment.sort(log_of([[1]])).to_bytes())
    del arrays["order"]
    with pytest.raises(SegmentFormatError):
        Segment.from_bytes(blob.pack_arrays(HEADER, arrays))


def test_every_range_of_a_long_order_is_found_to_its_ends() -> None:
    """Of short and long suffixes, rare and frequent ones, those in front and at the end."""
    generator = np.random.default_rng(4)
    sequences = [np.minimum(generator.geometric(0.4, size=120), 9).tolist() for _ in range(40)] + [
        [0, 1] * 300,
        [9] * 200,
    ]
    segment = Segment.sort(log_of(sequences))
    words = segment.log.words
    levels = np.array(MATCH_LENGTHS)
    nothing = np.empty((len(levels), 0), np.int32)
    contexts = [sequence[max(0, end - 32) : end] for sequence in sequences for end in (1, 7, 90)]
    for context in [*contexts, [10], [5, 10], [0], [9, 9, 0], [MAX_TOKEN_ID], [1, MAX_TOKEN_ID]]:
        suffix = as_words(context)
        ranges = np.zeros((len(levels), 4), np.int64)
        find_ranges(words, segment.order, segment.fence, suffix, levels, NO_EDGES, ranges, nothing)
        for length, (low, count, _, _) in zip(MATCH_LENGTHS, ranges.tolist(), strict=True):
            windows = np.lib.stride_tricks.sliding_window_view(words, length)
            is_there = length <= len(suffix) and (windows == suffix[-length:]).all(axis=1)
            assert count == np.sum(is_there)
            assert set(segment.order[low : low + count].tolist()) == (
                set(np.flatnonzero(is_there).tolist()) if count else set()
            )
