"""A segment: a token log with its suffix array, in which any context is found by binary search.

Immutable. Every window of every sequence is a range of the order, so nothing is stored per node of
the Trie. Knows no tail and no drafting; the Trie owns one and draws candidates from it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection

import numpy as np
from pydivsufsort import divsufsort  # type: ignore[import-untyped]

from lookahead.blob import BlobFormatError, pack_arrays, unpack_arrays
from lookahead.candidates import (
    MATCH_LENGTHS,
    MAX_MATCH_LENGTH,
    IntArray,
    evenly_spaced,
    level_of,
    measure_matches,
)
from lookahead.token_log import BORDER, WORD, WORD_BYTES, TokenLog

__all__ = ["Segment", "SegmentFormatError"]

HEADER = "segment 1"
SAMPLE_SIZE = 32  # continuations looked at per match length
MASKED_SAMPLE_SIZE = 2_048  # drawn where the masked ones are left out next
MERGE_RATIO = 16  # a tail this many times shorter than the segment is merged, not sorted again
MERGE_DEPTH = 2 * MAX_MATCH_LENGTH  # tokens that decide a merged suffix's place


class SegmentFormatError(BlobFormatError):
    """The segment's bytes are damaged or of another version. Rebuild it from the sequences."""


class Segment:
    """A token log and the order of its suffixes.

    Args:
        log: the sequences.
        order: [number of living tokens] positions in the order of what follows from there, borders
            left out; int32. Compared to `MERGE_DEPTH` tokens at least.
    """

    def __init__(self, log: TokenLog, order: IntArray) -> None:
        self.log = log
        self.order = np.ascontiguousarray(order, np.int32)
        self._order_view = self.order.data  # yields plain ints, several times faster

    @classmethod
    def sort(cls, log: TokenLog) -> "Segment":
        """Sort a log from scratch."""
        return cls(log, _suffix_array(log))

    def extended(self, tail: TokenLog) -> "Segment":
        """This segment with `tail` behind it: a short tail is merged, a long one sorted with it."""
        log = self.log.joined(tail)
        if len(tail) * MERGE_RATIO > len(self.log):
            return Segment.sort(log)
        prefix_bytes = MERGE_DEPTH * WORD_BYTES
        prefix_at = self._prefix_reader(prefix_bytes)
        tail_order = _suffix_array(tail)
        places = [
            bisect_left(self._order_view, tail.bytes[begin : begin + prefix_bytes], key=prefix_at)
            for begin in (tail_order * WORD_BYTES).tolist()
        ]
        return Segment(log, np.insert(self.order, places, tail_order + len(self.log)))

    def without(self, sequence_ids: Collection[int]) -> "Segment":
        """This segment with some sequences wiped and out of the order; positions do not change."""
        log = self.log.without(sequence_ids)
        return Segment(log, self.order[log.words[self.order] != BORDER])

    def find(self, suffix: IntArray, masked_edges: IntArray) -> tuple[IntArray, IntArray]:
        """Places that follow the end of the context: a quantile sample of them per match length.

        Args:
            suffix: words at the end of the context, `MAX_MATCH_LENGTH` of them at most.
            masked_edges: begin and end in turn of the stretches not to be used, ascending.

        Returns:
            positions [n] and their match lengths [n]; each position once.
        """
        pattern = suffix.tobytes()
        found: list[tuple[int, IntArray]] = []  # level, positions
        num_found = 0
        for level, length in enumerate(MATCH_LENGTHS):
            if length > len(suffix):
                break
            low, high = self._range(pattern[-length * WORD_BYTES :])
            if low == high:
                break
            if high - low == num_found:  # no place matched just the shorter length
                found.pop()
            num_found = high - low
            found.append((level, self._sample(low, high, masked_edges) + length))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        positions = np.concatenate([places for _, places in found])
        sampled_levels = np.repeat(
            [level for level, _ in found], [len(places) for _, places in found]
        )
        match_lengths = measure_matches(self.log.words, positions, suffix)
        continues = self.log.words[positions] != BORDER
        keep = (level_of(match_lengths) == sampled_levels) & continues
        return positions[keep], match_lengths[keep]

    def to_bytes(self) -> bytes:
        """Serialize; forgotten sequences are not in it."""
        return pack_arrays(
            HEADER,
            {
                "words": self.log.words,
                "starts": self.log.starts,
                "lengths": self.log.lengths,
                "sequence_ids": self.log.sequence_ids,
                "is_document": self.log.is_document,
                "order": self.order,
            },
        )

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Segment":
        """Read what `to_bytes` wrote. Raises SegmentFormatError for anything else."""
        try:
            arrays = unpack_arrays(HEADER, blob)
            words = arrays.pop("words").astype(WORD).tobytes()
            order = arrays.pop("order")
            segment = cls(TokenLog(words, **arrays), order)  # type: ignore[arg-type]
        except (BlobFormatError, KeyError, TypeError) as error:
            raise SegmentFormatError(f"{error} Rebuild it from the sequences.") from error
        if not segment._is_consistent():
            raise SegmentFormatError("The segment contradicts itself. Rebuild it.")
        return segment

    def _is_consistent(self) -> bool:
        """Whether the order names every living token once and the sequences lie within the log."""
        log = self.log
        num_sequences = len(log.starts)
        columns = (log.lengths, log.sequence_ids, log.is_document)
        if any(len(column) != num_sequences for column in columns):
            return False
        ordered = np.sort(self.order)
        if not np.array_equal(ordered, np.flatnonzero(log.words != BORDER)):
            return False
        ends = log.starts + log.lengths
        return bool(
            (log.starts[1:] > ends[:-1]).all()
            and (num_sequences == 0 or (log.starts[0] >= 0 and ends[-1] < len(log)))
            and log.lengths.sum() == len(ordered)
        )

    def _range(self, pattern: bytes) -> tuple[int, int]:
        """The range of the order whose suffixes begin with `pattern`."""
        prefix_at = self._prefix_reader(len(pattern))
        low = bisect_left(self._order_view, pattern, key=prefix_at)
        return low, bisect_right(self._order_view, pattern, lo=low, key=prefix_at)

    def _prefix_reader(self, num_bytes: int) -> Callable[[int], bytes]:
        words = self.log.bytes
        return lambda position: words[position * WORD_BYTES : position * WORD_BYTES + num_bytes]

    def _sample(self, low: int, high: int, masked_edges: IntArray) -> IntArray:
        places: IntArray = self.order[low:high]
        if len(masked_edges):
            places = evenly_spaced(places, MASKED_SAMPLE_SIZE)
            places = places[np.searchsorted(masked_edges, places, side="right") % 2 == 0]
        return evenly_spaced(places, SAMPLE_SIZE)


def _suffix_array(log: TokenLog) -> IntArray:
    if not len(log):
        return np.empty(0, np.int32)
    order = divsufsort(log.words.astype(np.int32))
    living: IntArray = order[log.words[order] != BORDER]
    return living
