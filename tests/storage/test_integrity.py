"""Damage by the disk is noticed: broken tables at start, changed rows when they are read."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from storage import (
    DATABASE_NAME,
    Database,
    DatabaseDamagedError,
    Message,
    RecordDamagedError,
    integrity,
)
from storage.token_blobs import pack_token_ids
from tests.stored import purge_documents


@pytest.fixture
def tokenizer_id(db: Database) -> int:
    return db.tokenizers.ensure("fingerprint", "name")


def add(db: Database, tokenizer_id: int, name: str) -> int:
    source_id, _ = db.sources.add_document(
        name=name,
        uri=name,
        sha256=name,
        text=f"the text of {name}",
        token_ids=[*name.encode()] * 9,
        tokenizer_id=tokenizer_id,
    )
    return source_id


def flip(data_dir: Path, content: bytes) -> None:
    """Change a bit of the file behind SQLite's back, as a failing disk does; none is open."""
    path = data_dir / DATABASE_NAME
    whole = path.read_bytes()
    assert whole.count(content) == 1
    path.write_bytes(whole.replace(content, bytes([content[0] ^ 0x80]) + content[1:]))


@pytest.mark.parametrize("table", integrity.TABLES)
def test_a_broken_table_is_told_at_start_and_the_file_is_left_as_it_is(
    data_dir: Path, table: str, db: Database, tokenizer_id: int, exchange: Callable[..., Message]
) -> None:
    exchange(db.conversations.create().id)
    add(db, tokenizer_id, "a.txt")
    db.close()
    path = data_dir / DATABASE_NAME
    with closing(sqlite3.connect(path)) as connection:
        [page] = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", [table]
        ).fetchone()
        [page_size] = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    content[(page - 1) * page_size : page * page_size] = b"\xff" * page_size
    path.write_bytes(content)
    with pytest.raises(DatabaseDamagedError, match="Move it away"):
        Database(data_dir)
    assert path.read_bytes() == content


def test_a_check_that_takes_too_long_is_left_and_the_database_can_be_used(
    data_dir: Path, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(integrity, "STEPS_BETWEEN_LOOKS", 1)
    with Database(data_dir) as db:
        assert len(db.conversations.list()) == 1
        db.conversations.create("writing goes on")


def test_a_changed_text_of_a_document_is_not_given_out(
    db: Database, data_dir: Path, tokenizer_id: int
) -> None:
    source_id = add(db, tokenizer_id, "a.txt")
    db.close()
    flip(data_dir, b"the text of a.txt")
    with Database(data_dir) as again:
        with pytest.raises(RecordDamagedError, match=r"a\.txt was damaged.*import it again"):
            again.sources.text(source_id)
        purge_documents(again, source_id)


def test_a_changed_sequence_is_discarded_and_its_document_indexed_again(
    db: Database, data_dir: Path, tokenizer_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    source_id, kept = add(db, tokenizer_id, "a.txt"), add(db, tokenizer_id, "b.txt")
    db.close()
    flip(data_dir, pack_token_ids([*b"a.txt"] * 9))
    with Database(data_dir) as again:
        sequences = list(again.sequences.all(tokenizer_id))
        assert [ids[0] for _, _, ids in sequences] == [ord("b")]
        assert "was damaged on the disk" in caplog.text
        assert again.sources.next_without_sequence(tokenizer_id) == source_id
        assert again.sources.next_without_sequence(tokenizer_id, after=source_id) is None
        assert len(again.sources.list()) == 2, kept


def test_a_changed_message_is_shown_and_marked_and_its_tokens_are_not_used(
    db: Database, data_dir: Path, exchange: Callable[..., Message]
) -> None:
    chat = db.conversations.create()
    exchange(chat.id, "A question", "An answer", token_ids=[1, 2, 3])
    db.close()
    flip(data_dir, b"An answer")
    with Database(data_dir) as again:
        question, answer = again.messages.list(chat.id)
        assert (question.text, question.status) == ("A question", "complete")
        assert answer.text.endswith("n answer")
        assert (answer.status, answer.token_ids) == ("failed", ())
        assert "damaged on the disk" in answer.error


def test_rows_of_earlier_versions_are_not_taken_for_damaged() -> None:
    assert integrity.is_whole(None, "text", b"ids")
    assert integrity.is_whole(integrity.checksum("text", b"ids"), "text", b"ids")
    assert not integrity.is_whole(integrity.checksum("text", b"ids"), "text", b"idt")
