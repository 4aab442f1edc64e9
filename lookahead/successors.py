"""The successor table: for a token, and for two in a row, what the model last thought would follow.

Token Recycling (arXiv 2408.08696), and the same for pairs of tokens as far as there is room. Knows
token ids only; one thread writes and reads. Fed by the decoding loop from the logits of rows it has
paid for anyway, read by the drafter where the Trie is silent.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookahead.blob import BlobFormatError, pack_arrays, unpack_arrays
from lookahead.candidates import IntArray

__all__ = ["NUM_SUCCESSORS", "SuccessorFormatError", "SuccessorRows", "SuccessorTable"]

HEADER = "successors 1"
NUM_SUCCESSORS = 8
_NUM_PAIRS = 65_536  # 2.6 MB; of two pairs that fall on one slot, the later one stays
_PAIR_FACTOR = 40_503  # spreads the pairs over the slots (Knuth: multiplicative hashing)


class SuccessorFormatError(BlobFormatError):
    """The table's bytes are damaged or of another version. Start with an empty table."""


class SuccessorRows(NamedTuple):
    """The table as compiled code reads it; it changes as the table does.

    Attributes:
        top_ids: [vocab_size, 8] likeliest first; -1: none.
        pairs: [num_pairs] the pair that has this slot, as one number; -1: none.
        pair_top_ids: [num_pairs, 8] its row.
        pair_factor: see `_slot`.
    """

    top_ids: IntArray
    pairs: IntArray
    pair_top_ids: IntArray
    pair_factor: int = _PAIR_FACTOR


class SuccessorTable:
    """[vocab_size, 8] successor ids, likeliest first; -1: none yet. Pairs have rows like these."""

    def __init__(self, vocab_size: int) -> None:
        self._top_ids: IntArray = np.full((vocab_size, NUM_SUCCESSORS), -1, np.int32)
        self._pairs: IntArray = np.full(_NUM_PAIRS, -1, np.int64)
        self._pair_top_ids: IntArray = np.full((_NUM_PAIRS, NUM_SUCCESSORS), -1, np.int32)

    @property
    def vocab_size(self) -> int:
        """Number of tokens it has rows for."""
        return len(self._top_ids)

    @property
    def rows(self) -> SuccessorRows:
        """All rows."""
        return SuccessorRows(self._top_ids, self._pairs, self._pair_top_ids)

    @property
    def known_share(self) -> float:
        """Share of tokens whose successors are known."""
        return float(np.mean(self._top_ids[:, 0] >= 0)) if len(self._top_ids) else 1.0

    def unknown_ids(self, limit: int) -> IntArray:
        """The first tokens without successors, in order, `limit` at most."""
        return np.flatnonzero(self._top_ids[:, 0] < 0)[:limit].astype(np.int32)

    def update(
        self,
        token_ids: Sequence[int] | IntArray,
        top_ids: IntArray,
        previous_ids: Sequence[int] | IntArray | None = None,
    ) -> None:
        """Remember the successors of some tokens; of a token given twice, the last row stays.

        Args:
            token_ids: [num_rows].
            top_ids: [num_rows, 8] the model's best next tokens after it, likeliest first; a row
                that begins with -1 is unknown and changes nothing.
            previous_ids: [num_rows] the token before each; -1: not known. None: of none.
        """
        is_known = top_ids[:, 0] >= 0
        tokens = np.asarray(token_ids, np.int64)[is_known]
        self._top_ids[tokens] = top_ids[is_known]
        if previous_ids is not None:
            previous = np.asarray(previous_ids, np.int64)[is_known]
            in_pairs = previous >= 0
            pairs = _pair(previous[in_pairs], tokens[in_pairs])
            slots = _slot(pairs)
            self._pairs[slots] = pairs
            self._pair_top_ids[slots] = top_ids[is_known][in_pairs]

    def successors(self, token_id: int) -> list[int]:
        """Successors of one token, likeliest first; none where they are unknown."""
        if not 0 <= token_id < len(self._top_ids):
            return []
        row: list[int] = self._top_ids[token_id].tolist()
        return row[: row.index(-1)] if -1 in row else row

    def to_bytes(self) -> bytes:
        """Serialize."""
        return pack_arrays(
            HEADER,
            {
                "top_ids": self._top_ids,
                "pairs": self._pairs,
                "pair_top_ids": self._pair_top_ids,
            },
        )

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Read what `to_bytes` wrote. Raises SuccessorFormatError for anything else."""
        try:
            arrays = unpack_arrays(HEADER, blob)
            top_ids = arrays["top_ids"]
        except (BlobFormatError, KeyError) as error:
            raise SuccessorFormatError(f"{error} Start with an empty table.") from error
        vocab_size = len(top_ids) if top_ids.ndim else 0
        if not _are_rows(top_ids, vocab_size, vocab_size):
            raise SuccessorFormatError("This is no table of successors. Start with an empty one.")
        table = cls(0)
        table._top_ids = top_ids.astype(np.int32)
        pairs, pair_top_ids = arrays.get("pairs"), arrays.get("pair_top_ids")
        if pairs is not None and pair_top_ids is not None:  # tables of earlier versions have none
            is_sound = pairs.shape == (_NUM_PAIRS,) and pairs.dtype == np.int64
            if not is_sound or not _are_rows(pair_top_ids, _NUM_PAIRS, vocab_size):
                raise SuccessorFormatError("These are no pairs of ours. Start with an empty table.")
            table._pairs = pairs.astype(np.int64)
            table._pair_top_ids = pair_top_ids.astype(np.int32)
        return table


def _are_rows(top_ids: NDArray[Any], num_rows: int, vocab_size: int) -> bool:
    """Whether these are rows of successors, each an id of the vocabulary or -1."""
    if top_ids.shape != (num_rows, NUM_SUCCESSORS) or top_ids.dtype != np.int32:
        return False
    return bool(((top_ids >= -1) & (top_ids < vocab_size)).all())


def _pair(previous_ids: IntArray, token_ids: IntArray) -> IntArray:
    """One number for two tokens. Compiled code does it in `growing.py`, of one pair."""
    pairs: IntArray = (previous_ids << 32) | token_ids
    return pairs


def _slot(pairs: IntArray) -> IntArray:
    """Where a pair has its place; likewise."""
    slots: IntArray = ((pairs >> 32) * _PAIR_FACTOR + (pairs & 0xFFFFFFFF)) % _NUM_PAIRS
    return slots
