"""Deleting chats, wherever they stand, with what is being written for them; and undo.

Knows which chats stand in memory; what is in the file is `Forgetting`'s. Used by the chat service,
from any thread.
"""

import contextlib
import threading
from collections.abc import Collection

from app.services.asking import Asking
from app.services.forgetting import Forgetting, RecentDeletion
from app.services.unsaved import UnsavedChats
from app.services.workbench import Workbench
from app.services.worker import Worker
from storage.records import DeletedKind

__all__ = ["Deleting"]


class Deleting:
    """Deletes chats, and brings back what was deleted.

    Args:
        lock: the one under which chats are changed.
    """

    def __init__(
        self,
        unsaved: UnsavedChats,
        asking: Asking,
        forgetting: Forgetting,
        worker: Worker[Workbench],
        *,
        lock: threading.RLock,
    ) -> None:
        self._unsaved = unsaved
        self._asking = asking
        self._forgetting = forgetting
        self._worker = worker
        self._lock = lock

    def delete_conversation(self, conversation_id: int) -> None:
        """Delete a chat; an answer being written for it is stopped. Raises RecordNotFoundError."""
        with self._lock:
            conversation_id = self._unsaved.known_id(conversation_id)
            job = self._asking.running_job(conversation_id)
            with job.save_lock if job is not None else contextlib.nullcontext():
                self._hide(conversation_id)
                if job is not None:
                    job.is_discarded = True
            if job is not None:
                job.stop()
                self._asking.forget(job)
        for name in self._unsaved.names_of(conversation_id):
            self._worker.submit(_DropSession(name))

    def _hide(self, conversation_id: int) -> None:
        file_id = self._unsaved.file_id(conversation_id)
        if file_id is not None:
            self._forgetting.delete_conversation(file_id)
        self._unsaved.hide(conversation_id)

    def undo(self, kind: DeletedKind, ids: Collection[int]) -> None:
        """Bring back a chat, or documents deleted in one go. Raises RecordNotFoundError."""
        if kind == "document":
            self._forgetting.undo(kind, ids)
            return
        for conversation_id in ids:
            file_id = self._unsaved.file_id(conversation_id)
            if file_id is not None:
                self._forgetting.undo(kind, [file_id])  # may have to sort: nobody waits for it
            with self._lock:
                self._unsaved.restore(self._unsaved.known_id(conversation_id))

    def recent(self) -> list[RecentDeletion]:
        """What `undo` can bring back, the latest deletion first."""
        return self._forgetting.recent(self._unsaved.deletions())


class _DropSession:
    """The task of giving back a deleted chat's keys and values."""

    def __init__(self, conversation_id: int) -> None:
        self._conversation_id = conversation_id

    def run(self, bench: Workbench) -> None:
        bench.drop_session(self._conversation_id)

    def fail(self, sentence: str) -> None:
        """There is no session where there is no model."""

    def stop(self) -> None:
        """It takes no time."""

    def abandon(self) -> None:
        """All sessions are dropped at the end."""
