"""Chats that cannot be saved at the moment: they go on in memory, and are saved once that works.

The disk is full, the file cannot be written, or another program holds it: what was saved stays as
it is, and a chat in which something is asked is copied to a database in memory, under the id that
the page knows. Knows the database, no model. Used by the chat service, under its lock.
"""

import logging
import time

from storage import (
    FIRST_UNSAVED_ID,
    Conversation,
    Database,
    DatabaseBusyError,
    DatabaseFullError,
    DataFolderError,
    Message,
    NewSequence,
    RecordNotFoundError,
    StorageError,
)

__all__ = ["CANNOT_SAVE", "UnsavedChats", "unsaved_notice"]

logger = logging.getLogger(__name__)

CANNOT_SAVE = (DatabaseFullError, DatabaseBusyError, DataFolderError)

RETRY_SECONDS = 20.0  # at least between two tries: one may wait for a lock


class UnsavedChats:
    """Where each chat stands: in the file, or for now in memory.

    Args:
        reason: why nothing is saved from the start: then `database` itself is in memory.

    Attributes:
        reason: why something could not be saved last, in one sentence; "" once it is.
    """

    def __init__(self, database: Database, reason: str = "") -> None:
        self._database = database
        self._memory: Database | None = None
        self._ids: set[int] = set()  # of the chats that stand in memory
        self._in_file: dict[int, int] = {}  # ids of chats begun in memory and saved since
        self._saved: dict[int, int] = {}  # message in memory: the same one in the file
        self._next_try = 0.0
        self.reason = reason

    def place(self, conversation_id: int) -> tuple[Database, int]:
        """The database that holds a chat, and its id there."""
        if conversation_id in self._ids and self._memory is not None:
            return self._memory, conversation_id
        return self._database, self._in_file.get(conversation_id, conversation_id)

    def database_of_message(self, message_id: int) -> Database:
        """The database that holds a message."""
        if message_id >= FIRST_UNSAVED_ID and self._memory is not None:
            return self._memory
        return self._database

    def conversations(self) -> list[Conversation]:
        """Chats that stand in memory only, the latest first."""
        chats = [] if self._memory is None else self._memory.conversations.list()
        return [chat for chat in chats if chat.id in self._ids and chat.id >= FIRST_UNSAVED_ID]

    def begin(self, title: str, error: StorageError) -> int:
        """A new chat in memory; returns its id."""
        conversation_id = self._prepare(error).conversations.create(title).id
        self._ids.add(conversation_id)
        return conversation_id

    def move(self, conversation_id: int, error: StorageError) -> dict[int, int]:
        """Go on with a saved chat in memory; returns the ids of its messages there by those here.

        Raises RecordNotFoundError.
        """
        file_id = self._in_file.get(conversation_id, conversation_id)
        memory = self._prepare(error)
        if conversation_id in self._in_file:
            memory.conversations.delete(conversation_id)  # what stood here before it was saved
        title = self._database.conversations.get(file_id).title
        memory.conversations.create(title, conversation_id=conversation_id)
        copies: dict[int, int] = {}
        for message in self._database.messages.all(file_id):
            parent_id = None if message.parent_id is None else copies[message.parent_id]
            copies[message.id] = copy_message(
                self._database, message, memory, conversation_id, parent_id
            )
        memory.passages.use(conversation_id, self._database.passages.are_used(file_id))
        self._saved |= {copy: original for original, copy in copies.items()}
        self._ids.add(conversation_id)
        return copies

    def drop(self, conversation_id: int) -> None:
        """Give up what stands in memory of a chat that was deleted."""
        if conversation_id in self._ids and self._memory is not None:
            self._ids.remove(conversation_id)
            self._memory.conversations.delete(conversation_id)

    def save(self) -> None:
        """Now and then, try to bring into the file what stands in memory."""
        if self._ids and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + RETRY_SECONDS
            self._save()

    def _save(self) -> None:
        for conversation_id in sorted(self._ids):
            try:
                self._save_one(conversation_id)
            except CANNOT_SAVE as error:
                self.reason = str(error)
                return
            except RecordNotFoundError:
                logger.warning("a chat that stood in memory was deleted in the file meanwhile")
                self.drop(conversation_id)
        self.reason = ""

    def close(self) -> None:
        """Save what can be saved; the rest is lost."""
        if self._memory is not None:
            self._save()
            if self._ids:
                logger.warning("%d chats could not be saved: %s", len(self._ids), self.reason)
            self._memory.close()

    def _save_one(self, conversation_id: int) -> None:
        assert self._memory is not None, "there is a chat in it"
        memory, database = self._memory, self._database
        messages = memory.messages.all(conversation_id)
        if any(message.status == "streaming" for message in messages):
            return
        file_id = self._in_file.get(conversation_id, conversation_id)
        if file_id >= FIRST_UNSAVED_ID:
            file_id = database.conversations.create(
                memory.conversations.get(conversation_id).title
            ).id
            self._in_file[conversation_id] = file_id
        for message in messages:
            original = self._saved.get(message.id)
            if original is None:
                parent_id = None if message.parent_id is None else self._saved[message.parent_id]
                self._saved[message.id] = copy_message(
                    memory, message, database, file_id, parent_id
                )
            elif database.messages.get(original).status == "streaming":
                finish(memory, message, database, original)
        database.passages.use(file_id, memory.passages.are_used(conversation_id))
        self._ids.remove(conversation_id)

    def _prepare(self, error: StorageError) -> Database:
        logger.warning("a chat goes on in memory: %s", error)
        self.reason = str(error)
        self._next_try = time.monotonic() + RETRY_SECONDS
        if self._memory is None:
            self._memory = Database(None)
        self._memory.tokenizers.copy_from(self._database.tokenizers)
        return self._memory


def unsaved_notice(reason: str) -> str:
    """What is said with an answer that stands in memory."""
    return f"Not saved, and gone when the program ends: {reason}" if reason else ""


def copy_message(
    source: Database,
    message: Message,
    target: Database,
    conversation_id: int,
    parent_id: int | None,
) -> int:
    """Write a message of one database to the other with all that belongs to it; its id there."""
    if message.role == "user":
        return target.messages.add_user(conversation_id, parent_id, message.text).id
    started = target.messages.start_answer(
        conversation_id, parent_id, tokenizer_id=message.tokenizer_id
    )
    target.passages.save(started.id, source.passages.references(message.id))
    if message.status == "streaming":
        target.messages.save_progress(started.id, message.text, message.token_ids)
    else:
        finish(source, message, target, started.id)
    return started.id


def finish(source: Database, message: Message, target: Database, message_id: int) -> None:
    """Finish an answer as its copy in the other database is."""
    assert message.status != "streaming", "it is finished"
    generation = source.generations.for_message(message.id)
    generation_id = None if generation is None else generation.id
    sequence = None if target.is_in_memory else source.sequences.for_message(message.id)
    target.messages.finish_answer(
        message_id,
        text=message.text,
        token_ids=message.token_ids,
        status=message.status,
        generation=generation,
        steps=[] if generation_id is None else source.generations.list_steps(generation_id),
        sequence=(
            None
            if sequence is None
            else NewSequence(sequence.tokenizer_id, source.sequences.token_ids(sequence.id))
        ),
        error=message.error,
    )
