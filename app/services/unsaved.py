"""Chats that cannot be saved at the moment: they go on in memory, and are saved once that works.

The disk is full, the file cannot be written, or another program holds it: what was saved stays as
it is, and a chat in which something is asked is copied to a database in memory, under the id that
the page knows. Once saved it is the file's alone, and what it was called in memory leads there.
Knows the database, no model. Used by the chat service: changed under its lock, read without it.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

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
from storage.records import Deletion

__all__ = ["CANNOT_SAVE", "UnsavedChats", "unsaved_notice"]

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

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
        self._ids: set[int] = set()  # of the chats that stand in memory, deleted ones too
        self._halves: dict[int, int] = {}  # of those begun here: what the file has of them by now
        self._chats_in_file: dict[int, int] = {}  # by their ids here, of those saved since
        self._messages_in_file: dict[int, int] = {}
        self._saved: dict[int, int] = {}  # message in memory: the same one in the file
        self._unfinished: set[int] = set()  # answers in memory whose end the file has not
        self._next_try = 0.0
        self.reason = reason

    def known_id(self, conversation_id: int) -> int:
        """The one id of a chat: that in the file, once it is saved."""
        return self._chats_in_file.get(conversation_id, conversation_id)

    def names_of(self, known_id: int) -> list[int]:
        """All ids that a chat goes by, or once went by."""
        return [known_id, *(name for name, i in self._chats_in_file.items() if i == known_id)]

    def file_id(self, conversation_id: int) -> int | None:
        """The id of what the file has of a chat; None: nothing."""
        known_id = self.known_id(conversation_id)
        is_begun_here = known_id in self._ids and known_id >= FIRST_UNSAVED_ID
        return self._halves.get(known_id) if is_begun_here else known_id

    def place(self, conversation_id: int) -> tuple[Database, int]:
        """The database that holds a chat, and its id there."""
        known_id = self.known_id(conversation_id)
        if known_id in self._ids and self._memory is not None:
            return self._memory, known_id
        return self._database, known_id

    def place_of_message(self, message_id: int) -> tuple[Database, int]:
        """The database that holds a message, and its id there."""
        if message_id in self._messages_in_file:
            return self._database, self._messages_in_file[message_id]
        if message_id >= FIRST_UNSAVED_ID and self._memory is not None:
            return self._memory, message_id
        return self._database, message_id

    def read(self, conversation_id: int, read: Callable[[Database, int], Found]) -> Found:
        """What `read` finds in the database that holds a chat, given its id there."""
        return _read_in_place(partial(self.place, conversation_id), read)

    def read_message(self, message_id: int, read: Callable[[Database, int], Found]) -> Found:
        """What `read` finds in the database that holds a message, given its id there."""
        return _read_in_place(partial(self.place_of_message, message_id), read)

    def conversations(self) -> list[Conversation]:
        """All chats, each once: those that stand in memory only, then those in the file."""
        halves = set(self._halves.values())
        in_file = [chat for chat in self._database.conversations.list() if chat.id not in halves]
        return [*(chat for chat in self._shown() if chat.id >= FIRST_UNSAVED_ID), *in_file]

    def _shown(self) -> list[Conversation]:
        """The chats in memory that are not deleted, the latest first."""
        chats = [] if self._memory is None else self._memory.conversations.list()
        return [chat for chat in chats if chat.id in self._ids]

    def begin(self, title: str, error: StorageError) -> int:
        """A new chat in memory; returns its id."""
        conversation_id = self._prepare(error).conversations.create(title).id
        self._ids.add(conversation_id)
        return conversation_id

    def move(self, conversation_id: int, error: StorageError) -> dict[int, int]:
        """Go on with a saved chat in memory; returns the ids of its messages there by those here.

        Raises RecordNotFoundError.
        """
        memory = self._prepare(error)
        with suppress(RecordNotFoundError):  # what an earlier try left when it was broken off
            memory.conversations.delete(conversation_id)
        title = self._database.conversations.get(conversation_id).title
        memory.conversations.create(title, conversation_id=conversation_id)
        messages = self._database.messages.all(conversation_id)
        copies: dict[int, int] = {}
        for message in messages:
            parent_id = None if message.parent_id is None else copies[message.parent_id]
            copy = begin_copy(message, memory, conversation_id, parent_id)
            copies[message.id] = copy
            finish_copy(self._database, message, memory, copy)
        memory.passages.use(conversation_id, self._database.passages.are_used(conversation_id))
        self._saved |= {copy: original for original, copy in copies.items()}
        self._unfinished |= {copies[m.id] for m in messages if m.status == "streaming"}
        self._ids.add(conversation_id)
        return copies

    def hide(self, conversation_id: int) -> None:
        """Delete what stands in memory of a chat, for as long as that can be undone."""
        if conversation_id in self._ids and self._memory is not None:
            self._memory.deletions.hide_conversation(conversation_id)

    def restore(self, conversation_id: int) -> None:
        """Bring it back. Raises RecordNotFoundError where it is gone."""
        if conversation_id in self._ids and self._memory is not None:
            self._memory.deletions.restore("conversation", [conversation_id])

    def deletions(self) -> list[Deletion]:
        """What can be brought back, in the file and here, each once; the latest deletion first."""
        halves = set(self._halves.values())
        here = [] if self._memory is None else self._memory.deletions.list()
        found = [
            *(one for one in self._database.deletions.list() if not is_half(one, halves)),
            *(one for one in here if one.ids[0] >= FIRST_UNSAVED_ID),
        ]
        return sorted(found, key=lambda deletion: deletion.deleted_at, reverse=True)

    def purge(self, deleted_until: datetime) -> None:
        """Give up what was deleted until then."""
        if self._memory is not None:
            for deletion in self._memory.deletions.list():
                if deletion.deleted_at <= deleted_until:
                    self._drop(deletion.ids[0])

    def _drop(self, conversation_id: int) -> None:
        """Give up what stands in memory of a chat."""
        assert self._memory is not None, "there is a chat in it"
        self._ids.discard(conversation_id)
        self._halves.pop(conversation_id, None)
        self._memory.conversations.delete(conversation_id)

    def save(self) -> None:
        """Now and then, try to bring into the file what stands in memory."""
        if self._ids and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + RETRY_SECONDS
            self._save()

    def _save(self) -> None:
        for conversation_id in sorted(chat.id for chat in self._shown()):
            try:
                self._save_one(conversation_id)
            except CANNOT_SAVE as error:
                self.reason = str(error)
                return
            except RecordNotFoundError:
                logger.warning("a chat that stood in memory was deleted in the file meanwhile")
                self._drop(conversation_id)
        self.reason = ""

    def close(self) -> None:
        """Save what can be saved; the rest is lost."""
        if self._memory is not None:
            self._save()
            unsaved = self._shown()
            if unsaved:
                logger.warning("%d chats could not be saved: %s", len(unsaved), self.reason)
            self._memory.close()

    def _save_one(self, conversation_id: int) -> None:
        assert self._memory is not None, "there is a chat in it"
        memory, database = self._memory, self._database
        messages = memory.messages.all(conversation_id)
        if any(message.status == "streaming" for message in messages):
            return
        file_id = self.file_id(conversation_id)
        if file_id is None:
            title = memory.conversations.get(conversation_id).title
            file_id = self._halves[conversation_id] = database.conversations.create(title).id
        for message in messages:
            if message.id not in self._saved:
                parent_id = None if message.parent_id is None else self._saved[message.parent_id]
                self._saved[message.id] = begin_copy(message, database, file_id, parent_id)
                self._unfinished.add(message.id)
            if message.id in self._unfinished:
                finish_copy(memory, message, database, self._saved[message.id])
                self._unfinished.remove(message.id)
        database.passages.use(file_id, memory.passages.are_used(conversation_id))
        # those who look meanwhile find it here or there
        self._messages_in_file |= {message.id: self._saved.pop(message.id) for message in messages}
        if file_id != conversation_id:
            self._chats_in_file[conversation_id] = file_id
        self._drop(conversation_id)

    def _prepare(self, error: StorageError) -> Database:
        logger.warning("a chat goes on in memory: %s", error)
        self.reason = str(error)
        self._next_try = time.monotonic() + RETRY_SECONDS
        if self._memory is None:
            self._memory = Database(None)
        self._memory.tokenizers.copy_from(self._database.tokenizers)
        return self._memory


def _read_in_place(
    place: Callable[[], tuple[Database, int]], read: Callable[[Database, int], Found]
) -> Found:
    """What is read where something stands; once more where it was brought elsewhere meanwhile."""
    first = place()
    try:
        return read(*first)
    except RecordNotFoundError:
        second = place()
        if second == first:
            raise
        return read(*second)


def unsaved_notice(reason: str) -> str:
    """What is said with an answer that stands in memory."""
    return f"Not saved, and gone when the program ends: {reason}" if reason else ""


def is_half(deletion: Deletion, halves: set[int]) -> bool:
    """Whether it is of a chat that stands in memory as a whole."""
    return deletion.kind == "conversation" and deletion.ids[0] in halves


def begin_copy(
    message: Message, target: Database, conversation_id: int, parent_id: int | None
) -> int:
    """Write a message to another database, an answer still empty; its id there."""
    if message.role == "user":
        return target.messages.add_user(conversation_id, parent_id, message.text).id
    return target.messages.start_answer(
        conversation_id, parent_id, tokenizer_id=message.tokenizer_id
    ).id


def finish_copy(source: Database, message: Message, target: Database, message_id: int) -> None:
    """Make an answer as it is in the other database, with all that belongs to it.

    May be called again where it failed.
    """
    if message.role == "user":
        return
    target.passages.save(message_id, source.passages.references(message.id))
    if message.status == "streaming":
        target.messages.save_progress(message_id, message.text, message.token_ids)
        return
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
