"""A snapshot: all a Trie held at one moment, searched as one store.

Immutable, so that reading takes no lock. Knows segments and the tail, not how they came about.
Published by the Trie, read by the drafter.
"""

import sys
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import MATCH_LENGTHS, Candidates, IntArray
from lookahead.segment import Segment
from lookahead.token_log import Location, TokenLog, as_words

__all__ = ["SAMPLE_SIZE", "TrieSnapshot"]

SAMPLE_SIZE = 32  # continuations looked at per match length, of all segments together
MASKED_SAMPLE_SIZE = 2_048  # drawn in one segment where masked ones are left out next
TAIL_SAMPLE_SIZE = 64  # the latest ones per match length

_LEVELS = np.array(MATCH_LENGTHS)
_NOTHING_LISTED = np.empty((len(MATCH_LENGTHS), 0), np.int32)


class TrieSnapshot:
    """The Trie as it was at one moment; safe to read from any thread.

    Positions are places in the Trie: they keep their meaning while their sequence lives, in later
    snapshots too.

    Args:
        segments: the sealed parts, the oldest first.
        tail: what was added since.
        hidden: sequences that are not drafted from.
    """

    def __init__(
        self, segments: tuple[Segment, ...], tail: TokenLog, hidden: frozenset[int]
    ) -> None:
        self.segments = segments
        self.tail = tail
        self.hidden = hidden
        self._fences = [segment.fence for segment in segments]  # made now, not while drafting
        self.logs = (*(segment.log for segment in segments), tail)

    @property
    def num_bytes(self) -> int:
        """Memory of it all."""
        return self.tail.num_bytes + sum(segment.num_bytes for segment in self.segments)

    def edges_of(self, sequence_ids: Collection[int]) -> tuple[NDArray[np.int64], ...]:
        """Where these sequences and the hidden ones lie, as `candidates` wants it for masking."""
        masked = self.hidden.union(sequence_ids)
        return tuple(log.edges_of(masked) for log in self.logs)

    def candidates(
        self, suffix: IntArray, depth: int, masked_edges: tuple[IntArray, ...]
    ) -> Candidates:
        """Continuations of a context's last tokens, `depth` tokens long, never across a border.

        Args:
            suffix: token ids at the end of the context, oldest first; at least one.
            depth: tokens of each continuation.
            masked_edges: what to leave out, from `edges_of`.
        """
        # only now: the page need not wait for numba
        from lookahead.collecting import search_tail, take_samples
        from lookahead.searching import find_ranges

        words = as_words(suffix)
        num_segments, num_levels = len(self.segments), len(MATCH_LENGTHS)
        ranges = np.zeros((num_segments, num_levels, 4), np.int64)
        listed = [
            np.empty((num_levels, MASKED_SAMPLE_SIZE), np.int32) if len(edges) else _NOTHING_LISTED
            for edges in masked_edges[:num_segments]
        ]
        for number, segment in enumerate(self.segments):
            find_ranges(
                segment.log.words,
                segment.order,
                self._fences[number],
                words,
                _LEVELS,
                masked_edges[number],
                ranges[number],
                listed[number],
            )
        capacity = num_levels * (SAMPLE_SIZE + TAIL_SAMPLE_SIZE)
        found = Candidates.empty(capacity, depth, sys.maxsize)
        count = 0
        for number, segment in enumerate(self.segments):
            count = take_samples(
                segment.log.words,
                segment.order,
                segment.log.starts,
                segment.log.places,
                segment.log.is_document,
                words,
                _LEVELS,
                SAMPLE_SIZE,
                number,
                ranges,
                listed[number],
                count,
                found,
            )
        return search_tail(
            self.tail.words,
            self.tail.starts,
            self.tail.places,
            self.tail.is_document,
            words,
            _LEVELS,
            masked_edges[-1],
            TAIL_SAMPLE_SIZE,
            count,
            found,
        )

    def locate(self, position: int) -> Location:
        """Provenance of a position. Raises KeyError where no living sequence has a token."""
        for log in reversed(self.logs):
            if len(log.places) and log.places[0] <= position:
                return log.locate(position)
        raise KeyError(f"No living sequence has a token at log position {position}.")
