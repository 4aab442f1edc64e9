"""The successor table: for each token, what the model last thought most likely to follow it.

Token Recycling (arXiv 2408.08696). Knows token ids only; one thread writes and reads. Fed by the
decoding loop from the logits of rows it has paid for anyway, read by the drafter where the Trie is
silent.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from lookahead.blob import BlobFormatError, pack_arrays, unpack_arrays
from lookahead.candidates import IntArray

__all__ = ["NUM_SUCCESSORS", "SuccessorFormatError", "SuccessorTable"]

HEADER = "successors 1"
NUM_SUCCESSORS = 8


class SuccessorFormatError(BlobFormatError):
    """The table's bytes are damaged or of another version. Start with an empty table."""


class SuccessorTable:
    """[vocab_size, 8] successor ids, likeliest first; -1: none yet."""

    def __init__(self, vocab_size: int) -> None:
        self._top_ids: IntArray = np.full((vocab_size, NUM_SUCCESSORS), -1, np.int32)

    @property
    def vocab_size(self) -> int:
        """Number of tokens it has rows for."""
        return len(self._top_ids)

    @property
    def known_share(self) -> float:
        """Share of tokens whose successors are known."""
        return float(np.mean(self._top_ids[:, 0] >= 0)) if len(self._top_ids) else 1.0

    def unknown_ids(self, limit: int) -> IntArray:
        """The first tokens without successors, in order, `limit` at most."""
        return np.flatnonzero(self._top_ids[:, 0] < 0)[:limit].astype(np.int32)

    def update(self, token_ids: Sequence[int] | IntArray, top_ids: IntArray) -> None:
        """Remember the successors of some tokens; of a token given twice, the last row stays.

        Args:
            token_ids: [num_rows].
            top_ids: [num_rows, 8] the model's best next tokens after it, likeliest first; a row
                that begins with -1 is unknown and changes nothing.
        """
        is_known = top_ids[:, 0] >= 0
        self._top_ids[np.asarray(token_ids, np.int64)[is_known]] = top_ids[is_known]

    def successors(self, token_id: int) -> list[int]:
        """Successors of one token, likeliest first, -1 where unknown; none outside the table."""
        if not 0 <= token_id < len(self._top_ids):
            return []
        successors: list[int] = self._top_ids[token_id].tolist()
        return successors

    def to_bytes(self) -> bytes:
        """Serialize."""
        return pack_arrays(HEADER, {"top_ids": self._top_ids})

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Read what `to_bytes` wrote. Raises SuccessorFormatError for anything else."""
        try:
            top_ids = unpack_arrays(HEADER, blob)["top_ids"]
        except (BlobFormatError, KeyError) as error:
            raise SuccessorFormatError(f"{error} Start with an empty table.") from error
        if top_ids.shape[1:] != (NUM_SUCCESSORS,) or top_ids.dtype != np.int32:
            raise SuccessorFormatError("This is no table of successors. Start with an empty one.")
        table = cls(0)
        table._top_ids = top_ids.astype(np.int32)
        return table
