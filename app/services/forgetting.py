"""Deleting chats and documents, with some minutes to undo it; then they are purged from the disk.

Knows the database, the worker and the Trie's keeper. Used by the chat service, from any thread.
"""

import logging
import math
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.services.import_requests import ImportMemory
from app.services.trie_keeper import TrieKeeper
from app.services.worker import Worker
from storage import Database, SegmentCache, StorageError
from storage.records import DeletedKind, Deletion

if TYPE_CHECKING:
    from app.services.workbench import Workbench

__all__ = ["UNDO_SECONDS", "Forgetting", "RecentDeletion", "purge_deleted", "undoable_since"]

logger = logging.getLogger(__name__)

UNDO_SECONDS = 300.0
RETRY_SECONDS = 60.0  # until it is looked whether a purge was possible


@dataclass(frozen=True, slots=True)
class RecentDeletion:
    """A chat, or documents deleted in one go, that `Forgetting.undo` brings back.

    Args:
        name: the chat's title, or the name of the first document.
        seconds_left: until it is too late.
    """

    kind: DeletedKind
    ids: tuple[int, ...]
    name: str
    seconds_left: float


class Forgetting:
    """Hides at once, in database and Trie; has the worker purge when the time is over."""

    def __init__(
        self, database: Database, worker: "Worker[Workbench]", cache: SegmentCache
    ) -> None:
        self._database = database
        self._worker = worker
        self._cache = cache
        self._timers: set[threading.Timer] = set()
        self._retry: threading.Timer | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def delete_conversation(self, conversation_id: int) -> None:
        """Delete a chat. Raises RecordNotFoundError."""
        self._hide(self._database.deletions.hide_conversation(conversation_id))

    def delete_documents(self, source_ids: Collection[int]) -> None:
        """Delete documents, all or none. Raises RecordNotFoundError."""
        self._hide(self._database.deletions.hide_documents(source_ids))

    def undo(self, kind: DeletedKind, ids: Collection[int]) -> None:
        """Bring back what was deleted in one go. Raises RecordNotFoundError where it is gone."""
        sequence_ids = self._database.deletions.restore(kind, ids)
        bench = self._worker.bench
        if bench is not None:
            bench.keeper.restore(sequence_ids)
            if kind == "document":
                bench.look_for_documents()
                self._worker.request_idle_work()

    def recent(self, deletions: Iterable[Deletion] | None = None) -> list[RecentDeletion]:
        """What can be brought back, the latest deletion first.

        `deletions`: where there are others than those in the file.
        """
        now = datetime.now(UTC)
        recent = []
        for deletion in self._database.deletions.list() if deletions is None else deletions:
            seconds_ago = max(0.0, (now - deletion.deleted_at).total_seconds())  # a clock set back
            seconds_left = UNDO_SECONDS - seconds_ago
            if seconds_left > 0:
                recent.append(
                    RecentDeletion(deletion.kind, deletion.ids, deletion.name, seconds_left)
                )
        return recent

    def resume(self) -> None:
        """Keep the time of what an earlier program deleted; to be called at start."""
        for deletion in self.recent():
            self._wait(deletion.seconds_left)
        if self._has_more():
            self._wait(0.0)

    def close(self) -> None:
        """Purge no more, once a running purge has ended; the next start goes on with it."""
        with self._lock:
            self._is_closed = True
            timers = list(self._timers)
        for timer in timers:
            timer.cancel()
        for timer in timers:
            timer.join()  # the database must not be closed under it

    def _hide(self, sequence_ids: Collection[int]) -> None:
        bench = self._worker.bench
        if bench is not None:
            bench.keeper.hide(sequence_ids)
        self._wait(UNDO_SECONDS)

    def _wait(self, seconds: float) -> threading.Timer | None:
        timer = threading.Timer(seconds, self._on_due)
        timer.daemon = True
        with self._lock:
            if self._is_closed:
                return None
            self._timers = {other for other in self._timers if other.is_alive()} | {timer}
            timer.start()
        return timer

    def _has_more(self) -> bool:
        """Whether something is to be purged, now or later; also where that cannot be told."""
        try:
            database = self._database
            return database.erasures.are_pending or bool(database.deletions.list())
        except StorageError:
            return True

    def _on_due(self) -> None:
        """The worker purges between two answers; without a model nothing is being answered.

        It may not be possible yet: another program has the lease or reads the file, an answer goes
        on for long. So it is looked again, until nothing is left.
        """
        is_retry = self._retry is threading.current_thread()
        if not self._has_more():
            self._retry = None if is_retry else self._retry
            return
        if is_retry or self._retry is None:
            self._retry = self._wait(RETRY_SECONDS)
        if self._worker.state.status == "failed":
            purge_deleted(self._database, self._cache)
        else:
            self._worker.request_idle_work()


def undoable_since() -> datetime:
    """What was deleted by then can be brought back no more."""
    return datetime.now(UTC) - timedelta(seconds=UNDO_SECONDS)


def purge_deleted(
    database: Database,
    cache: SegmentCache,
    keeper: TrieKeeper | None = None,
    *,
    max_seconds: float = math.inf,
) -> bool:
    """Purge what can be brought back no more, from database, Trie and every file.

    Not while an answer is written. Of several programs with one data folder, the one that may write
    the cache does it. What cannot be done now is left for the next time. Returns whether the time
    was over and it can be gone on with at once.

    Args:
        keeper: of the Trie in memory; None: there is none.
        max_seconds: see `Erasures.finish`.
    """
    if not cache.may_write():
        return False

    def erase_index(tokenizer_id: int) -> bool:
        if keeper is not None and tokenizer_id == keeper.tokenizer_id:
            return keeper.save_anew()
        return cache.drop(tokenizer_id)

    try:
        database.deletions.purge(undoable_since())
        ImportMemory(database).forget_folders()
        erasures = database.erasures
        if not erasures.finish(erase_index, max_seconds) and not erasures.are_under_way:
            logger.info("something of what was deleted is in use; it is erased later")
    except StorageError as error:
        logger.warning("what was deleted could not be purged yet: %s", error)
    return database.erasures.are_under_way
