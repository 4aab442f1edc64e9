"""Connections to the database file, one per thread, and the transactions on them.

Knows files, pragmas and threads, not the tables. Called by the stores and by `database.py`.
"""

import contextlib
import logging
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlite_utils import Database as Connection

from storage.errors import DatabaseClosedError, DatabaseFullError, translated_errors
from storage.integrity import check_structure
from storage.migrations import Migration
from storage.upgrade import migrate, prepare_file, prepare_folder, refuse_unusable

__all__ = ["Connections", "Row"]

logger = logging.getLogger(__name__)

Row = dict[str, Any]

BUSY_TIMEOUT_SECONDS = 10.0
INCREMENTAL = 2  # auto_vacuum: what is free can be given back
FREE_PAGES_KEPT = 4_096  # of four kilobytes, to be written to again
FREE_PAGES_AT_ONCE = 500  # given back in one transaction
CLOSE_SECONDS = 1.0  # that what is under way has, before it is broken off and after that

# FULL: what is committed survives a power cut too. secure_delete: what is deleted is overwritten.
# temp_store: sorting leaves no file with somebody's words in it.
PRAGMAS = ("foreign_keys = ON", "synchronous = FULL", "secure_delete = ON", "temp_store = MEMORY")


@dataclass(slots=True)
class Own:
    """One thread's connection; its lock is held while the thread uses it, and to close it."""

    connection: Connection
    lock: Any = field(default_factory=threading.RLock)
    num_uses: int = 0  # one within the other


class Connections:
    """The file at `path`, migrated to the last step of `migrations`.

    Args:
        is_in_memory: there is no file; all is gone when it is closed.

    Attributes:
        path, is_in_memory: as given.
    """

    def __init__(
        self, path: Path, migrations: Sequence[Migration], *, is_in_memory: bool = False
    ) -> None:
        self.path = path
        self.is_in_memory = is_in_memory
        self._memory_name = f"file:/{uuid.uuid4().hex}?vfs=memdb" if is_in_memory else ""
        self._lock = threading.Lock()
        self._by_thread: dict[threading.Thread, Own] = {}
        self._anchor: Connection | None = None
        self._is_closed = False
        if not is_in_memory:
            prepare_folder(path.parent)
            refuse_unusable(path, migrations)
            prepare_file(path)
        try:
            with self._in_use() as connection:
                if is_in_memory:
                    self._anchor = self._open()  # it lives while one connection to it is open
                else:
                    if number(connection, "page_count") == 0:
                        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
                    enable_wal(connection)
                migrate(path, connection, migrations)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[Connection]:
        """The calling thread's connection, opened on its first call; nobody closes it meanwhile."""
        with translated_errors(self.path), (own := self._own()).lock:
            if self._is_closed and not own.num_uses:  # what has begun may go on
                raise self._closed()
            own.num_uses += 1
            try:
                yield own.connection
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    raise self._closed() from error
                raise
            finally:
                own.num_uses -= 1

    def _own(self) -> Own:
        thread = threading.current_thread()
        own = self._by_thread.get(thread)
        if own is None:
            with self._lock:
                if self._is_closed:
                    raise self._closed()
                for ended in [other for other in self._by_thread if not other.is_alive()]:
                    self._by_thread.pop(ended).connection.close()
                own = self._by_thread[thread] = Own(self._open())
        return own

    def _closed(self) -> DatabaseClosedError:
        return DatabaseClosedError(f"{self.path.name} was used after it was closed.")

    def _open(self) -> Connection:
        # Transactions are begun explicitly (isolation_level). Only the owning thread uses a
        # connection, but closing happens elsewhere (check_same_thread).
        raw = sqlite3.connect(
            self._memory_name or self.path,
            uri=bool(self._memory_name),
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        raw.text_factory = partial(
            str, encoding="utf-8", errors="replace"
        )  # what is damaged is read
        connection = Connection(raw, execute_plugins=False)
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """All rows of a query."""
        with self._in_use() as connection:
            is_within = connection.conn.in_transaction
            try:
                return list(connection.query(sql, parameters))
            except sqlite3.Error:
                if not is_within:
                    connection.rollback()  # of the savepoint that a query which fails leaves open
                raise

    def row(self, sql: str, parameters: Sequence[object] = ()) -> Row | None:
        """The first row of a query, or None."""
        return next(iter(self.rows(sql, parameters)), None)

    @property
    def version(self) -> tuple[int, ...]:
        """The same as before where nothing was written since; to be compared within one thread."""
        with self._in_use() as connection:
            (of_others,) = connection.execute("PRAGMA data_version").fetchone()
            return id(connection), of_others, connection.conn.total_changes

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All writes in the block, or none of them. Not to be nested."""
        with self._in_use() as connection:
            assert not connection.conn.in_transaction, "transactions do not nest"
            connection.conn.execute("BEGIN IMMEDIATE")  # a lock taken later could fail as busy
            try:
                yield connection
                connection.conn.execute("COMMIT")
            finally:
                connection.rollback()  # nothing to do after a commit

    def begin_ids(self, first: int) -> None:
        """Let the ids of new rows begin there, in every table that never uses one twice."""
        with self.transaction() as connection:
            for table in ("conversations", "messages", "sources", "sequences"):
                connection.execute(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [table, first - 1]
                )

    def check_structure(self) -> None:
        """Look for broken tables, for a moment. Raises DatabaseDamagedError."""
        with self._in_use() as connection:
            check_structure(connection, self.path)

    def truncate_log(self) -> bool:
        """Move what is in the write-ahead log into the file and empty it, where that is possible.

        Not while somebody reads, nor on a full disk. After deletions: the log still holds what was
        there before. Returns whether it is empty.
        """
        with self._in_use() as connection:
            try:
                with translated_errors(self.path):
                    connection.execute("PRAGMA busy_timeout = 1000")
                    is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except DatabaseFullError:  # what was deleted before is deleted all the same
                is_busy = True
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_SECONDS * 1000)}")
        if is_busy:
            logger.info("The write-ahead log cannot be emptied yet; it will be later")
        return not is_busy

    def give_back(self, max_seconds: float) -> bool:
        """Make the file smaller where much of it is free; whether there is more to do.

        A file that an early version made stays as large as it is.
        """
        end = time.monotonic() + max_seconds
        with self._in_use() as connection:
            if number(connection, "auto_vacuum") != INCREMENTAL:
                return False
            if number(connection, "freelist_count") <= FREE_PAGES_KEPT:
                return False
            while True:
                connection.conn.executescript(f"PRAGMA incremental_vacuum({FREE_PAGES_AT_ONCE})")
                if number(connection, "freelist_count") <= FREE_PAGES_KEPT:
                    self.truncate_log()  # only then the file is smaller
                    return False
                if time.monotonic() >= end:
                    return True

    def close(self) -> None:
        """Close every connection; the last one empties the write-ahead log. Idempotent.

        Threads that still use the database get DatabaseClosedError from then on; a transaction that
        has begun is waited for, for a moment.
        """
        with self._lock:
            self._is_closed = True
        self._close_idle(CLOSE_SECONDS)
        for own in list(self._by_thread.values()):
            own.connection.conn.interrupt()
        self._close_idle(CLOSE_SECONDS)
        if self._by_thread:
            logger.warning("The database is still in use by a thread that does not end")
        if self._anchor is not None:
            self._anchor.close()

    def _close_idle(self, max_seconds: float) -> None:
        """Close the connections that are in use by nobody, or no more within that time."""
        deadline = time.monotonic() + max_seconds
        for thread, own in list(self._by_thread.items()):
            if own.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._by_thread.pop(thread, None)
                own.connection.close()
                own.lock.release()


def number(connection: Connection, pragma: str) -> int:
    """What SQLite says of the file."""
    value: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return value


def enable_wal(connection: Connection) -> None:
    """Switch the file to a write-ahead log; waits itself, since SQLite does not for this one."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            return connection.enable_wal()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
