"""A segment: a token log with its suffix array, in which any context is found by binary search.

Immutable. Every window of every sequence is a range of the order, so nothing is stored per node of
the Trie. Knows no other segment but the one it is merged with; the Trie owns several and draws
candidates from them.
"""

from collections.abc import Collection
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydivsufsort import divsufsort  # type: ignore[import-untyped]

from lookahead.blob import BlobFormatError, pack_arrays, unpack_arrays
from lookahead.candidates import MAX_MATCH_LENGTH, IntArray
from lookahead.token_log import BORDER, TokenLog

__all__ = ["Merge", "Segment", "SegmentFormatError"]

HEADER = "segment 2"
MERGE_DEPTH = 2 * MAX_MATCH_LENGTH  # tokens that decide a merged suffix's place


class SegmentFormatError(BlobFormatError):
    """The segment's bytes are damaged or of another version. Rebuild it from the sequences."""


class Segment:
    """A token log and the order of its suffixes.

    Args:
        log: the sequences.
        order: [number of tokens] positions in the log's words in the order of what follows from
            there, borders left out; int32. Compared to `MERGE_DEPTH` tokens at least.
    """

    def __init__(self, log: TokenLog, order: IntArray) -> None:
        self.log = log
        self.order: NDArray[np.int32] = np.ascontiguousarray(order, np.int32).view()
        self.order.flags.writeable = False

    @cached_property
    def fence(self) -> NDArray[np.int64]:
        """The first two words at every so many places of the order, where a search begins."""
        from lookahead.searching import FENCE_STEP  # only now: the page need not wait for numba

        posts = self.order[::FENCE_STEP]  # each has a word behind it, if only the border
        fence: NDArray[np.int64] = self.log.words[posts].astype(np.int64) << 32
        fence += self.log.words[posts + 1]
        fence.flags.writeable = False
        return fence

    def __len__(self) -> int:
        """Words in its log, borders included."""
        return len(self.log)

    @property
    def num_bytes(self) -> int:
        """Memory of log and order."""
        return self.log.num_bytes + self.order.nbytes + self.fence.nbytes

    @classmethod
    def sort(cls, log: TokenLog) -> "Segment":
        """Sort a log from scratch. Other threads go on meanwhile."""
        if not len(log):
            return cls(log, np.empty(0, np.int32))
        order = divsufsort(log.words)
        return cls(log, order[log.words[order] != BORDER])

    def without(self, sequence_ids: Collection[int]) -> "Segment":
        """This segment without some sequences; nothing of them is left in its bytes."""
        edges = self.log.edges_of(sequence_ids).reshape(-1, 2)
        is_kept = np.ones(len(self.log), np.bool)
        for begin, end in edges.tolist():
            is_kept[begin : end + 1] = False  # the border, too
        moved = np.cumsum(is_kept, dtype=np.int32) - np.int32(1)
        return Segment(self.log.without(sequence_ids), moved[self.order[is_kept[self.order]]])

    def to_bytes(self) -> bytes:
        """Serialize. Places in the Trie are not kept: whoever reads it gives new ones."""
        return pack_arrays(
            HEADER,
            {
                "words": self.log.words,
                "lengths": self.log.lengths,
                "sequence_ids": self.log.sequence_ids,
                "is_document": self.log.is_document,
                "order": self.order,
            },
        )

    @classmethod
    def from_bytes(cls, blob: bytes, first_place: int = 0) -> "Segment":
        """Read what `to_bytes` wrote. Raises SegmentFormatError for anything else.

        The arrays stay in `blob`, which is not copied.
        """
        try:
            arrays = unpack_arrays(HEADER, blob)
            words, lengths, sequence_ids, is_document, order = (
                arrays.pop(name)
                for name in ("words", "lengths", "sequence_ids", "is_document", "order")
            )
        except (BlobFormatError, KeyError) as error:
            raise SegmentFormatError(f"{error} Rebuild it from the sequences.") from error
        columns = (lengths, sequence_ids, is_document)
        if (
            arrays
            or words.dtype != np.int32
            or order.dtype != np.int32
            or any(column.dtype.kind not in "iu" for column in columns)
            or any(column.shape != lengths.shape for column in columns)
            or any(array.ndim != 1 for array in (words, order, lengths))
            or (lengths.size and int(lengths.min()) < 0)
        ):
            raise SegmentFormatError("The segment has other columns. Rebuild it.")
        places = first_place + np.cumsum(lengths.astype(np.int64) + 1) - (lengths + 1)
        segment = cls(TokenLog(words, lengths, sequence_ids, is_document, places), order)
        if not segment._is_consistent():
            raise SegmentFormatError("The segment contradicts itself. Rebuild it.")
        return segment

    def _is_consistent(self) -> bool:
        """Whether the order names every token once and borders stand behind each sequence.

        Search runs over these arrays unchecked.
        """
        from lookahead.merging import is_whole

        log, order = self.log, self.order
        if int(log.lengths.max(initial=0)) > len(log):
            return False
        num_tokens = int(log.lengths.sum())
        if num_tokens + len(log.lengths) != len(log) or len(order) != num_tokens:
            return False
        return bool(is_whole(log.words, order, log.starts + log.lengths))


class Merge:
    """Two segments on their way to be one, a piece at a time.

    Args:
        older, newer: the newer one's sequences were all added later.
    """

    def __init__(self, older: Segment, newer: Segment) -> None:
        self.older = older
        self.newer = newer
        self._merged = np.empty(len(older.order) + len(newer.order), np.int32)
        self._done = (0, 0)

    def advance(self, num_entries: int) -> Segment | None:
        """Merge so many entries more; the merged segment once all are. Other threads go on."""
        from lookahead.merging import merge_orders  # only now: the page need not wait for numba

        self._done = merge_orders(
            self.older.log.words,
            self.older.order,
            self.newer.log.words,
            self.newer.order,
            *self._done,
            MERGE_DEPTH,
            self._merged,
            num_entries,
        )
        if sum(self._done) < len(self._merged):
            return None
        return Segment(self.older.log.joined(self.newer.log), self._merged)
