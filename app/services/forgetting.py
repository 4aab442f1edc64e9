"""Deleting chats and documents, with some minutes to undo it; then they are purged from the disk.

Knows the database, the worker and the Trie's keeper. Used by the chat service, from any thread.
"""

import logging
import math
import threading
import time
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
        self._thread: threading.Thread | None = None
        self._look_at = math.inf  # by the monotonic clock
        self._is_closed = False
        self._changed = threading.Condition()

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
        if self._seconds_to_look() is not None:
            self._look_in(0.0)

    def keep_time(self) -> None:
        """Documents were deleted just now: purge them once their time is over."""
        self._look_in(UNDO_SECONDS)

    def close(self) -> None:
        """Purge no more, once a running purge has ended; the next start goes on with it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()  # the database must not be closed under it

    def _hide(self, sequence_ids: Collection[int]) -> None:
        bench = self._worker.bench
        if bench is not None:
            bench.keeper.hide(sequence_ids)
        self.keep_time()

    def _look_in(self, seconds: float) -> None:
        """Have the one thread look then whether something is to be purged, or earlier."""
        with self._changed:
            self._look_at = min(self._look_at, time.monotonic() + seconds)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="forgetting", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while self._wait():
            try:
                self._look()
            except Exception:  # the thread's boundary: logged, and looked again later
                logger.exception("what was deleted could not be looked at")

    def _wait(self) -> bool:
        """Wait until it is time to look; False: the program ends."""
        with self._changed:
            while not self._is_closed:
                seconds = self._look_at - time.monotonic()
                if seconds <= 0:
                    self._look_at = math.inf
                    return True
                self._changed.wait(None if seconds == math.inf else seconds)
            return False

    def _seconds_to_look(self) -> float | None:
        """Until something may have to be purged; None: there is nothing.

        It may not be possible when its time is over: another program has the lease or reads the
        file, an answer goes on for long. So it is looked again, until nothing is left.
        """
        try:
            deletions = self._database.deletions.list()
            if not deletions and not self._database.erasures.are_pending:
                return None
        except StorageError:  # it cannot be told
            return RETRY_SECONDS
        return min([RETRY_SECONDS, *(one.seconds_left for one in self.recent(deletions))])

    def _look(self) -> None:
        """The worker purges between two answers; without a model nothing is being answered."""
        seconds = self._seconds_to_look()
        if seconds is None:
            return
        self._look_in(seconds)
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
        max_seconds: see `Deletions.purge` and `Erasures.finish`.
    """
    if not cache.may_write():
        return False

    def erase_index(tokenizer_id: int) -> bool:
        if keeper is not None and tokenizer_id == keeper.tokenizer_id:
            return keeper.save_anew()
        return cache.drop(tokenizer_id)

    try:
        database.deletions.purge(undoable_since(), max_seconds)
        if database.deletions.are_under_way:
            return True
        ImportMemory(database).forget_folders()
        erasures = database.erasures
        if not erasures.finish(erase_index, max_seconds) and not erasures.are_under_way:
            logger.info("something of what was deleted is in use; it is erased later")
    except StorageError as error:
        logger.warning("what was deleted could not be purged yet: %s", error)
    return database.erasures.are_under_way
