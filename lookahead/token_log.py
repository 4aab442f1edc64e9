"""The token log: sequences laid end to end, each closed by one shared border word.

Immutable. A token is stored as the *word* token + 1, so that the border is 0 and token id 0 stays
an ordinary token. A sequence has a *place*, which stays its own while it lives, whatever is removed
before it; where it lies in the log is nobody else's concern. Knows neither order nor context. Read
by the segment and the Trie.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import IntArray
from lookahead.draft import TokenSource

__all__ = ["BORDER", "MAX_TOKEN_ID", "Location", "TokenLog", "as_words"]

BORDER = 0
MAX_TOKEN_ID = 2**31 - 2


@dataclass(frozen=True, slots=True)
class Location:
    """Where a logged token comes from: sequence, offset in it, and the sequence's source."""

    sequence_id: int
    offset: int
    source: TokenSource


def as_words(token_ids: Sequence[int] | IntArray) -> NDArray[np.int32]:
    """Token ids as words. Raises ValueError for ids that are negative or beyond 31 bits."""
    tokens = np.asarray(token_ids)
    if tokens.dtype != np.int32:
        tokens = tokens.astype(np.int64)
    if int(tokens.view(f"u{tokens.itemsize}").max(initial=0)) > MAX_TOKEN_ID:  # negative ones too
        raise ValueError(f"Token ids must lie between 0 and {MAX_TOKEN_ID}.")
    return tokens.astype(np.int32) + np.int32(1)


class TokenLog:
    """Sequences of one Trie, or part of one, in the order they were added.

    Args:
        words: [num_words] int32; every sequence is followed by a border.
        lengths: [num_sequences] tokens of each, border excluded.
        sequence_ids: [num_sequences] the caller's name for it.
        is_document: [num_sequences] whether it is a document's; otherwise history.
        places: [num_sequences] the Trie's position of its first token, ascending.
    """

    def __init__(
        self,
        words: IntArray,
        lengths: IntArray,
        sequence_ids: IntArray,
        is_document: IntArray,
        places: IntArray,
    ) -> None:
        self.words = _fixed(words, np.int32)
        self.lengths = _fixed(lengths, np.int64)
        self.sequence_ids = _fixed(sequence_ids, np.int64)
        self.is_document = _fixed(is_document, np.uint8)
        self.places = _fixed(places, np.int64)
        self.starts = _fixed(_starts(self.lengths), np.int64)  # [num_sequences] in `words`
        self._rows = (  # views that yield plain ints, several times faster
            self.places.data,
            self.lengths.data,
            self.sequence_ids.data,
            self.is_document.data,
        )

    @classmethod
    def of(
        cls, sequences: Collection[tuple[int, TokenSource, IntArray]], first_place: int = 0
    ) -> "TokenLog":
        """Lay out sequences given as (sequence id, HISTORY or DOCUMENT, words)."""
        lengths = np.array([len(words) for _, _, words in sequences], np.int64)
        border = np.array([BORDER], np.int32)
        pieces = [piece for _, _, words in sequences for piece in (words, border)]
        return cls(
            np.concatenate(pieces) if pieces else np.empty(0, np.int32),
            lengths,
            np.array([sequence_id for sequence_id, _, _ in sequences], np.int64),
            np.array([source is TokenSource.DOCUMENT for _, source, _ in sequences], np.uint8),
            _starts(lengths) + first_place,
        )

    def __len__(self) -> int:
        """Words in the log, borders included."""
        return len(self.words)

    @property
    def num_bytes(self) -> int:
        """Memory of the log and its table of sequences."""
        columns = (self.lengths, self.sequence_ids, self.is_document, self.places, self.starts)
        return self.words.nbytes + sum(column.nbytes for column in columns)

    @property
    def end_place(self) -> int:
        """The first position behind its last sequence; 0 where there is none."""
        return int(self.places[-1] + self.lengths[-1] + 1) if len(self.places) else 0

    def joined(self, other: "TokenLog") -> "TokenLog":
        """This log with `other`, which was added later, behind it."""
        return TokenLog(
            np.concatenate((self.words, other.words)),
            np.concatenate((self.lengths, other.lengths)),
            np.concatenate((self.sequence_ids, other.sequence_ids)),
            np.concatenate((self.is_document, other.is_document)),
            np.concatenate((self.places, other.places)),
        )

    def without(self, sequence_ids: Collection[int]) -> "TokenLog":
        """This log without some sequences, those behind them moved up; no place changes."""
        keep = ~self._chosen(sequence_ids)
        return TokenLog(
            self.words[np.repeat(keep, self.lengths + 1)],
            self.lengths[keep],
            self.sequence_ids[keep],
            self.is_document[keep],
            self.places[keep],
        )

    def edges_of(self, sequence_ids: Collection[int]) -> NDArray[np.int64]:
        """Begin and end in `words` of each of these sequences in turn: [2 * number found]."""
        chosen = self._chosen(sequence_ids)
        starts = self.starts[chosen]
        edges: NDArray[np.int64] = np.column_stack((starts, starts + self.lengths[chosen])).ravel()
        return edges

    def holds(self, sequence_ids: Collection[int]) -> bool:
        """Whether any of these sequences is in it."""
        return bool(self._chosen(sequence_ids).any())

    def _chosen(self, sequence_ids: Collection[int]) -> NDArray[np.bool]:
        if not sequence_ids:
            return np.zeros(len(self.sequence_ids), np.bool)
        return np.isin(self.sequence_ids, np.fromiter(sequence_ids, np.int64, len(sequence_ids)))

    def locate(self, place: int) -> Location:
        """Provenance of a position. Raises KeyError where no living sequence has a token."""
        places, lengths, sequence_ids, is_document = self._rows
        index = bisect_right(places, place) - 1
        offset = place - places[index] if index >= 0 else 0
        if index < 0 or offset >= lengths[index]:
            raise KeyError(f"No living sequence has a token at log position {place}.")
        source = TokenSource.DOCUMENT if is_document[index] else TokenSource.HISTORY
        return Location(sequence_ids[index], offset, source)


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    starts: NDArray[np.int64] = np.cumsum(lengths + 1) - (lengths + 1)
    return starts


def _fixed(values: IntArray, dtype: type[np.generic]) -> NDArray[Any]:
    """A contiguous array that nobody can write to; compiled code is made for such ones only."""
    fixed = np.ascontiguousarray(values, dtype).view()
    fixed.flags.writeable = False
    return fixed
