"""The disposable file of sorted Trie segments: whatever is wrong with it, it is made anew.

Knows nothing of a segment's format. A segment belongs to one database, since its sequence ids mean
nothing elsewhere, and to one tokenizer. Called by the app's services, from any thread.
"""

import hashlib
import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from storage.errors import DatabaseDamagedError, DataFolderError, storage_error
from storage.times import now
from storage.upgrade import prepare_file, prepare_folder

__all__ = ["SegmentCache"]

logger = logging.getLogger(__name__)

CACHE_VERSION = 2
BUSY_TIMEOUT_SECONDS = 10.0

CREATE_SEGMENTS = """
    CREATE TABLE segments (
        database_id TEXT NOT NULL,
        tokenizer_id INTEGER NOT NULL,
        data BLOB NOT NULL,
        sha256 TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        PRIMARY KEY (database_id, tokenizer_id)
    )
"""


class SegmentCache:
    """The cache file at `cache_path` for the database with this id. Never raises over its content.

    A file that cannot be read or written is logged and does without: everything in it can be
    built from the database.
    """

    def __init__(self, cache_path: Path | str, database_id: str) -> None:
        self._path = Path(cache_path)
        self._database_id = database_id
        self._lock = threading.Lock()

    def load(self, tokenizer_id: int) -> bytes | None:
        """The segment saved last, or None where there is none that is whole."""
        rows = self._execute(
            "SELECT data, sha256 FROM segments WHERE database_id = ? AND tokenizer_id = ?",
            (self._database_id, tokenizer_id),
        )
        if not rows:
            return None
        [(data, checksum)] = rows
        if hashlib.sha256(data).hexdigest() != checksum:
            logger.warning("The cached segment in %s is damaged and will be rebuilt", self._path)
            self.drop(tokenizer_id)
            return None
        return bytes(data)

    def save(self, tokenizer_id: int, data: bytes) -> None:
        """Replace the segment."""
        values = (
            self._database_id,
            tokenizer_id,
            data,
            hashlib.sha256(data).hexdigest(),
            now(),
        )
        self._execute("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?)", values)

    def drop(self, tokenizer_id: int) -> None:
        """Delete the segment and overwrite where it stood."""
        self._execute(
            "DELETE FROM segments WHERE database_id = ? AND tokenizer_id = ?",
            (self._database_id, tokenizer_id),
        )

    def _execute(self, sql: str, values: tuple[object, ...]) -> list[tuple[bytes, str]]:
        """Run one statement in a transaction; a file that is damaged is removed first."""
        with self._lock:
            for is_last_try in (False, True):
                try:
                    with closing(self._open()) as connection, connection:
                        return connection.execute(sql, values).fetchall()
                except (sqlite3.Error, DataFolderError, OverflowError) as error:
                    if is_last_try or not self._is_damage(error) or not self._remove():
                        logger.warning("The cache %s cannot be used: %s", self._path, error)
                        return []
                    logger.warning("The cache %s was damaged and is made anew", self._path)
        return []

    def _open(self) -> sqlite3.Connection:
        prepare_folder(self._path.parent)
        prepare_file(self._path)
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_SECONDS)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != CACHE_VERSION:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute("DROP TABLE IF EXISTS segments")
                    connection.execute(CREATE_SEGMENTS)
                    connection.execute(f"PRAGMA user_version = {CACHE_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_damage(self, error: Exception) -> bool:
        if not isinstance(error, sqlite3.Error):
            return False
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
