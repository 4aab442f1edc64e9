"""The messages of the chats: a tree by parent, of which one branch is current.

An answer is a row from its first moment ("streaming"), is saved as it grows with its statistics and
steps, and is finished in one transaction with these and its history sequence. Knows no model and no
Trie. Called by the app's services.
"""

import logging
from collections.abc import Sequence

from sqlite_utils import Database as Connection

from storage.connections import Connections, Row
from storage.conversations import not_found as no_such_chat
from storage.erasures import without_purged
from storage.errors import RecordExistsError, RecordNotFoundError
from storage.generations import replace_generation
from storage.integrity import checksum, is_whole
from storage.records import (
    AnswerStatus,
    FinalStatus,
    GenerationRecord,
    Message,
    NewSequence,
    Role,
    StepRecord,
)
from storage.sequences import insert_sequence
from storage.sources import ensure_history_source
from storage.times import now, parse_time
from storage.token_blobs import TokenIds, pack_token_ids, unpack_token_ids

__all__ = ["Messages"]

logger = logging.getLogger(__name__)

DAMAGED = "This message was damaged on the disk; it is shown as it could be read."

CURRENT_MESSAGE = """
    SELECT coalesce(current_message_id, (
        SELECT max(id) FROM messages WHERE conversation_id = chats.id
    )) AS id FROM shown_conversations AS chats WHERE id = ?
"""

BRANCH = """
    WITH RECURSIVE branch (id, parent_id, distance) AS (
        SELECT id, parent_id, 0 FROM shown_messages WHERE id = ?
        UNION ALL
        SELECT messages.id, messages.parent_id, distance + 1
        FROM branch JOIN messages ON messages.id = branch.parent_id
    )
    SELECT messages.* FROM branch JOIN messages USING (id) ORDER BY distance DESC
"""


class Messages:
    """The table `messages`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add_user(self, conversation_id: int, parent_id: int | None, text: str) -> Message:
        """Save what the user wrote, as the end of the current branch.

        Raises RecordNotFoundError where the chat, or the parent in it, does not exist.
        """
        return self._add(conversation_id, parent_id, "user", "complete", text)

    def start_answer(
        self, conversation_id: int, parent_id: int | None, *, tokenizer_id: int | None = None
    ) -> Message:
        """An empty answer with the status "streaming", as the end of the current branch.

        `tokenizer_id` tells what its token ids will mean. Raises RecordNotFoundError as above.
        """
        return self._add(
            conversation_id, parent_id, "assistant", "streaming", tokenizer_id=tokenizer_id
        )

    def _add(
        self,
        conversation_id: int,
        parent_id: int | None,
        role: Role,
        status: AnswerStatus,
        text: str = "",
        *,
        tokenizer_id: int | None = None,
    ) -> Message:
        time = now()
        with self._connections.transaction() as connection:
            require_place(connection, conversation_id, parent_id)
            cursor = connection.execute(
                "INSERT INTO messages (conversation_id, parent_id, role, status, text, token_ids,"
                " checksum, tokenizer_id, created_at, updated_at)"
                " VALUES (?, ?, ?, ?, ?, x'', ?, ?, ?, ?)",
                [
                    *(conversation_id, parent_id, role, status, text, checksum(text)),
                    *(tokenizer_id, time, time),
                ],
            )
            assert cursor.lastrowid is not None
            connection.execute(
                "UPDATE conversations SET current_message_id = ?, updated_at = ? WHERE id = ?",
                [cursor.lastrowid, time, conversation_id],
            )
        return self.get(cursor.lastrowid)

    def save_progress(
        self,
        message_id: int,
        text: str,
        token_ids: TokenIds,
        *,
        generation: GenerationRecord | None = None,
        steps: Sequence[StepRecord] = (),
        num_kept_steps: int = 0,
    ) -> None:
        """Save what the answer is so far. Raises RecordNotFoundError where it is not streaming.

        Args:
            generation: without a `reason`, since it goes on.
            steps: those behind the first `num_kept_steps`, which were saved before.
        """
        blob = pack_token_ids(token_ids)
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE messages SET text = ?, token_ids = ?, checksum = ?, updated_at = ?"
                " WHERE id = ? AND status = 'streaming'",
                [text, blob, checksum(text, blob), now(), message_id],
            )
            if not cursor.rowcount:
                raise RecordNotFoundError(
                    f"Answer {message_id} is not being written; its chat may have been deleted."
                )
            if generation is not None:
                assert not generation.reason, "an answer that goes on has no reason to end"
                steps = self._without_purged(connection, steps)
                replace_generation(
                    connection, message_id, generation, steps, num_kept_steps=num_kept_steps
                )

    def finish_answer(
        self,
        message_id: int,
        *,
        text: str,
        token_ids: TokenIds,
        status: FinalStatus,
        generation: GenerationRecord | None = None,
        steps: Sequence[StepRecord] = (),
        sequence: NewSequence | None = None,
        error: str = "",
    ) -> int | None:
        """Save the whole answer with all that belongs to it, in one transaction.

        `error`: why it failed, in one sentence. `steps` need a `generation`. Returns the id of the
        history sequence, if one was given that is not empty. Raises RecordNotFoundError where the
        answer is gone, RecordExistsError where it was finished before.
        """
        assert generation is not None or not steps, "steps belong to a generation"
        time = now()
        blob = pack_token_ids(token_ids)
        with self._connections.transaction() as connection:
            conversation_id = require_unfinished(connection, message_id)
            connection.execute(
                "UPDATE messages SET text = ?, token_ids = ?, checksum = ?, status = ?, error = ?,"
                " updated_at = ? WHERE id = ?",
                [text, blob, checksum(text, blob), status, error, time, message_id],
            )
            connection.execute(
                "UPDATE conversations SET updated_at = ? WHERE id = ?", [time, conversation_id]
            )
            if generation is not None:
                steps = self._without_purged(connection, steps)
                replace_generation(connection, message_id, generation, steps)
            if sequence is None or not len(sequence.token_ids):
                return None
            source_id = ensure_history_source(connection, conversation_id)
            return insert_sequence(
                connection,
                source_id=source_id,
                tokenizer_id=sequence.tokenizer_id,
                token_ids=sequence.token_ids,
                message_id=message_id,
            )

    def _without_purged(
        self, connection: Connection, steps: Sequence[StepRecord]
    ) -> Sequence[StepRecord]:
        """The sequences that a draft names are the file's, so in memory they are not known."""
        return steps if self._connections.is_in_memory else without_purged(connection, steps)

    def recover_interrupted(self) -> int:
        """Mark answers that an ended process left "streaming" as "stopped"; returns how many.

        To be called at start, before any answer is begun. What was saved of them stays.
        """
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE messages SET status = 'stopped' WHERE status = 'streaming'"
            )
            return cursor.rowcount

    def get(self, message_id: int) -> Message:
        """The message. Raises RecordNotFoundError."""
        row = self._connections.row("SELECT * FROM shown_messages WHERE id = ?", [message_id])
        if row is None:
            raise not_found(message_id)
        return message(row)

    def all(self, conversation_id: int) -> tuple[Message, ...]:
        """Every message of a chat, of all branches, in the order in which they were begun."""
        rows = self._connections.rows(
            "SELECT * FROM shown_messages WHERE conversation_id = ? ORDER BY id", [conversation_id]
        )
        return tuple(message(row) for row in rows)

    def current(self, conversation_id: int) -> Message | None:
        """The last message of the current branch; None: there is none. Raises as `list`."""
        current_id = self._current_id(conversation_id)
        return None if current_id is None else self.get(current_id)

    def until(self, message_id: int) -> list[Message]:
        """The branch that ends with a message, first message first.

        Raises RecordNotFoundError.
        """
        rows = self._connections.rows(BRANCH, [message_id])
        if not rows:
            raise not_found(message_id)
        return [message(row) for row in rows]

    def list(self, conversation_id: int) -> list[Message]:
        """The current branch, first message first: the one that was written last.

        Raises RecordNotFoundError where there is no such chat.
        """
        current_id = self._current_id(conversation_id)
        return [] if current_id is None else self.until(current_id)

    def _current_id(self, conversation_id: int) -> int | None:
        row = self._connections.row(CURRENT_MESSAGE, [conversation_id])
        if row is None:
            raise no_such_chat(conversation_id)
        current_id: int | None = row["id"]
        return current_id


def require_place(connection: Connection, conversation_id: int, parent_id: int | None) -> None:
    """Raise RecordNotFoundError unless a message can stand there."""
    found = connection.execute(
        "SELECT ? IS NULL OR EXISTS (SELECT 1 FROM messages WHERE id = ? AND conversation_id ="
        " shown_conversations.id) FROM shown_conversations WHERE id = ?",
        [parent_id, parent_id, conversation_id],
    ).fetchone()
    if found is None:
        raise no_such_chat(conversation_id)
    if not found[0]:
        raise RecordNotFoundError(f"Chat {conversation_id} has no message {parent_id}.")


def require_unfinished(connection: Connection, message_id: int) -> int:
    """The chat of an answer that can still be finished."""
    row = connection.execute(
        "SELECT conversation_id, role = 'user' OR status IN ('complete', 'failed')"
        " OR EXISTS (SELECT 1 FROM generations WHERE message_id = messages.id AND reason <> '')"
        " OR EXISTS (SELECT 1 FROM sequences WHERE message_id = messages.id)"
        " FROM shown_messages AS messages WHERE id = ?",
        [message_id],
    ).fetchone()
    if row is None:
        raise not_found(message_id)
    if row[1]:
        raise RecordExistsError(f"Message {message_id} is finished already.")
    conversation_id: int = row[0]
    return conversation_id


def not_found(message_id: int) -> RecordNotFoundError:
    """The error for a message that is not there."""
    return RecordNotFoundError(
        f"Message {message_id} does not exist; its chat may have been deleted."
    )


def message(row: Row) -> Message:
    """The record of a row; of one that is damaged what can be read, marked as failed."""
    if not is_whole(row["checksum"], row["text"], row["token_ids"]):
        logger.warning("Message %d was damaged on the disk", row["id"])
        row = {**row, "token_ids": b"", "status": "failed", "error": DAMAGED}
    return Message(
        id=row["id"],
        conversation_id=row["conversation_id"],
        parent_id=row["parent_id"],
        role=row["role"],
        status=row["status"],
        text=row["text"],
        token_ids=tuple(unpack_token_ids(row["token_ids"]).tolist()),
        tokenizer_id=row["tokenizer_id"],
        error=row["error"],
        created_at=parse_time(row["created_at"]),
        updated_at=parse_time(row["updated_at"]),
    )
