"""Deleting so that it can be undone: rows are hidden first, and purged once that time has passed.

Hidden rows are read by nothing but this (`shown_*` in the schema). Called by the app's services.
"""

import json
import math
import time
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from sqlite_utils import Database as Connection

from storage.connections import Connections
from storage.conversations import not_found as no_such_chat
from storage.erasures import as_json, delete_conversations, delete_sources
from storage.errors import RecordNotFoundError
from storage.records import DeletedKind, Deletion
from storage.search_index import PAUSE_SECONDS, mended
from storage.sources import hide_versions
from storage.sources import not_found as no_such_document
from storage.times import now, parse_time, time_text

__all__ = ["Deletions"]

TABLES = {"conversation": "conversations", "document": "sources"}
OF_KIND = {"conversation": "", "document": " AND kind = 'document'"}
GONE = time_text(datetime.min.replace(tzinfo=UTC))  # deleted then: being purged, not to come back
PIECES = {  # chats, characters of documents, deleted in one transaction; or one longer document
    "conversation": 20,
    "document": 3_000_000,
}
SELECT_PIECE = {
    "conversation": "SELECT id FROM conversations WHERE deleted_at = ? LIMIT ?",
    "document": "SELECT id FROM (SELECT id, sum(num_characters) OVER (ORDER BY id) - num_characters"
    " AS num_before FROM sources WHERE kind = 'document' AND deleted_at = ?) WHERE num_before < ?",
}


class Deletions:
    """The chats and documents that were deleted and can still be brought back."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def hide_conversation(self, conversation_id: int) -> list[int]:
        """Delete a chat for now; an answer being written for it ends where it was saved last.

        Returns the ids of its sequences, not to be drafted from. Raises RecordNotFoundError.
        """
        with self._connections.transaction() as connection:
            if not mark(connection, "conversation", [conversation_id]):
                raise no_such_chat(conversation_id)
            connection.execute(
                "UPDATE messages SET status = 'stopped'"
                " WHERE conversation_id = ? AND status = 'streaming'",
                [conversation_id],
            )
            return sequence_ids_of(connection, "conversation", [conversation_id])

    def hide_documents(self, source_ids: Collection[int]) -> list[int]:
        """Delete documents for now, all or none. Returns and raises as `hide_conversation`."""
        with self._connections.transaction() as connection:
            shown = connection.execute(
                "SELECT id FROM shown_sources"
                " WHERE kind = 'document' AND id IN (SELECT value FROM json_each(?))",
                [as_json(source_ids)],
            )
            missing = set(source_ids) - {row[0] for row in shown}
            if missing:
                raise no_such_document(min(missing))
            mark(connection, "document", source_ids)
            return sequence_ids_of(connection, "document", source_ids)

    def hide_versions(self, uri: str, deleted_at: datetime) -> None:
        """Delete for now, with this time, what was read from there."""
        with self._connections.transaction() as connection:
            hide_versions(connection, uri, deleted_at)

    def hide_content(self, sha256: str, deleted_at: datetime) -> None:
        """Delete for now, with this time, the document of this content."""
        with self._connections.transaction() as connection:
            connection.execute(
                "UPDATE sources SET deleted_at = ? WHERE sha256 = ? AND deleted_at IS NULL",
                [time_text(deleted_at), sha256],
            )

    def put_off(self, deleted_at: datetime, until: datetime) -> int:
        """What was deleted at one time counts as deleted later; returns how many documents."""
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE sources SET deleted_at = ? WHERE deleted_at = ? AND kind = 'document'",
                [time_text(until), time_text(deleted_at)],
            )
            return cursor.rowcount

    def restore(self, kind: DeletedKind, row_ids: Collection[int]) -> list[int]:
        """Bring back what was deleted in one go, as it was; returns the ids of the sequences.

        Nothing to do for what is not deleted. Raises RecordNotFoundError where nothing of it is
        there; documents that were imported again meanwhile stay as they are.
        """
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                f"UPDATE {TABLES[kind]} SET deleted_at = NULL"
                f" WHERE id IN (SELECT value FROM json_each(?)){OF_KIND[kind]}"
                " AND deleted_at IS NOT ?",
                [as_json(row_ids), GONE],
            )
            if not cursor.rowcount:
                raise RecordNotFoundError(
                    "This cannot be brought back any more: the time for that has passed, or it was "
                    "imported again."
                )
            if kind == "conversation":
                connection.execute(
                    "UPDATE sources SET deleted_at = NULL"
                    " WHERE conversation_id IN (SELECT value FROM json_each(?))",
                    [as_json(row_ids)],
                )
            return sequence_ids_of(connection, kind, row_ids)

    @property
    def are_under_way(self) -> bool:
        """Whether `purge` ran out of time and is to be called again."""
        return any(time_text(deletion.deleted_at) == GONE for deletion in self.list())

    def purge(self, deleted_until: datetime, max_seconds: float = math.inf) -> list[int]:
        """Delete for good what was hidden until then, and overwrite where it stood.

        Piece by piece, so that nobody waits long for the database; none of it can be brought back
        from the first piece on. Returns the ids of the sequences deleted; `Erasures.finish` is to
        be called once none are under way.
        """
        end = time.monotonic() + max_seconds
        deletions = self.list()
        if any(deletion.deleted_at > datetime.now(UTC) for deletion in deletions):
            self._set_back()
        if not any(deletion.deleted_at <= deleted_until for deletion in deletions):
            return []
        with self._connections.transaction() as connection:
            for kind, table in TABLES.items():
                connection.execute(
                    f"UPDATE {table} SET deleted_at = ? WHERE deleted_at <= ?{OF_KIND[kind]}",
                    [GONE, time_text(deleted_until)],
                )
        sequence_ids: list[int] = []
        while (piece := mended(self._connections, self._delete_piece)) is not None:
            sequence_ids += piece
            if time.monotonic() >= end:
                return sequence_ids
            time.sleep(PAUSE_SECONDS)
        self._connections.truncate_log()
        return sequence_ids

    def _delete_piece(self) -> list[int] | None:
        """Delete some of what is gone; the ids of its sequences, or None: nothing is left."""
        with self._connections.transaction() as connection:
            chat_ids, document_ids = (
                [row[0] for row in connection.execute(sql, [GONE, PIECES[kind]])]
                for kind, sql in SELECT_PIECE.items()
            )
            if not chat_ids and not document_ids:
                return None
            sequence_ids = delete_conversations(connection, chat_ids)
            return sequence_ids + delete_sources(connection, document_ids)

    def _set_back(self) -> None:
        """Of what was deleted in the future the clock was wrong: its time begins now.

        Deletions stay apart, in their order: what was deleted at one time comes back together.
        """
        present = datetime.now(UTC)
        with self._connections.transaction() as connection:
            times = " UNION ".join(f"SELECT deleted_at FROM {table}" for table in TABLES.values())
            future = connection.execute(
                f"SELECT deleted_at FROM ({times}) WHERE deleted_at > ? ORDER BY 1 DESC",
                [time_text(present)],
            ).fetchall()
            for place, (deleted_at,) in enumerate(future):
                begins = time_text(present - timedelta(milliseconds=place))
                for table in TABLES.values():
                    connection.execute(
                        f"UPDATE {table} SET deleted_at = ? WHERE deleted_at = ?",
                        [begins, deleted_at],
                    )

    def hold_documents_under(self, uri: str) -> bool:
        """Whether there are documents from below this URI, deleted ones that can come back too."""
        row = self._connections.row(
            "SELECT 1 FROM sources WHERE kind = 'document' AND substr(uri, 1, ?) = ? LIMIT 1",
            [len(uri), uri],
        )
        return row is not None

    def list(self) -> list[Deletion]:
        """What can be brought back, the latest deletion first."""
        rows = self._connections.rows(
            "SELECT 'conversation' AS kind, json_array(id) AS ids, title AS name, deleted_at"
            " FROM conversations WHERE deleted_at IS NOT NULL"
            " UNION ALL SELECT 'document', json_group_array(id), min(name), deleted_at"
            " FROM sources WHERE deleted_at IS NOT NULL AND kind = 'document' GROUP BY deleted_at"
            " ORDER BY deleted_at DESC"
        )
        return [
            Deletion(
                row["kind"],
                tuple(json.loads(row["ids"])),
                row["name"],
                parse_time(row["deleted_at"]),
            )
            for row in rows
        ]


def mark(connection: Connection, kind: DeletedKind, row_ids: Collection[int]) -> int:
    """Hide rows, within the caller's transaction; how many there were to be seen."""
    present = now()
    cursor = connection.execute(
        f"UPDATE {TABLES[kind]} SET deleted_at = ?"
        f" WHERE id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL{OF_KIND[kind]}",
        [present, as_json(row_ids)],
    )
    if kind == "conversation":
        connection.execute(
            "UPDATE sources SET deleted_at = ?"
            " WHERE conversation_id IN (SELECT value FROM json_each(?))",
            [present, as_json(row_ids)],
        )
    return cursor.rowcount


def sequence_ids_of(
    connection: Connection, kind: DeletedKind, row_ids: Collection[int]
) -> list[int]:
    """The sequences of chats or documents, hidden or not."""
    column = "conversation_id" if kind == "conversation" else "sources.id"
    rows = connection.execute(
        "SELECT sequences.id FROM sequences JOIN sources ON sources.id = source_id"
        f" WHERE {column} IN (SELECT value FROM json_each(?)) ORDER BY sequences.id",
        [as_json(row_ids)],
    )
    return [row[0] for row in rows]
