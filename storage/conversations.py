"""The chats: creating, listing, deleting.

Knows nothing of messages but that they go with their chat. Called by the app's services.
"""

from storage.connections import Connections, Row
from storage.erasures import delete_conversations
from storage.errors import RecordNotFoundError
from storage.records import Conversation
from storage.times import now, parse_time

__all__ = ["Conversations"]


class Conversations:
    """The table `conversations`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def create(self, title: str = "", *, conversation_id: int | None = None) -> Conversation:
        """A new, empty chat; `conversation_id`: that of a chat of another database."""
        time = now()
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO conversations (id, title, created_at, updated_at) VALUES (?, ?, ?, ?)",
                [conversation_id, title, time, time],
            )
        assert cursor.lastrowid is not None
        return self.get(cursor.lastrowid)

    def get(self, conversation_id: int) -> Conversation:
        """The chat. Raises RecordNotFoundError."""
        row = self._connections.row(
            "SELECT * FROM shown_conversations WHERE id = ?", [conversation_id]
        )
        if row is None:
            raise not_found(conversation_id)
        return conversation(row)

    def delete(self, conversation_id: int) -> list[int]:
        """Delete the chat with all that came of it, and overwrite where it stood.

        At once: see `Deletions` for a deletion that can be undone, and `Erasures` for what is left
        to do. Returns the ids of its history sequences, to be forgotten by the Trie. Raises
        RecordNotFoundError.
        """
        with self._connections.transaction() as connection:
            found = connection.execute(
                "SELECT 1 FROM conversations WHERE id = ?", [conversation_id]
            ).fetchone()
            if found is None:
                raise not_found(conversation_id)
            sequence_ids = delete_conversations(connection, [conversation_id])
        self._connections.truncate_log()
        return sequence_ids

    def list(self) -> list[Conversation]:
        """All chats, the one with the latest message first."""
        rows = self._connections.rows(
            "SELECT * FROM shown_conversations ORDER BY updated_at DESC, id DESC"
        )
        return [conversation(row) for row in rows]


def not_found(conversation_id: int) -> RecordNotFoundError:
    """The error for a chat that is not there."""
    return RecordNotFoundError(f"Chat {conversation_id} does not exist; it may have been deleted.")


def conversation(row: Row) -> Conversation:
    """The record of a row."""
    return Conversation(
        id=row["id"],
        title=row["title"],
        current_message_id=row["current_message_id"],
        created_at=parse_time(row["created_at"]),
        updated_at=parse_time(row["updated_at"]),
    )
