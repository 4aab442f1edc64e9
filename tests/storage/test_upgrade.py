"""Upgrades: all of them or none, a copy first, and never of a file that is newer than the app."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlite_utils

import storage
from storage import (
    Database,
    MigrationError,
    SchemaTooNewError,
    database,
    upgrade,
)
from storage.migrations import MIGRATIONS, Migration

KILLED_UPGRADE = """
import os, signal, sys
from storage import Database, database

def m9001_killed(connection):
    connection.execute("DELETE FROM messages")
    connection.execute("CREATE TABLE big (content BLOB)")
    connection.execute("INSERT INTO big VALUES (randomblob(20000000))")  # reaches the disk
    os.kill(os.getpid(), signal.SIGKILL)

database.MIGRATIONS = (*database.MIGRATIONS, m9001_killed)
Database(sys.argv[1])
"""


def m9001_moods(connection: sqlite_utils.Database) -> None:
    connection.execute("ALTER TABLE conversations ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'")


def m9002_fails(connection: sqlite_utils.Database) -> None:
    connection.execute("DELETE FROM conversations")
    connection.execute("ALTER TABLE no_such_table ADD COLUMN anything TEXT")


def m9002_breaks_references(connection: sqlite_utils.Database) -> None:
    connection.execute("UPDATE messages SET conversation_id = 999")


@pytest.fixture
def later_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the app one that has these steps after ours."""

    def add(*steps: Migration) -> None:
        monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, *steps))

    return add


def titles(data_dir: Path) -> list[str]:
    with Database(data_dir) as db:
        return [conversation.title for conversation in db.conversations.list()]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_newer_schema_is_refused_and_left_as_it_is(
    filled: Path, later_steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    later_steps(m9001_moods)
    Database(filled.parent).close()
    monkeypatch.undo()
    before = files(filled.parent)
    with pytest.raises(SchemaTooNewError, match=r"newer version.*m9001_moods.*Update the app"):
        Database(filled.parent)
    assert files(filled.parent) == before


def test_a_newer_schema_still_in_the_log_is_refused_too(
    filled: Path, later_steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database(filled.parent):  # keeps the write-ahead log from being emptied
        later_steps(m9001_moods)
        with Database(filled.parent):
            monkeypatch.undo()
            before = filled.read_bytes()
            assert b"m9001_moods" not in before
            with pytest.raises(SchemaTooNewError):
                Database(filled.parent)
            assert filled.read_bytes() == before


def test_an_upgrade_keeps_the_rows_and_a_copy_from_before(
    filled: Path, later_steps: Callable[..., None]
) -> None:
    later_steps(m9001_moods)
    assert titles(filled.parent) == ["Kept"]
    with closing(sqlite3.connect(filled)) as connection:
        assert connection.execute("SELECT title, mood FROM conversations").fetchall() == [
            ("Kept", "calm")
        ]
    [backup] = (filled.parent / "backups").iterdir()
    with closing(sqlite3.connect(backup)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(conversations)")]
        assert "mood" not in columns
        assert connection.execute("SELECT title FROM conversations").fetchall() == [("Kept",)]
        assert connection.execute("SELECT text FROM messages").fetchall() == [("Keep me",)]


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX")
def test_the_copy_is_for_its_owner_alone(filled: Path, later_steps: Callable[..., None]) -> None:
    later_steps(m9001_moods)
    Database(filled.parent).close()
    [backup] = (filled.parent / "backups").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (backup, backup.parent)] == [0o600, 0o700]


def test_a_start_without_an_upgrade_copies_nothing(filled: Path) -> None:
    Database(filled.parent).close()
    assert not (filled.parent / "backups").exists()


def test_only_the_newest_copies_are_kept(filled: Path, later_steps: Callable[..., None]) -> None:
    steps: list[Migration] = []
    for number in range(9001, 9005):

        def step(connection: sqlite_utils.Database) -> None:
            """Changes nothing."""

        step.__name__ = f"m{number}_nothing"
        steps.append(step)
        later_steps(*steps)
        Database(filled.parent).close()
    kept = sorted(path.name for path in (filled.parent / "backups").iterdir())
    assert len(kept) == upgrade.NUM_BACKUPS_KEPT
    assert kept[-1].endswith("before-m9004_nothing.db")
    assert kept[-2].endswith("before-m9003_nothing.db")


@pytest.mark.parametrize("step", [m9002_fails, m9002_breaks_references])
def test_an_upgrade_that_fails_changes_nothing(
    filled: Path,
    step: Migration,
    later_steps: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later_steps(m9001_moods, step)
    with pytest.raises(MigrationError):
        Database(filled.parent)
    monkeypatch.undo()
    assert titles(filled.parent) == ["Kept"]
    with closing(sqlite3.connect(filled)) as connection:
        assert "mood" not in [
            row[1] for row in connection.execute("PRAGMA table_info(conversations)")
        ]


def test_without_a_copy_there_is_no_upgrade(
    filled: Path, later_steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled.parent / "backups").write_text("in the way")
    later_steps(m9001_moods)
    with pytest.raises(MigrationError, match="copy"):
        Database(filled.parent)
    monkeypatch.undo()
    assert titles(filled.parent) == ["Kept"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_an_upgrade_that_is_killed_changes_nothing(filled: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", KILLED_UPGRADE, str(filled.parent)],
        env=os.environ | {"PYTHONPATH": str(Path(storage.__file__).parents[1])},
        check=False,
    )
    assert process.returncode == -9
    assert titles(filled.parent) == ["Kept"]
    with Database(filled.parent) as db:
        assert db.messages.get(1).text == "Keep me"
