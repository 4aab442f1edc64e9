"""The disposable file of sorted Trie segments: whatever is wrong with it, it is made anew.

Knows nothing of a segment's format, which has a checksum of its own. A segment belongs to one
database, since its sequence ids mean nothing elsewhere, and to one tokenizer. Those of a tokenizer
have an order. A name stands for a content: what is kept already is not written again. Called by
the app's services, from any thread.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from storage.errors import DatabaseDamagedError, DataFolderError, storage_error
from storage.times import now
from storage.upgrade import prepare_file, prepare_folder

__all__ = ["SegmentCache"]

logger = logging.getLogger(__name__)

CACHE_VERSION = 5
BUSY_TIMEOUT_SECONDS = 10.0
PAGE_BYTES = 65_536  # a large blob is read several times faster than from pages of 4 KiB

# The order apart: a row that is changed is read and written whole, its megabytes too.
CREATE_TABLES = """
    CREATE TABLE segments (
        database_id TEXT NOT NULL,
        tokenizer_id INTEGER NOT NULL,
        name TEXT NOT NULL,
        created_at TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (database_id, tokenizer_id, name)
    );
    CREATE TABLE places (
        database_id TEXT NOT NULL,
        tokenizer_id INTEGER NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (database_id, tokenizer_id, name)
    );
"""
IN_ORDER = """
    FROM segments JOIN places USING (database_id, tokenizer_id, name)
    WHERE database_id = ? AND tokenizer_id = ? ORDER BY number
"""

ResultT = TypeVar("ResultT")


class OtherVersionError(Exception):
    """The file is not of this version."""


class SegmentCache:
    """The cache file at `cache_path` for the database with this id. Never raises over its content.

    A file that cannot be read or written is logged and does without: everything in it can be
    built from the database. One that is damaged or of another version is made anew by who may.

    Args:
        may_write: whether this process may change the file, asked each time; of several with one
            file, one may.
    """

    def __init__(
        self,
        cache_path: Path | str,
        database_id: str,
        *,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._path = Path(cache_path)
        self._database_id = database_id
        self.may_write = may_write
        self._lock = threading.Lock()

    def load(self, tokenizer_id: int) -> list[tuple[str, bytes]]:
        """Name and content of the segments saved last, in their order; none where none are."""

        def read(connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
            connection.execute("BEGIN")
            rows = connection.execute(
                "SELECT name, segments.rowid, typeof(data)" + IN_ORDER,
                (self._database_id, tokenizer_id),
            ).fetchall()
            return [
                (str(name), _read(connection, rowid) if kind == "blob" else b"")  # else: damaged
                for name, rowid, kind in rows
            ]

        return self._run(read) or []

    def names(self, tokenizer_id: int) -> list[str] | None:
        """The names of the segments saved last, in their order; None: that cannot be read."""

        def read(connection: sqlite3.Connection) -> list[str]:
            owner = (self._database_id, tokenizer_id)
            return [str(name) for (name,) in connection.execute("SELECT name" + IN_ORDER, owner)]

        return self._run(read)

    def save(self, tokenizer_id: int, names: Sequence[str], contents: Mapping[str, bytes]) -> bool:
        """Keep these segments in this order and overwrite where all others stood; whether it did.

        Args:
            contents: of those that are new, asked for one after the other, so that they need not be
                in memory together. One that is neither new nor kept is left out.
        """
        owner = (self._database_id, tokenizer_id)

        def write(connection: sqlite3.Connection) -> bool:
            connection.execute(
                f"DELETE FROM segments WHERE database_id = ? AND tokenizer_id = ?"
                f" AND name NOT IN ({', '.join('?' * len(names))})",
                (*owner, *names),
            )
            for name, data in contents.items():
                rowid = connection.execute(
                    "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, zeroblob(?))",
                    (*owner, name, now(), len(data)),
                ).lastrowid
                assert rowid is not None, "a row was inserted"
                _write(connection, rowid, data)
                del data  # before the next one is made
            connection.execute(
                "DELETE FROM places WHERE database_id = ? AND tokenizer_id = ?", owner
            )
            connection.executemany(
                "INSERT INTO places VALUES (?, ?, ?, ?)",
                ((*owner, name, number) for number, name in enumerate(names)),
            )
            return True

        if not self.may_write() or self._run(write) is None:
            return False
        self._run(_give_back)
        return True

    def drop(self, tokenizer_id: int) -> bool:
        """Delete a tokenizer's segments and overwrite where they stood; whether it did."""
        return self.save(tokenizer_id, (), {})

    def _run(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT | None:
        """Do it in one transaction; a file that is damaged or of another version is removed first.

        Returns what it returns, or None where the file cannot be used.
        """
        with self._lock:
            for is_last_try in (False, True):
                try:
                    with closing(self._open()) as connection, connection:
                        return work(connection)
                except (sqlite3.Error, OtherVersionError, DataFolderError, OverflowError) as error:
                    is_to_be_removed = self._is_damage(error) and self.may_write()
                    if is_last_try or not is_to_be_removed or not self._remove():
                        logger.warning("The cache %s cannot be used: %s", self._path, error)
                        return None
                    logger.warning("The cache %s is made anew: %s", self._path, error)
        return None

    def _open(self) -> sqlite3.Connection:
        prepare_folder(self._path.parent)
        prepare_file(self._path)
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_SECONDS)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, CACHE_VERSION):
                raise OtherVersionError(f"it is of version {version}, not {CACHE_VERSION}")
            if version == 0:  # it is yet to be made
                if not self.may_write():
                    raise DataFolderError("another program is about to make it")
                connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                set_version = f"PRAGMA user_version = {CACHE_VERSION}"
                connection.executescript(f"BEGIN IMMEDIATE; {CREATE_TABLES} {set_version}; COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_damage(self, error: Exception) -> bool:
        if not isinstance(error, sqlite3.Error):
            return isinstance(error, OtherVersionError)
        translation = storage_error(error, self._path)
        if translation is None:  # a table or column that is not there
            return isinstance(error, sqlite3.OperationalError)
        return isinstance(translation, DatabaseDamagedError)

    def _remove(self) -> bool:
        try:
            for suffix in ("", "-journal", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        except OSError:
            return False
        return True


def _read(connection: sqlite3.Connection, rowid: int) -> bytes:
    """A segment's bytes from their place: a row that is sorted is copied twice more."""
    with connection.blobopen("segments", "data", rowid, readonly=True) as blob:
        return blob.read()


def _write(connection: sqlite3.Connection, rowid: int, data: bytes) -> None:
    """Bytes to the place made for them: what is bound is there three times while it is written."""
    with connection.blobopen("segments", "data", rowid) as blob:
        blob.write(data)


def _give_back(connection: sqlite3.Connection) -> None:
    """Make the file smaller by what is free in it; as a script, since `execute` frees one page."""
    connection.executescript("PRAGMA incremental_vacuum")
