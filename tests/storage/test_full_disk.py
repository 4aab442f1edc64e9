"""A full disk: what is not done is done later, and what failed leaves no room taken."""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from storage import Database, DatabaseFullError, MigrationError, database, search_index
from storage.migrations import MIGRATIONS
from tests.stored import purge_documents


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The mount point of a disk of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("mounting needs rights that this user has not")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no space on the disk; returns the file that takes it."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return path
    return path


def add(db: Database, number: int, num_words: int = 200) -> int:
    tokenizer_id = db.tokenizers.ensure("t", "t")
    words = " ".join(f"word{number}x{word}" for word in range(num_words))
    return db.sources.add_document(
        name=f"{number}.txt",
        uri=str(number),
        sha256=str(number),
        text=words,
        token_ids=range(num_words),
        tokenizer_id=tokenizer_id,
    )[0]


def check_whole(db: Database) -> None:
    assert db._connections.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    name = search_index.NAME
    with db._connections.transaction() as connection:
        connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")


def test_an_import_that_fills_the_disk_leaves_whole_documents_that_can_be_read(
    small_disk: Path,
) -> None:
    with Database(small_disk / "data") as db:
        ids = []

        def add_for_ever() -> None:
            for number in count():
                ids.append(add(db, number))

        with pytest.raises(DatabaseFullError, match="Free some space"):
            add_for_ever()
        assert len(ids) > 20
        assert [source.id for source in db.sources.list()] == ids[::-1]
        assert all(db.sources.text(source_id) for source_id in ids)
        assert len(list(db.sequences.all(1))) == len(ids)
        check_whole(db)


def test_what_is_purged_is_told_also_where_the_log_cannot_be_emptied(small_disk: Path) -> None:
    """The purge was committed and then failed over its log: the Trie was not told, and what was
    purged could go into the cache again."""
    with Database(small_disk / "data") as db:
        ids = [add(db, number, 2_000) for number in range(6)]
        hidden = db.deletions.hide_documents(ids)
        filler = fill(small_disk)
        with filler.open("r+b") as file:  # room for the log to grow, not for the file
            file.truncate(filler.stat().st_size - 600 * 1024)
        assert db.deletions.purge(datetime.now(UTC)) == hidden
        assert db.erasures.are_pending
        filler.unlink()
        assert db.erasures.finish(lambda _: True)
        assert not db.erasures.are_pending
        check_whole(db)


def test_a_second_index_without_room_gives_back_what_it_took(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It filled the disk up and stayed so: no message could be saved."""
    monkeypatch.setattr(search_index, "PAGE_CHARACTERS", 1)
    monkeypatch.setattr(search_index, "PAUSE_SECONDS", 0.0)
    ids = [add(db, number, 1_000) for number in range(30)]
    conversation = db.conversations.create("Chat")
    purge_documents(db, ids[0])
    connection = db._connections._own().connection
    num_pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {num_pages + 10}")
    with pytest.raises(DatabaseFullError):
        db.erasures.finish(lambda _: True)
    assert search_index.leftovers(connection) == []
    db.messages.add_user(conversation.id, None, "word " * 4_000)
    assert db.sources.search("word5x1")[0].name == "5.txt"
    connection.execute("PRAGMA max_page_count = 1000000")
    assert db.erasures.finish(lambda _: True)
    assert not db.erasures.are_pending
    check_whole(db)


def test_a_copy_without_room_leaves_nothing_behind(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database(small_disk / "data") as db:
        for number in range(8):
            add(db, number, 2_000)
    filler = fill(small_disk)
    with filler.open("r+b") as file:
        file.truncate(filler.stat().st_size - 200 * 1024)
    with monkeypatch.context() as patch:
        step = lambda connection: connection.execute("CREATE TABLE later (a)")  # noqa: E731
        step.__name__ = "m9001_later"
        patch.setattr(database, "MIGRATIONS", (*MIGRATIONS, step))
        with pytest.raises(MigrationError, match="Free some disk space"):
            Database(small_disk / "data")
    assert list((small_disk / "data" / "backups").iterdir()) == []
    with Database(small_disk / "data") as db:
        assert len(db.sources.list()) == 8
        check_whole(db)
