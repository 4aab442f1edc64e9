"""Opening, using and closing the file: nothing a user has is ever lost or overwritten."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlite_utils

from storage import (
    DATABASE_NAME,
    Database,
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseDamagedError,
    DatabaseFullError,
    DataFolderError,
    connections,
    integrity,
)
from storage.migrations import MIGRATION_SET, MIGRATIONS
from tests.stored import purge_documents

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_blank_folder_gets_the_latest_schema(data_dir: Path) -> None:
    Database(data_dir).close()
    with closing(sqlite3.connect(data_dir / DATABASE_NAME)) as connection:
        applied = connection.execute(
            "SELECT name FROM _sqlite_migrations WHERE migration_set = ?", [MIGRATION_SET]
        ).fetchall()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert [name for (name,) in applied] == [step.__name__ for step in MIGRATIONS]
    assert not (data_dir / "backups").exists()


def test_reopening_finds_everything_and_the_same_database(filled: Path) -> None:
    with Database(filled.parent) as db:
        first_id = db.database_id
        [conversation] = db.conversations.list()
        assert [message.text for message in db.messages.list(conversation.id)] == ["Keep me"]
    with Database(filled.parent) as db:
        assert db.database_id == first_id


def test_a_file_with_much_room_in_it_is_made_smaller(data_dir: Path) -> None:
    with Database(data_dir) as db:
        path = data_dir / DATABASE_NAME
        tokenizer_id = db.tokenizers.ensure("t", "t")
        for number in range(40):
            db.sources.add_document(
                **dict.fromkeys(("name", "uri", "sha256"), f"{number}.txt"),
                text=f"{number:09} " * 100_000,
                token_ids=[number],
                tokenizer_id=tokenizer_id,
            )
        assert not db.give_back(1.0)
        large = path.stat().st_size
        purge_documents(db, *range(2, 41))
        assert db.erasures.finish(lambda _: True)
        assert path.stat().st_size >= large
        assert db.give_back(0.0), "a piece at a time"
        while db.give_back(0.0):
            pass
        assert connections.FREE_PAGES_KEPT * 4096 < path.stat().st_size < large / 2
        assert [source.name for source in db.sources.list()] == ["0.txt"]
        assert len(db.sources.text(1)) == 1_000_000
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_another_database_has_another_id(tmp_path: Path) -> None:
    with Database(tmp_path / "a") as a, Database(tmp_path / "b") as b:
        assert a.database_id != b.database_id


def test_the_file_is_readable_with_sqlite_utils(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        rows = list(sqlite_utils.Database(connection)["messages"].rows)
    assert [row["text"] for row in rows] == ["Keep me"]


@needs_posix
def test_folder_and_files_are_for_their_owner_alone(data_dir: Path) -> None:
    old_mask = os.umask(0)
    try:
        with Database(data_dir) as db:
            db.conversations.create()
            paths = [path for path in data_dir.iterdir() if path.is_file()]
            assert len(paths) == 3  # with the side files of the write-ahead log
            assert [mode(path) for path in paths] == [0o600] * 3
            assert mode(data_dir) == 0o700
    finally:
        os.umask(old_mask)


@needs_posix
def test_an_empty_folder_and_a_file_open_to_others_are_closed_to_them(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    Database(data_dir).close()
    assert mode(data_dir) == 0o700
    (data_dir / DATABASE_NAME).chmod(0o644)
    Database(data_dir).close()
    assert mode(data_dir / DATABASE_NAME) == 0o600


@needs_posix
def test_a_folder_with_other_things_in_it_keeps_its_mode(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    data_dir.chmod(0o755)
    (data_dir / "thesis.txt").write_text("mine")
    Database(data_dir).close()
    assert mode(data_dir) == 0o755


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(data_dir: Path) -> None:
    data_dir.mkdir()
    path = data_dir / DATABASE_NAME
    path.write_text("My only copy of something else. " * 100)
    before = files(data_dir)
    with pytest.raises(DatabaseDamagedError, match=r"lookahead-chat\.db is damaged") as caught:
        Database(data_dir)
    assert "Move it away" in str(caught.value)
    assert files(data_dir) == before


def test_a_truncated_file_is_refused_and_left_as_it_is(filled: Path) -> None:
    content = filled.read_bytes()
    filled.write_bytes(content[: len(content) // 2 + 100])
    before = files(filled.parent)
    with pytest.raises(DatabaseDamagedError):
        Database(filled.parent)
    assert files(filled.parent) == before


def test_damage_found_later_is_told_as_such(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'messages'"
        ).fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(filled.read_bytes())
    content[(page - 1) * page_size : page * page_size] = b"\xff" * page_size
    filled.write_bytes(content)
    monkeypatch.setattr(integrity, "CHECK_SECONDS", 0.0)  # a file too large to be checked at start
    monkeypatch.setattr(integrity, "STEPS_BETWEEN_LOOKS", 1)
    with Database(filled.parent) as db, pytest.raises(DatabaseDamagedError, match="backups"):
        db.messages.get(1)


def test_a_log_without_its_file_is_not_thrown_away(data_dir: Path) -> None:
    data_dir.mkdir()
    log = data_dir / f"{DATABASE_NAME}-wal"
    log.write_bytes(b"changes that were never moved over")
    with pytest.raises(DatabaseDamagedError, match="Put the file back"):
        Database(data_dir)
    assert files(data_dir) == {str(log): b"changes that were never moved over"}


def test_a_data_folder_that_cannot_be_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match="--data-dir"):
        Database(tmp_path / "file" / "data")
    (tmp_path / "data" / DATABASE_NAME).mkdir(parents=True)
    with pytest.raises(DataFolderError, match="--data-dir"):
        Database(tmp_path / "data")


def test_a_full_disk_is_told_as_such_and_nothing_is_half_saved(data_dir: Path) -> None:
    with Database(data_dir) as db:
        conversation = db.conversations.create()
        connection = db._connections._own().connection
        (num_pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {num_pages}")
        with pytest.raises(DatabaseFullError, match="Free some space"):
            db.messages.add_user(conversation.id, None, "long " * 100_000)
        assert db.messages.list(conversation.id) == []
        connection.execute(f"PRAGMA max_page_count = {2**31}")
        db.messages.add_user(conversation.id, None, "goes on")


def test_a_file_held_by_another_program_is_told_as_such(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_SECONDS", 0.05)
    with closing(sqlite3.connect(filled, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Database(filled.parent) as db:
            with pytest.raises(DatabaseBusyError, match="Close it"):
                db.conversations.create()
            assert len(db.conversations.list()) == 1  # reading goes on
            other.execute("ROLLBACK")
            db.conversations.create()


def test_closing_ends_every_use_and_leaves_one_file(data_dir: Path) -> None:
    db = Database(data_dir)
    is_open, is_closed = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def use() -> None:
        db.conversations.list()
        is_open.set()
        is_closed.wait(30)
        try:
            db.conversations.list()
        except DatabaseClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    assert is_open.wait(30)
    db.close()
    db.close()
    is_closed.set()
    thread.join(30)
    assert len(errors) == 1
    with pytest.raises(DatabaseClosedError):
        db.conversations.create()
    assert [path.name for path in data_dir.iterdir()] == [DATABASE_NAME]


CLOSING = """
import sys, threading
from storage import Database, DatabaseClosedError

for _ in range(15):
    db = Database(sys.argv[1])
    is_used = threading.Event()

    def use():
        try:
            while True:
                db.conversations.list()
                db.settings.set("key", 1)
                is_used.set()
        except DatabaseClosedError:
            ended.append(1)

    ended, threads = [], [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    is_used.wait()
    db.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 3
"""


def test_closing_while_others_read_and_write_crashes_nothing(data_dir: Path) -> None:
    """Connections were closed in the middle of a call: a segmentation fault, every second time."""
    with Database(data_dir) as db:
        for number in range(30):
            db.conversations.create(f"{number} " * 200)
    program = [sys.executable, "-c", CLOSING, str(data_dir)]
    ended = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_takes_long_is_broken_off_when_the_database_is_closed(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CLOSE_SECONDS", 0.2)
    db = Database(data_dir)
    errors: list[BaseException] = []

    def count_for_ever() -> None:
        try:
            db._connections.rows(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
                " SELECT max(x) FROM n"
            )
        except DatabaseClosedError as error:
            errors.append(error)

    threads = [threading.Thread(target=count_for_ever) for _ in range(3)]
    for thread in threads:
        thread.start()
    while sum(own.num_uses for own in list(db._connections._by_thread.values())) < 3:
        time.sleep(0.01)
    db.close()
    for thread in threads:
        thread.join(30)
    assert len(errors) == 3
    assert not db._connections._by_thread


def test_a_transaction_that_has_begun_comes_to_its_end(data_dir: Path) -> None:
    db = Database(data_dir)
    is_begun, may_end = threading.Event(), threading.Event()

    def write() -> None:
        with db._connections.transaction() as connection:
            connection.execute("INSERT INTO settings VALUES ('begun', '1')")
            is_begun.set()
            may_end.wait(30)
            assert db.settings.get("begun") == 1

    thread = threading.Thread(target=write)
    thread.start()
    assert is_begun.wait(30)
    threading.Timer(0.3, may_end.set).start()
    db.close()
    thread.join(30)
    with Database(data_dir) as again:
        assert again.settings.get("begun") == 1


def test_many_threads_write_and_read_at_once(data_dir: Path) -> None:
    with Database(data_dir) as db:
        conversation = db.conversations.create()

        def write(number: int) -> None:
            for index in range(20):
                message = db.messages.add_user(conversation.id, None, f"{number} {index}")
                assert db.messages.get(message.id).text == f"{number} {index}"

        threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        rows = db._connections.rows("SELECT text FROM messages")
        assert {row["text"] for row in rows} == {f"{n} {i}" for n in range(8) for i in range(20)}
        assert len(rows) == 160


def test_connections_of_ended_threads_do_not_pile_up(data_dir: Path) -> None:
    with Database(data_dir) as db:
        for _ in range(20):
            thread = threading.Thread(target=db.conversations.list)
            thread.start()
            thread.join(30)
        assert len(db._connections._by_thread) <= 2


def test_two_starts_at_once_make_one_database(data_dir: Path) -> None:
    barrier = threading.Barrier(4)
    ids: list[str] = []

    def start() -> None:
        barrier.wait(30)
        with Database(data_dir) as db:
            ids.append(db.database_id)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ids) == 4
    assert len(set(ids)) == 1
