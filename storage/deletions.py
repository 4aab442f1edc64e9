"""Deleting so that it can be undone: rows are hidden first, and purged once that time has passed.

Hidden rows are read by nothing but this (`shown_*` in the schema). Called by the app's services.
"""

from datetime import datetime

from sqlite_utils import Database as Connection

from storage.connections import Connections
from storage.conversations import not_found as no_such_chat
from storage.erasures import delete_conversations, delete_sources, rebuild_index
from storage.errors import RecordNotFoundError
from storage.records import DeletedKind, Deletion
from storage.sources import not_found as no_such_document
from storage.times import now, parse_time, time_text

__all__ = ["Deletions"]

TABLES = {"conversation": "conversations", "document": "sources"}
HIDDEN = {
    "conversation": "SELECT id FROM conversations WHERE deleted_at <= ?",
    "document": "SELECT id FROM sources WHERE kind = 'document' AND deleted_at <= ?",
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
            if not mark(connection, "conversation", conversation_id):
                raise no_such_chat(conversation_id)
            connection.execute(
                "UPDATE messages SET status = 'stopped'"
                " WHERE conversation_id = ? AND status = 'streaming'",
                [conversation_id],
            )
            return sequence_ids_of(connection, "conversation", conversation_id)

    def hide_document(self, source_id: int) -> list[int]:
        """Delete a document for now. Returns and raises as `hide_conversation`."""
        with self._connections.transaction() as connection:
            if not mark(connection, "document", source_id):
                raise no_such_document(source_id)
            return sequence_ids_of(connection, "document", source_id)

    def restore(self, kind: DeletedKind, row_id: int) -> list[int]:
        """Bring a chat or a document back as it was; returns the ids of its sequences.

        Nothing to do where it is not deleted. Raises RecordNotFoundError where it is gone.
        """
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                f"UPDATE {TABLES[kind]} SET deleted_at = NULL WHERE id = ?", [row_id]
            )
            if not cursor.rowcount:
                raise RecordNotFoundError(
                    f"This {'chat' if kind == 'conversation' else kind} cannot be brought back any "
                    f"more: the time for that has passed, or another one took its place."
                )
            if kind == "conversation":
                connection.execute(
                    "UPDATE sources SET deleted_at = NULL WHERE conversation_id = ?", [row_id]
                )
            return sequence_ids_of(connection, kind, row_id)

    def purge(self, deleted_until: datetime) -> list[int]:
        """Delete for good what was hidden until then, and overwrite where it stood.

        Returns the ids of its sequences, to be purged from the Trie; `Erasures.finish` is to be
        called afterwards.
        """
        if not any(deletion.deleted_at <= deleted_until for deletion in self.list()):
            return []
        with self._connections.transaction() as connection:
            ids = {
                kind: [row[0] for row in connection.execute(sql, [time_text(deleted_until)])]
                for kind, sql in HIDDEN.items()
            }
            sequence_ids = delete_conversations(connection, ids["conversation"])
            sequence_ids += delete_sources(connection, ids["document"])
            if ids["document"]:
                rebuild_index(connection)
        self._connections.truncate_log()
        return sequence_ids

    def list(self) -> list[Deletion]:
        """What can be brought back, the latest deletion first."""
        rows = self._connections.rows(
            "SELECT 'conversation' AS kind, id, title AS name, deleted_at FROM conversations"
            " WHERE deleted_at IS NOT NULL"
            " UNION ALL SELECT 'document', id, name, deleted_at FROM sources"
            " WHERE deleted_at IS NOT NULL AND kind = 'document' ORDER BY deleted_at DESC, id DESC"
        )
        return [
            Deletion(row["kind"], row["id"], row["name"], parse_time(row["deleted_at"]))
            for row in rows
        ]


def mark(connection: Connection, kind: DeletedKind, row_id: int) -> bool:
    """Hide a row, within the caller's transaction; whether there was one to be seen."""
    time = now()
    of_kind = " AND kind = 'document'" if kind == "document" else ""
    cursor = connection.execute(
        f"UPDATE {TABLES[kind]} SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL{of_kind}",
        [time, row_id],
    )
    if kind == "conversation":
        connection.execute(
            "UPDATE sources SET deleted_at = ? WHERE conversation_id = ?", [time, row_id]
        )
    return bool(cursor.rowcount)


def sequence_ids_of(connection: Connection, kind: DeletedKind, row_id: int) -> list[int]:
    """The sequences of a chat or a document, hidden or not."""
    column = "conversation_id" if kind == "conversation" else "sources.id"
    rows = connection.execute(
        "SELECT sequences.id FROM sequences JOIN sources ON sources.id = source_id"
        f" WHERE {column} = ? ORDER BY sequences.id",
        [row_id],
    )
    return [row[0] for row in rows]
