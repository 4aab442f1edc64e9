"""The token log: sequences laid end to end, each closed by one shared border word.

Immutable. A token is stored as the *word* token + 1, so that the border is 0 and token id 0 stays
an ordinary token; words are big-endian, so that comparing bytes compares tokens. Knows neither
order nor context. Read by the segment and the Trie.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import IntArray
from lookahead.draft import TokenSource

__all__ = ["BORDER", "WORD", "WORD_BYTES", "Location", "TokenLog", "as_words"]

WORD = np.dtype(">i4")
WORD_BYTES = WORD.itemsize
BORDER = 0
MAX_TOKEN_ID = 2**31 - 2


@dataclass(frozen=True, slots=True)
class Location:
    """Where a logged token comes from: sequence, offset in it, and the sequence's source."""

    sequence_id: int
    offset: int
    source: TokenSource


def as_words(token_ids: Sequence[int] | IntArray) -> IntArray:
    """Token ids as words. Raises ValueError for ids that are negative or beyond 31 bits."""
    tokens = np.asarray(token_ids, np.int64)
    if tokens.size and not (tokens.min() >= 0 and tokens.max() <= MAX_TOKEN_ID):
        raise ValueError(f"Token ids must lie between 0 and {MAX_TOKEN_ID}.")
    return (tokens + 1).astype(WORD)


class TokenLog:
    """Sequences of one Trie, or part of one, in the order they were added.

    Args:
        words: the log as bytes; every sequence is followed by a border, forgotten ones are borders.
        starts: [num_sequences] position of each living sequence, ascending.
        lengths: [num_sequences] its tokens, border excluded.
        sequence_ids: [num_sequences] the caller's name for it.
        is_document: [num_sequences] whether it is a document's; otherwise history.
    """

    def __init__(
        self,
        words: bytes,
        starts: IntArray,
        lengths: IntArray,
        sequence_ids: IntArray,
        is_document: IntArray,
    ) -> None:
        self.bytes = words
        self.words: IntArray = np.frombuffer(words, WORD)
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.lengths = np.ascontiguousarray(lengths, np.int64)
        self.sequence_ids = np.ascontiguousarray(sequence_ids, np.int64)
        self.is_document = np.ascontiguousarray(is_document, np.uint8)

    @classmethod
    def of(cls, sequences: Iterable[tuple[int, TokenSource, IntArray]]) -> "TokenLog":
        """Lay out sequences given as (sequence id, HISTORY or DOCUMENT, words)."""
        ids, sources, words = tuple(zip(*sequences, strict=True)) or ((), (), ())
        lengths = np.array([len(sequence) for sequence in words], np.int64)
        starts = np.cumsum(lengths + 1) - (lengths + 1)
        is_document = np.array([source is TokenSource.DOCUMENT for source in sources], np.uint8)
        border = bytes(WORD_BYTES)
        laid_out = b"".join(sequence.tobytes() + border for sequence in words)
        return cls(laid_out, starts, lengths, np.array(ids, np.int64), is_document)

    def __len__(self) -> int:
        """Words in the log, borders included."""
        return len(self.words)

    @property
    def num_bytes(self) -> int:
        """Memory of the log and its table of sequences."""
        columns = (self.starts, self.lengths, self.sequence_ids, self.is_document)
        return len(self.bytes) + sum(column.nbytes for column in columns)

    def joined(self, other: "TokenLog") -> "TokenLog":
        """This log with `other` behind it, whose positions move up by the length of this one."""
        return TokenLog(
            self.bytes + other.bytes,
            np.concatenate((self.starts, other.starts + len(self))),
            np.concatenate((self.lengths, other.lengths)),
            np.concatenate((self.sequence_ids, other.sequence_ids)),
            np.concatenate((self.is_document, other.is_document)),
        )

    def without(self, sequence_ids: Collection[int]) -> "TokenLog":
        """This log with some sequences wiped to borders; no other position changes."""
        keep = np.isin(self.sequence_ids, list(sequence_ids), invert=True)
        words = self.words.copy()
        for begin, end in self._edges(~keep).reshape(-1, 2).tolist():
            words[begin:end] = BORDER
        return TokenLog(
            words.tobytes(),
            self.starts[keep],
            self.lengths[keep],
            self.sequence_ids[keep],
            self.is_document[keep],
        )

    def edges_of(self, sequence_ids: Collection[int]) -> IntArray:
        """Begin and end of each of these sequences in turn, ascending: [2 * number found]."""
        return self._edges(np.isin(self.sequence_ids, list(sequence_ids)))

    def _edges(self, chosen: NDArray[np.bool]) -> IntArray:
        starts = self.starts[chosen]
        return np.column_stack((starts, starts + self.lengths[chosen])).ravel()

    def windows(self, positions: IntArray, depth: int) -> IntArray:
        """[num_positions, depth] tokens from each position on; -1 from the sequence's border on."""
        steps = positions[:, None] + np.arange(depth)
        tokens = self.words.take(steps, mode="clip").astype(np.int32) - 1
        tokens[np.logical_or.accumulate(tokens < 0, axis=1)] = -1
        return tokens

    def locate(self, position: int) -> Location:
        """Provenance of a position. Raises KeyError where no living sequence has a token."""
        index = bisect_right(self.starts.data, position) - 1
        offset = position - int(self.starts[index]) if index >= 0 else 0
        if index < 0 or offset >= self.lengths[index]:
            raise KeyError(f"No living sequence has a token at log position {position}.")
        source = TokenSource.DOCUMENT if self.is_document[index] else TokenSource.HISTORY
        return Location(int(self.sequence_ids[index]), offset, source)
