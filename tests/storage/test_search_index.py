"""The search index is written anew beside the old one: nobody waits, and no deleted word stays."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import storage
from storage import DATABASE_NAME, Database, search_index, sources
from storage.erasures import Erasures
from storage.search_index import IndexRewriting
from tests.stored import purge_documents

SECRET = " ".join(f"zanzibar{number}" for number in range(300))
ONE_INDEX = {"", "_config", "_data", "_docsize", "_idx"}  # and its tables

OnPause = Callable[[Callable[[int], object]], None]


@pytest.fixture
def on_pause(monkeypatch: pytest.MonkeyPatch) -> OnPause:
    """Has something done at each pause, given its number; small documents take a page each."""
    monkeypatch.setattr(search_index, "PAGE_CHARACTERS", 1)
    monkeypatch.setattr(search_index, "PAGE_BLOCKS", 2)

    def do(work: Callable[[int], object]) -> None:
        numbers = count()
        clock = SimpleNamespace(sleep=lambda _: work(next(numbers)), monotonic=lambda: 0.0)
        monkeypatch.setattr(search_index, "time", clock)

    return do


def add(db: Database, name: str, text: str) -> int:
    tokenizer_id = db.tokenizers.ensure("t", "t")
    return db.sources.add_document(
        name=name, uri=name, sha256=name, text=text, token_ids=[1], tokenizer_id=tokenizer_id
    )[0]


def filled_with(db: Database) -> int:
    """Four documents with common words, and one of secret ones; its id."""
    for number in range(4):
        add(db, f"{number}.txt", f"common{number} words")
    return add(db, "secret.txt", SECRET)


def names_found(db: Database, words: str) -> set[str]:
    return {match.name for match in db.sources.search(words)}


def traces(folder: Path) -> dict[str, int]:
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data.count(b"anzibar") for name, data in files.items() if b"anzibar" in data}


def check_whole(db: Database) -> None:
    """One index, and it is of the texts that are there."""
    prefix = search_index.NAME
    with db._connections.transaction() as connection:
        connection.execute(f"INSERT INTO {prefix} ({prefix}, rank) VALUES ('integrity-check', 1)")
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE name GLOB 'document_texts_fts*'"
        ).fetchall()
    assert {name.removeprefix(prefix) for (name,) in names} == ONE_INDEX


def test_others_write_and_search_while_it_is_written_anew(
    db: Database, data_dir: Path, on_pause: OnPause
) -> None:
    """Everybody waited fifteen seconds for a gigabyte of texts, and was told that it is busy."""
    secret = filled_with(db)
    pauses: list[set[str]] = []

    def others(number: int) -> None:
        with closing(sqlite3.connect(data_dir / DATABASE_NAME, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
        if number < 3:
            add(db, f"meanwhile{number}.txt", "words")
        pauses.append(names_found(db, "words"))

    purge_documents(db, secret)
    on_pause(others)
    assert db.erasures.finish(lambda _: True)
    assert len(pauses) > 7
    assert all({"0.txt", "1.txt", "2.txt", "3.txt"} <= found for found in pauses)
    assert names_found(db, "words") == pauses[-1]
    assert len(pauses[-1]) == 7
    assert traces(data_dir) == {}
    check_whole(db)
    add(db, "later.txt", "words")
    purge_documents(db, 1)
    assert names_found(db, "words") == (pauses[-1] | {"later.txt"}) - {"0.txt"}
    check_whole(db)


@pytest.mark.parametrize("num_deleted", [1, 100], ids=["once", "each time"])
def test_a_document_deleted_meanwhile_is_not_in_the_new_one(
    db: Database, data_dir: Path, on_pause: OnPause, num_deleted: int
) -> None:
    for number in range(30):
        add(db, f"{number}.txt", f"{SECRET} {number}")
    kept = add(db, "kept.txt", "words")
    deleted = iter(range(2, 31))
    purge_documents(db, 1)

    def delete_first(number: int) -> None:
        if number % 2 and number < 2 * num_deleted:
            source_id = next(deleted, None)
            if source_id is not None:
                purge_documents(db, source_id)

    on_pause(delete_first)
    db.erasures.finish(lambda _: True)
    check_whole(db)
    on_pause(lambda _: None)
    purge_documents(db, *[source.id for source in db.sources.list() if source.id != kept])
    assert db.erasures.finish(lambda _: True)
    assert db.erasures.finish(lambda _: True)
    assert not db.erasures.are_pending
    assert names_found(db, "words") == {"kept.txt"}
    assert traces(data_dir) == {}
    check_whole(db)


def test_it_is_gone_on_with_piece_by_piece_so_that_questions_are_answered(
    db: Database, data_dir: Path, on_pause: OnPause
) -> None:
    purge_documents(db, filled_with(db))
    on_pause(lambda _: None)
    num_pieces = 0
    while not db.erasures.finish(lambda _: True, max_seconds=0.0):
        assert db.erasures.are_under_way
        num_pieces += 1
        if num_pieces == 2:
            add(db, "meanwhile.txt", "words")
            purge_documents(db, 1)
    assert not db.erasures.are_under_way
    assert not db.erasures.are_pending
    assert num_pieces > 6
    assert names_found(db, "words") == {"1.txt", "2.txt", "3.txt", "meanwhile.txt"}
    assert traces(data_dir) == {}
    check_whole(db)


def test_what_is_deleted_once_it_is_written_waits_for_the_next_time(
    db: Database, data_dir: Path, on_pause: OnPause, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of it was taken for that of the words that had just been taken out."""
    secret = filled_with(db)
    on_pause(lambda _: None)
    purge_documents(db, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Erasures, "_erase_drafts", lambda *_: purge_documents(db, secret))
        db.erasures.finish(lambda _: True)
    assert db.erasures.are_pending
    assert db.erasures.finish(lambda _: True)
    assert traces(data_dir) == {}
    check_whole(db)


@pytest.mark.parametrize("number_of_pause", range(7))
def test_what_was_begun_when_the_program_ended_is_done_at_the_next_start(
    db: Database, data_dir: Path, on_pause: OnPause, number_of_pause: int
) -> None:
    purge_documents(db, filled_with(db))
    path = data_dir / "backups" / "lookahead-chat-before-m9001_x.db"
    path.parent.mkdir()

    def end(number: int) -> None:
        if number == number_of_pause:
            with (
                closing(sqlite3.connect(data_dir / DATABASE_NAME)) as source,
                closing(sqlite3.connect(path)) as copy,
            ):
                source.backup(copy)
            raise KeyboardInterrupt

    on_pause(end)
    with pytest.raises(KeyboardInterrupt):
        db.erasures.finish(lambda _: True)
    db.close()
    assert path.exists()
    on_pause(lambda _: None)
    with Database(data_dir) as again:
        assert names_found(again, "words") == {f"{number}.txt" for number in range(4)}
        assert again.erasures.are_pending
        assert again.erasures.finish(lambda _: True)
        assert not again.erasures.are_pending
        assert traces(data_dir) == {}
        check_whole(again)


def damage_index(db: Database) -> None:
    """As an earlier version did it: 2,002 levels, and SQLite reads 2,000. Closes the database."""
    with db._connections.transaction() as connection:
        connection.execute(
            "UPDATE document_texts_fts_data"
            " SET block = cast(substr(block, 1, 4) || x'8F52' || substr(block, 6) AS BLOB)"
            " WHERE id = 10"
        )
    db.close()


def damage_later(db: Database) -> None:
    """Forty documents, and an index in which no word can be looked up."""
    for number in range(40):
        words = " ".join(f"w{number:02}x{word:04}" for word in range(3_000))
        add(db, f"{number}.txt", f"{words} apple")
    db.sources.erase_deleted_words()
    with db._connections.transaction() as connection:
        connection.execute(
            "UPDATE document_texts_fts_data SET block = randomblob(length(block)) WHERE id > 10"
        )


def test_a_damaged_index_is_built_anew_page_by_page_while_others_write(
    db: Database, data_dir: Path, on_pause: OnPause, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At start it was one transaction over all texts, in which nobody could write."""
    monkeypatch.setattr(sources, "REPAIR_SECONDS", 0.0)
    secret = filled_with(db)
    damage_index(db)
    on_pause(lambda _: None)
    with Database(data_dir) as again:
        assert again.erasures.are_pending
        assert names_found(again, "words") == set(), "the empty one finds nothing, and is readable"
        num_pieces = 0
        while not again.erasures.finish(lambda _: True, max_seconds=0.0):
            with closing(sqlite3.connect(data_dir / DATABASE_NAME, timeout=0)) as other:
                other.execute("BEGIN IMMEDIATE")
            if num_pieces == 1:
                add(again, "meanwhile.txt", "words")
                assert names_found(again, "words") == {"meanwhile.txt"}
                purge_documents(again, secret)  # of which the empty one knows nothing
            num_pieces += 1
        assert num_pieces > 6
        expected = {"0.txt", "1.txt", "2.txt", "3.txt", "meanwhile.txt"}
        assert names_found(again, "words") == expected
        purge_documents(again, 1)
        assert again.erasures.finish(lambda _: True)
        assert again.erasures.finish(lambda _: True)
        assert names_found(again, "words") == expected - {"0.txt"}
        assert traces(data_dir) == {}
        check_whole(again)


def test_what_was_deleted_is_purged_from_a_damaged_index_too(db: Database, data_dir: Path) -> None:
    damage_later(db)
    deleted = [source.id for source in db.sources.list() if source.name != "7.txt"]
    db.deletions.hide_documents(deleted)
    db.deletions.purge(datetime.now(UTC))
    assert db.erasures.finish(lambda _: True)
    assert not db.erasures.are_pending
    assert [source.name for source in db.sources.list()] == ["7.txt"]
    assert [found.name for found in db.passages.find("w07x1234")] == ["7.txt"]
    db.close()
    assert b"w08x1234" not in (data_dir / DATABASE_NAME).read_bytes()


@pytest.mark.parametrize("use", ["question", "search", "import"])
def test_damage_that_is_met_later_costs_one_question_its_passages(db: Database, use: str) -> None:
    """It was looked for with one word; whoever asked was told to move the database away."""
    damage_later(db)
    if use == "question":
        assert db.passages.find("w07x1234") == []
    elif use == "search":
        assert db.sources.search("w07x1234") == []
    else:
        while not db.erasures.are_pending:
            add(db, f"{len(db.sources.list())}.txt", "pear")
    assert db.erasures.finish(lambda _: True)
    assert [found.name for found in db.passages.find("w07x1234")] == ["7.txt"]
    check_whole(db)


REPAIR = """
import sys
from types import SimpleNamespace
from storage import Database, search_index

def pause(seconds):
    print("pause", flush=True)
    if next(numbers) == int(sys.argv[2]):
        sys.stdin.read()

numbers = iter(range(1_000))
search_index.PAGE_CHARACTERS, search_index.PAGE_BLOCKS = 1, 2
search_index.time = SimpleNamespace(sleep=pause, monotonic=lambda: 0.0)
Database(sys.argv[1])
print("repaired", flush=True)
"""


@pytest.mark.parametrize("number_of_pause", [0, 2, 5, 8])
def test_a_repair_that_was_killed_is_gone_on_with(
    db: Database, data_dir: Path, on_pause: OnPause, number_of_pause: int
) -> None:
    for number in range(8):
        add(db, f"{number}.txt", "words")
    damage_index(db)
    with subprocess.Popen(
        [sys.executable, "-c", REPAIR, str(data_dir), str(number_of_pause)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(storage.__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(number_of_pause + 1)]
        process.kill()
    assert told == ["pause\n"] * (number_of_pause + 1)
    on_pause(lambda _: None)
    with Database(data_dir) as again:
        assert again.erasures.are_pending
        assert again.erasures.finish(lambda _: True)
        assert not again.erasures.are_pending
        assert names_found(again, "words") == {f"{number}.txt" for number in range(8)}
        check_whole(again)


@pytest.mark.parametrize("is_changed", [False, True], ids=["as it was", "one deleted since"])
def test_what_a_killed_program_began_is_used_where_it_is_still_right(
    db: Database, data_dir: Path, on_pause: OnPause, is_changed: bool
) -> None:
    purge_documents(db, filled_with(db))

    def end(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    on_pause(end)
    with pytest.raises(KeyboardInterrupt):
        db.erasures.finish(lambda _: True)
    [begun] = search_index.leftovers(db._connections._own().connection, "new")
    held = db._connections.rows(f"SELECT id FROM {begun}_docsize")
    assert [row["id"] for row in held] == [1, 2, 3]
    if is_changed:
        purge_documents(db, 2)
    with db._connections.transaction() as connection:
        _, after, num_documents = search_index.begin(connection)
    assert (after, num_documents) == ((0, 0) if is_changed else (3, 3))
    on_pause(lambda _: None)
    db.erasures.finish(lambda _: True)
    assert db.erasures.finish(lambda _: True)
    gone = {"1.txt"} if is_changed else set()
    assert names_found(db, "words") == {f"{number}.txt" for number in range(4)} - gone
    check_whole(db)


@pytest.mark.parametrize("number_of_pause", range(6))
def test_of_two_programs_one_leaves_it_to_the_other(
    db: Database, data_dir: Path, on_pause: OnPause, number_of_pause: int
) -> None:
    purge_documents(db, filled_with(db))
    pauses = []

    def begin_too(number: int) -> None:
        pauses.append(number)
        if number == number_of_pause:
            with Database(data_dir) as other:
                IndexRewriting(other._connections).work()
                check_whole(other)
            pauses.clear()

    on_pause(begin_too)
    IndexRewriting(db._connections).work()
    assert pauses == [], "the one that began last does it"
    assert names_found(db, "words") == {f"{number}.txt" for number in range(4)}
    db.erasures.finish(lambda _: True)
    assert db.erasures.finish(lambda _: True)
    assert traces(data_dir) == {}
    check_whole(db)
