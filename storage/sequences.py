"""The token sequences that the Trie is built from: the truth behind every index and cache.

Knows no Trie. Written by `messages.py` and `sources.py` within their transactions, read by the app.
"""

import json
import logging
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database as Connection

from storage.connections import Connections
from storage.errors import RecordDamagedError, RecordNotFoundError
from storage.integrity import checksum, is_whole
from storage.records import SequenceOrigin, SequenceRecord, SourceKind
from storage.times import now
from storage.token_blobs import TokenIds, pack_token_ids, unpack_token_ids

__all__ = ["Sequences", "insert_sequence"]

logger = logging.getLogger(__name__)

PAGE_LENGTH = 200  # sequences
PAGE_TOKENS = 1_000_000  # of all of them, where one alone does not have more

# Where the sequences of one document are asked for, `+tokenizer_id` keeps SQLite from going through
# all that the tokenizer has: for it both indices are alike.


class Sequences:
    """The table `sequences`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def all(
        self, tokenizer_id: int, *, after: int = 0
    ) -> Iterator[tuple[int, SourceKind, NDArray[np.int32]]]:
        """Each sequence of a tokenizer by rising id: (sequence id, kind, read-only token ids).

        Only those with an id above `after`.
        Reads in pages of bounded memory, so that nothing is locked in between: a sequence added
        meanwhile comes too, one deleted meanwhile may not. One that is damaged is discarded: a
        document is indexed again from its text, and an answer has its tokens in its message.
        """
        while (end := self._end_of_page(tokenizer_id, after)) is not None:
            rows = self._connections.rows(
                "SELECT sequences.id, sources.kind, sequences.token_ids, checksum FROM sequences"
                " JOIN shown_sources AS sources ON sources.id = sequences.source_id"
                " WHERE sequences.tokenizer_id = ? AND sequences.id > ? AND sequences.id <= ?"
                " ORDER BY sequences.id",
                [tokenizer_id, after, end],
            )
            for row in rows:
                if is_whole(row["checksum"], row["token_ids"]):
                    yield row["id"], row["kind"], unpack_token_ids(row["token_ids"])
                else:
                    self._discard(row["id"])
            after = end

    def _end_of_page(self, tokenizer_id: int, after: int) -> int | None:
        """The last id of the sequences above `after` that are read together; None: no more."""
        end, num_tokens = None, 0
        for row in self._connections.rows(
            "SELECT id, num_tokens FROM shown_sequences WHERE tokenizer_id = ? AND id > ?"
            " ORDER BY id LIMIT ?",
            [tokenizer_id, after, PAGE_LENGTH],
        ):
            num_tokens += row["num_tokens"]
            if end is not None and num_tokens > PAGE_TOKENS:
                break
            end = row["id"]
        return end

    def _discard(self, sequence_id: int) -> None:
        logger.warning("Sequence %d was damaged on the disk and is discarded", sequence_id)
        with self._connections.transaction() as connection:
            connection.execute("DELETE FROM sequences WHERE id = ?", [sequence_id])

    def to_index(self, tokenizer_id: int) -> list[tuple[int, SourceKind, int, bool, bool]]:
        """What an index may hold, rising: (id, kind, number of tokens, is pinned, is hidden)."""
        rows = self._connections.rows(
            "SELECT sequences.id, kind, num_tokens, pinned, deleted_at IS NOT NULL AS is_hidden"
            " FROM sequences JOIN sources ON sources.id = source_id WHERE tokenizer_id = ?"
            " ORDER BY sequences.id",
            [tokenizer_id],
        )
        return [
            (row["id"], row["kind"], row["num_tokens"], bool(row["pinned"]), bool(row["is_hidden"]))
            for row in rows
        ]

    def get(self, sequence_id: int) -> SequenceRecord:
        """The sequence without its tokens. Raises RecordNotFoundError."""
        row = self._connections.row(
            "SELECT sequences.id, source_id, tokenizer_id, kind, message_id, num_tokens"
            " FROM sequences JOIN shown_sources AS sources ON sources.id = source_id"
            " WHERE sequences.id = ?",
            [int(sequence_id)],
        )
        if row is None:
            raise not_found(sequence_id)
        return SequenceRecord(**row)

    def for_message(self, message_id: int) -> SequenceRecord | None:
        """The sequence that an answer was saved with; None where there is none."""
        row = self._connections.row(
            "SELECT id FROM shown_sequences WHERE message_id = ? ORDER BY id DESC LIMIT 1",
            [message_id],
        )
        return None if row is None else self.get(row["id"])

    def token_ids(
        self, sequence_id: int, *, start: int = 0, end: int | None = None
    ) -> NDArray[np.int32]:
        """Its tokens from `start` to `end`, read-only.

        Raises RecordNotFoundError, or RecordDamagedError where all of them are read.
        """
        num_bytes = -1 if end is None else 4 * (end - start)
        row = self._connections.row(
            "SELECT substr(token_ids, ?, CASE WHEN ? < 0 THEN length(token_ids) ELSE ? END)"
            " AS token_ids, checksum FROM shown_sequences WHERE id = ?",
            [4 * start + 1, num_bytes, num_bytes, int(sequence_id)],
        )
        if row is None:
            raise not_found(sequence_id)
        is_all = start == 0 and end is None
        if is_all and not is_whole(row["checksum"], row["token_ids"]):
            raise RecordDamagedError(f"Sequence {sequence_id} was damaged on the disk.")
        return unpack_token_ids(row["token_ids"])

    def for_conversation(self, conversation_id: int) -> list[int]:
        """The ids of the history sequences of a chat, rising."""
        rows = self._connections.rows(
            "SELECT sequences.id FROM sequences JOIN shown_sources AS sources"
            " ON sources.id = source_id WHERE sources.conversation_id = ? ORDER BY sequences.id",
            [conversation_id],
        )
        return [row["id"] for row in rows]

    def origin(self, sequence_id: int) -> SequenceOrigin:
        """Where the sequence comes from. Raises RecordNotFoundError."""
        origins = self.origins([sequence_id])
        if sequence_id not in origins:
            raise not_found(sequence_id)
        return origins[sequence_id]

    def origins(self, sequence_ids: Collection[int]) -> dict[int, SequenceOrigin]:
        """Where each of these sequences comes from; those that are gone are left out."""
        rows = self._connections.rows(
            "SELECT sequences.id AS sequence_id, source_id, kind, coalesce(title, name) AS name,"
            " uri, conversation_id, message_id FROM sequences"
            " JOIN shown_sources AS sources ON sources.id = source_id"
            " LEFT JOIN conversations ON conversations.id = conversation_id"
            " WHERE sequences.id IN (SELECT value FROM json_each(?))",
            [json.dumps([int(sequence_id) for sequence_id in sequence_ids])],
        )
        return {row["sequence_id"]: SequenceOrigin(**row) for row in rows}


def insert_sequence(
    connection: Connection,
    *,
    source_id: int,
    tokenizer_id: int,
    token_ids: TokenIds,
    message_id: int | None = None,
) -> int:
    """Write a sequence within the caller's transaction; returns its id."""
    blob = pack_token_ids(token_ids)
    cursor = connection.execute(
        "INSERT INTO sequences"
        " (source_id, tokenizer_id, message_id, num_tokens, token_ids, checksum, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [source_id, tokenizer_id, message_id, len(token_ids), blob, checksum(blob), now()],
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def not_found(sequence_id: int) -> RecordNotFoundError:
    """The error for a sequence that is not there."""
    return RecordNotFoundError(
        f"Sequence {sequence_id} does not exist; its chat or document may have been deleted."
    )
