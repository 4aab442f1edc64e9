"""The errors of the database. Each message says what happened and what to do.

    StorageError
    ├── DataFolderError        the data folder cannot be created, read or written
    ├── DatabaseDamagedError   the file is not a database or its content is broken
    ├── SchemaTooNewError      a newer version of the app wrote the file
    ├── MigrationError         the file could not be brought to this version; nothing was changed
    ├── DatabaseFullError      no space left
    ├── DatabaseBusyError      another process holds the file for too long
    ├── DatabaseClosedError    used after `close()`
    ├── RecordDamagedError     a row is not as it was written
    ├── RecordNotFoundError    the row asked for does not exist (any more)
    └── RecordExistsError      the row is there already and must not be written twice

Knows SQLite's result codes, and nothing of what is stored.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "DataFolderError",
    "DatabaseBusyError",
    "DatabaseClosedError",
    "DatabaseDamagedError",
    "DatabaseFullError",
    "MigrationError",
    "RecordDamagedError",
    "RecordExistsError",
    "RecordNotFoundError",
    "SchemaTooNewError",
    "StorageError",
    "damaged",
    "storage_error",
    "translated_errors",
]


class StorageError(Exception):
    """Base of every error that the storage raises on purpose."""


class DataFolderError(StorageError):
    """The data folder, or a file in it, cannot be created, read or written."""


class DatabaseDamagedError(StorageError):
    """The file is not a database, or its content is broken. It was left as it is."""


class SchemaTooNewError(StorageError):
    """A newer version of the app wrote the file. It was left as it is."""


class MigrationError(StorageError):
    """The file could not be brought to this version. It was left as it was."""


class DatabaseFullError(StorageError):
    """No space is left for what was to be written; nothing of it was."""


class DatabaseBusyError(StorageError):
    """Another process holds the database for longer than we wait."""


class DatabaseClosedError(StorageError):
    """The database was used after it was closed."""


class RecordDamagedError(StorageError):
    """What stands in the row is not what was written; the disk may be failing."""


class RecordNotFoundError(StorageError):
    """The row asked for does not exist, or does not exist any more."""


class RecordExistsError(StorageError):
    """The row exists already and must not be written twice."""


def storage_error(error: sqlite3.Error, path: Path) -> StorageError | None:
    """The error to show for one of SQLite's, or None where it is a mistake of ours."""
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return DatabaseClosedError(f"{path.name} was used after it was closed.")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    match code & 0xFF:  # the low byte is the primary result code
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, str(error))
        case sqlite3.SQLITE_FULL:
            return DatabaseFullError(
                f"No space is left for {path}; the last change was not saved. Free some space "
                f"and try again."
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return DatabaseBusyError(f"Another program is holding {path}. Close it and try again.")
        case (
            sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_IOERR
            | sqlite3.SQLITE_PERM
        ):
            return DataFolderError(
                f"{path} cannot be read or written ({error}). Check that you own its folder and "
                f"that the disk is there, or choose another one with --data-dir."
            )
    return None


def damaged(path: Path, what: str) -> DatabaseDamagedError:
    """The error for a broken file; `what` is broken, in SQLite's words."""
    return DatabaseDamagedError(
        f"{path} is damaged or not a database ({what}). It was left as it is. Move it away to "
        f"start afresh, or put a copy in its place; copies made before upgrades are in "
        f"{path.parent / 'backups'}."
    )


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about the file at `path` as our own; mistakes of ours pass through."""
    try:
        yield
    except sqlite3.Error as error:
        translation = storage_error(error, path)
        if translation is None:
            raise
        raise translation from error
