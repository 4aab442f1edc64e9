"""Opening a database file safely: refuse what is newer or damaged, copy, then migrate.

Knows the files and the migration steps, not the tables. Called by `connections.py`.
"""

import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from sqlite_utils import Database as Connection
from sqlite_utils import Migrations

from storage.errors import (
    DatabaseDamagedError,
    DataFolderError,
    MigrationError,
    SchemaTooNewError,
    StorageError,
    storage_error,
    translated_errors,
)
from storage.migrations import MIGRATION_SET, Migration

__all__ = ["NUM_BACKUPS_KEPT", "migrate", "prepare_file", "prepare_folder", "refuse_unusable"]

logger = logging.getLogger(__name__)

NUM_BACKUPS_KEPT = 2


def prepare_folder(folder: Path) -> None:
    """Create the data folder for its owner alone; a folder that holds other things keeps its mode.

    Raises DataFolderError where that is not possible.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            folder.chmod(0o700)
    except OSError as error:
        raise DataFolderError(
            f"The data folder {folder} cannot be used ({error.strerror or error}). Check the path "
            f"and its permissions, or choose another one with --data-dir."
        ) from error


def prepare_file(path: Path) -> None:
    """Make sure that the file exists and that only its owner can read it.

    SQLite gives its side files the mode of the main one.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise DataFolderError(
            f"{path} cannot be written ({error.strerror or error}). Check its permissions, or "
            f"choose another folder with --data-dir."
        ) from error


def refuse_unusable(path: Path, migrations: Sequence[Migration]) -> None:
    """Look at an existing file without writing; nothing to do where there is none.

    Raises SchemaTooNewError or DatabaseDamagedError.
    """
    wal_path = path.with_name(path.name + "-wal")
    if not path.exists() or path.stat().st_size == 0:
        if wal_path.exists() and wal_path.stat().st_size:  # SQLite would throw the changes away
            raise DatabaseDamagedError(
                f"{path} is missing or empty, but {wal_path.name} holds changes to it. Nothing was "
                f"touched. Put the file back, or move {wal_path.name} away to start afresh."
            )
        return
    # Read-only connections create side files too; where there are none, nobody else is writing.
    is_in_use = any(path.parent.glob(f"{path.name}-*"))
    uri = path.absolute().as_uri() + "?mode=ro" + ("" if is_in_use else "&immutable=1")
    with (
        translated_errors(path),
        closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection,
    ):
        applied = migration_set(()).applied(Connection(connection, execute_plugins=False))
        unknown = {step.name for step in applied} - {step.__name__ for step in migrations}
    if unknown:
        raise SchemaTooNewError(
            f"{path} was written by a newer version of Lookahead Chat (it has {max(unknown)}). "
            f"Nothing was changed. Update the app, or choose another folder with --data-dir."
        )


def migrate(path: Path, connection: Connection, migrations: Sequence[Migration]) -> None:
    """Run the steps that are missing, all or none, after a copy of a file that has content.

    Raises MigrationError, or what is wrong with the file or the disk.
    """
    steps = migration_set(migrations)
    if not steps.pending(connection):
        return
    connection.execute("PRAGMA foreign_keys = OFF")  # steps may rebuild tables; checked below
    connection.execute("BEGIN IMMEDIATE")
    try:
        pending = steps.pending(connection)  # again: another process may have been first
        if pending and steps.applied(connection):
            back_up(path, pending[0].name)
        steps.apply(connection)
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise MigrationError(f"{path} would hold broken references: {broken[:3]}.")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise storage_error(error, path) or MigrationError(
            f"{path} could not be brought to this version ({error}). Nothing was changed. Go back "
            f"to the earlier version of the app, and please report this."
        ) from error
    finally:
        connection.rollback()
        connection.execute("PRAGMA foreign_keys = ON")


def migration_set(migrations: Sequence[Migration]) -> Migrations:
    """The steps as sqlite-utils runs and records them."""
    steps = Migrations(MIGRATION_SET)
    for step in migrations:
        steps()(step)
    return steps


def back_up(path: Path, next_step: str) -> Path:
    """Copy the database as it is now into `backups`, whole or not at all; keep the newest few."""
    folder = path.parent / "backups"
    target = folder / f"{path.stem}-before-{next_step}.db"
    partial = target.with_suffix(".partial")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        partial.unlink(missing_ok=True)
        prepare_file(partial)
        with (
            translated_errors(partial),
            closing(sqlite3.connect(path)) as source,
            closing(sqlite3.connect(partial)) as copy,
        ):
            source.backup(copy)
        partial.replace(target)
    except (OSError, StorageError) as error:
        for name in (partial.name, f"{partial.name}-journal"):
            with suppress(OSError):
                partial.with_name(name).unlink()
        raise MigrationError(
            f"{path} needs an upgrade, but the copy to {folder} failed ({error}). Nothing was "
            f"changed. Free some disk space and start again."
        ) from error
    logger.info("Copied the database to %s before the upgrade", target)
    for old in sorted(folder.glob(f"{path.stem}-before-*.db"))[:-NUM_BACKUPS_KEPT]:
        old.unlink()
    return target
