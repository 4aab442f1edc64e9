"""Documents: text, search index and sequences are saved and deleted together."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import (
    Database,
    Message,
    RecordExistsError,
    RecordNotFoundError,
    Source,
)
from storage.connections import Row
from storage.token_blobs import pack_token_ids, unpack_token_ids
from tests.stored import purge_documents, purge_versions, shown_sequence_ids

FTS_CHECK = (
    "INSERT INTO document_texts_fts (document_texts_fts, rank) VALUES ('integrity-check', 1)"
)


@pytest.fixture
def tokenizer_id(db: Database) -> int:
    return db.tokenizers.ensure("fingerprint", "name")


def add(
    db: Database,
    tokenizer_id: int,
    name: str,
    text: str,
    versions_deleted_at: datetime | None = None,
) -> tuple[int, list[int]]:
    return db.sources.add_document(
        name=name,
        uri=f"/docs/{name}",
        sha256=f"sha of {text}",
        text=text,
        token_ids=np.arange(len(text.split())),
        tokenizer_id=tokenizer_id,
        versions_deleted_at=versions_deleted_at,
    )


def found(db: Database, words: str) -> list[str]:
    return [match.name for match in db.sources.search(words)]


def check_index(db: Database) -> None:
    with db._connections.transaction() as connection:
        connection.execute(FTS_CHECK)  # raises where index and texts differ


def test_a_document_is_saved_with_text_and_tokens(db: Database, tokenizer_id: int) -> None:
    source_id, [sequence_id] = add(db, tokenizer_id, "contract.txt", "The party of the first part")
    source = db.sources.get(source_id)
    assert (source.name, source.uri, source.kind) == (
        "contract.txt",
        "/docs/contract.txt",
        "document",
    )
    assert (source.num_characters, source.num_tokens) == (27, 6)
    assert db.sources.text(source_id) == "The party of the first part"
    assert db.sequences.token_ids(sequence_id).tolist() == [0, 1, 2, 3, 4, 5]
    origin = db.sequences.origin(sequence_id)
    assert (origin.kind, origin.name, origin.uri) == ("document", source.name, source.uri)
    assert (origin.conversation_id, origin.message_id) == (None, None)


def test_documents_are_found_by_content_and_by_place(db: Database, tokenizer_id: int) -> None:
    assert db.sources.find_by_sha256("sha of old") is None
    old_id, _ = add(db, tokenizer_id, "a.txt", "old")
    other_id, _ = add(db, tokenizer_id, "b.txt", "other")

    def id_of(source: Source | None) -> int | None:
        return source and source.id

    assert id_of(db.sources.find_by_sha256("sha of old")) == old_id
    assert id_of(db.sources.find_by_uri("/docs/b.txt")) == other_id
    assert db.sources.find_by_uri("/docs/c.txt") is None
    assert [source.id for source in db.sources.list()] == [other_id, old_id]


def test_a_new_version_takes_the_place_of_the_old_one(db: Database, tokenizer_id: int) -> None:
    add(db, tokenizer_id, "a.txt", "old")
    other_id, _ = add(db, tokenizer_id, "b.txt", "other")
    new_id, [sequence_id] = add(db, tokenizer_id, "a.txt", "new")
    assert [source.id for source in db.sources.list()] == [new_id, other_id]
    assert (found(db, "old"), found(db, "new")) == ([], ["a.txt"])
    assert max(shown_sequence_ids(db, tokenizer_id)) == sequence_id
    with pytest.raises(RecordExistsError):
        add(db, tokenizer_id, "a.txt", "other")
    assert found(db, "new") == ["a.txt"], "where the new version fails, the old one stays"
    purge_versions(db, "/docs/a.txt", except_id=new_id)
    assert found(db, "new") == ["a.txt"]
    purge_versions(db, "/docs/a.txt")
    assert [source.id for source in db.sources.list()] == [other_id]
    check_index(db)


def test_a_new_version_can_leave_the_old_one_to_be_brought_back(
    db: Database, tokenizer_id: int
) -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    first, _ = add(db, tokenizer_id, "a.txt", "old")
    other, _ = add(db, tokenizer_id, "b.txt", "other")
    db.sources.pin(first, True)
    second, _ = add(db, tokenizer_id, "a.txt", "new", versions_deleted_at=time)
    assert [source.id for source in db.sources.list()] == [second, other]
    assert db.sources.get(second).is_pinned
    [deletion] = db.deletions.list()
    assert (deletion.ids, deletion.deleted_at) == ((first,), time)


def test_a_document_moves_to_where_its_content_is_now(db: Database, tokenizer_id: int) -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    first, _ = add(db, tokenizer_id, "a.txt", "one")
    second, _ = add(db, tokenizer_id, "b.txt", "two")
    assert db.sources.move(second, name="a.txt", uri="/docs/a.txt", deleted_at=time)
    assert [(s.id, s.name, s.uri) for s in db.sources.list()] == [(second, "a.txt", "/docs/a.txt")]
    [deletion] = db.deletions.list()
    assert (deletion.ids, deletion.deleted_at) == ((first,), time)
    dropped = db.sources.find_by_sha256("sha of one", deleted_at=time)
    assert dropped is not None
    assert db.sources.move(dropped.id, name="b.txt", uri="/docs/b.txt", deleted_at=time)
    assert {(s.id, s.name) for s in db.sources.list()} == {(second, "a.txt"), (first, "b.txt")}
    assert db.deletions.list() == []


def test_what_was_deleted_at_another_time_does_not_move(db: Database, tokenizer_id: int) -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    source_id, _ = add(db, tokenizer_id, "a.txt", "one")
    db.deletions.hide_documents([source_id])
    assert db.sources.find_by_sha256("sha of one", deleted_at=time) is None
    for gone in (source_id, 99):
        assert not db.sources.move(gone, name="b.txt", uri="/docs/b.txt", deleted_at=time)
    assert db.sources.list() == []


def test_the_same_content_is_not_imported_twice(db: Database, tokenizer_id: int) -> None:
    add(db, tokenizer_id, "a.txt", "text")
    with pytest.raises(RecordExistsError, match=r"b\.txt"):
        add(db, tokenizer_id, "b.txt", "text")
    assert len(db.sources.list()) == 1


def test_a_failure_in_the_middle_of_a_document_leaves_nothing_of_it(db: Database) -> None:
    with pytest.raises(Exception, match="FOREIGN KEY"):
        add(db, 99, "a.txt", "no such tokenizer")
    assert db.sources.list() == []
    assert found(db, "tokenizer") == []
    check_index(db)


def test_a_document_is_pinned_until_it_is_not(db: Database, tokenizer_id: int) -> None:
    source_id, (sequence_id,) = add(db, tokenizer_id, "a.txt", "text")
    for is_pinned in (True, False):
        db.sources.pin(source_id, is_pinned)
        assert db.sources.get(source_id).is_pinned is is_pinned
        assert db.sequences.to_index(tokenizer_id) == [
            (sequence_id, "document", 1, is_pinned, False)
        ]
    db.deletions.hide_documents([source_id])
    for gone in (source_id, 99):
        with pytest.raises(RecordNotFoundError):
            db.sources.pin(gone, True)


def test_an_empty_document_has_no_sequence(db: Database, tokenizer_id: int) -> None:
    source_id, sequence_ids = add(db, tokenizer_id, "empty.txt", "")
    assert sequence_ids == []
    assert db.sources.get(source_id).num_tokens == 0
    assert db.sources.search("text") == []


def test_the_search_index_keeps_step_with_the_texts(db: Database, tokenizer_id: int) -> None:
    fox, _ = add(db, tokenizer_id, "fox.txt", "the quick brown fox")
    add(db, tokenizer_id, "dog.txt", "the lazy dog sleeps")
    assert found(db, "Fox") == ["fox.txt"]
    assert set(found(db, "fox dog")) == {"fox.txt", "dog.txt"}
    with db._connections.transaction() as connection:
        connection.execute("UPDATE document_texts SET text = 'a cat' WHERE source_id = ?", [fox])
    assert (found(db, "fox"), found(db, "cat")) == ([], ["fox.txt"])
    check_index(db)
    purge_documents(db, fox)
    assert (found(db, "cat"), found(db, "dog")) == ([], ["dog.txt"])
    check_index(db)


@pytest.mark.parametrize("words", ["", "!?", '"', "NOT", "a AND (b", "NEAR(", "text:*", "-x"])
def test_any_words_can_be_searched_for(db: Database, tokenizer_id: int, words: str) -> None:
    add(db, tokenizer_id, "a.txt", "nothing of it here")
    assert found(db, words) == []


def test_deleting_documents_takes_all_of_them_or_none(
    db: Database, tokenizer_id: int, exchange: Callable[..., Message]
) -> None:
    exchange(db.conversations.create().id)
    one, one_sequences = add(db, tokenizer_id, "1.txt", "first text")
    two, two_sequences = add(db, tokenizer_id, "2.txt", "second text")
    three, _ = add(db, tokenizer_id, "3.txt", "third text")
    history_id = 1
    assert db.sources.get(history_id).kind == "history"
    for wrong in (99, history_id):
        with pytest.raises(RecordNotFoundError):
            purge_documents(db, one, wrong)
    assert len(db.sources.list()) == 3
    assert purge_documents(db, one, two) == one_sequences + two_sequences
    assert [source.id for source in db.sources.list()] == [three]
    assert found(db, "text") == ["3.txt"]
    with pytest.raises(RecordNotFoundError):
        db.sources.text(one)


def test_nothing_of_a_deleted_document_stays_on_the_disk(
    db: Database, data_dir: Path, tokenizer_id: int
) -> None:
    words = [f"zanzibar{number}" for number in range(300)]
    add(db, tokenizer_id, "kept.txt", "zebra " + "plain words " * 50)
    source_id, _ = add(db, tokenizer_id, "secret.txt", " ".join(words))

    def num_traces() -> int:
        return sum(path.read_bytes().count(b"anzibar") for path in data_dir.iterdir())

    assert num_traces() > 0
    purge_documents(db, source_id)
    db.sources.erase_deleted_words()
    assert num_traces() == 0
    add(db, tokenizer_id, "secret.txt", " ".join(words))
    add(db, tokenizer_id, "secret.txt", "replaced")
    assert num_traces() > 0
    db.sources.erase_deleted_words()
    assert num_traces() == 0
    assert found(db, "zebra") == ["kept.txt"]


def test_thousands_of_deletions_leave_a_whole_index(
    db: Database, tokenizer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each deletion ran FTS5's 'optimize'; SQLite 3.40 cannot read an index after the thousandth.

    From then on every import and every deletion failed, though the file was whole.
    """
    monkeypatch.setattr(db._connections, "truncate_log", lambda: None)  # takes most of the time
    db._connections._own().connection.execute("PRAGMA synchronous = OFF")
    ids = [add(db, tokenizer_id, f"{number}.txt", f"first {number}")[0] for number in range(500)]
    for number in range(1050):
        ids.append(add(db, tokenizer_id, f"{500 + number}.txt", f"more {number}")[0])
        purge_documents(db, ids.pop(0))
    assert found(db, "first") == []
    assert found(db, "1049") == ["1549.txt"]
    check_index(db)


def test_a_damaged_index_is_built_anew_where_the_texts_are_whole(
    db: Database, tokenizer_id: int, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version damaged the index by itself; the documents were not to be reached."""
    add(db, tokenizer_id, "a.txt", "alpha beta")
    with db._connections.transaction() as connection:
        connection.execute(  # as that version did it: 2,002 levels, and SQLite reads 2,000
            "UPDATE document_texts_fts_data"
            " SET block = cast(substr(block, 1, 4) || x'8F52' || substr(block, 6) AS BLOB)"
            " WHERE id = 10"
        )
    db.close()
    with Database(data_dir) as again:
        assert found(again, "beta") == ["a.txt"]
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        add(again, tokenizer_id, "b.txt", "gamma")
        check_index(again)


def test_another_tokenizer_indexes_the_text_again(db: Database, tokenizer_id: int) -> None:
    other_id = db.tokenizers.ensure("other", "other")
    source_id, first = add(db, tokenizer_id, "a.txt", "one two three")
    assert db.sources.next_without_sequence(other_id) == source_id
    assert db.sources.next_without_sequence(other_id, after=source_id) is None
    second = db.sources.add_sequence(source_id, [8, 9], other_id)
    assert db.sources.next_without_sequence(other_id) is None
    assert shown_sequence_ids(db, tokenizer_id) == first
    assert [(i, ids.tolist()) for i, _, ids in db.sequences.all(other_id)] == [(second[0], [8, 9])]
    with pytest.raises(RecordExistsError):
        db.sources.add_sequence(source_id, [8, 9], other_id)
    with pytest.raises(RecordNotFoundError):
        db.sources.add_sequence(99, [8, 9], other_id)
    assert purge_documents(db, source_id) == first + second


@pytest.mark.parametrize(
    ("use", "growth"), [("next", 3), ("left", 3), ("deeper", 3), ("add", 1), ("of", 1)]
)
def test_no_document_is_looked_up_by_going_through_all_others(
    db: Database, tokenizer_id: int, use: str, growth: int
) -> None:
    """After an import of 42,000 files nothing was done in idle time any more, for each of them all
    sequences were gone through; counted in steps of SQLite's machine."""
    other_id = db.tokenizers.ensure("other", "other")
    uses: dict[str, Callable[[int], object]] = {
        "next": lambda _: db.sources.next_without_sequence(tokenizer_id),
        "add": lambda source_id: db.sources.add_sequence(source_id, [1], other_id),
        "of": lambda source_id: db.passages.sequences_of(source_id, tokenizer_id),
        "deeper": lambda _: db.deeper_readings.next("model", tokenizer_id),
        "left": lambda _: db.deeper_readings.num_tokens_left("model", tokenizer_id),
    }
    connection = db._connections._own().connection.conn
    connection.execute("PRAGMA synchronous = OFF")
    steps: list[int] = []
    for round_number in range(2):
        for number in range(300):
            source_id, _ = add(
                db, tokenizer_id, f"{round_number} {number}", f"{round_number} {number}"
            )
            db.deeper_readings.want(source_id)
        steps.append(0)

        def count_steps() -> None:
            steps[-1] += 1

        connection.set_progress_handler(count_steps, 10)
        uses[use](source_id)
        connection.set_progress_handler(None, 0)
    few, many = steps
    assert many <= growth * few + 10


def test_all_sequences_are_read_in_order_page_by_page(
    db: Database, tokenizer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.sequences.PAGE_LENGTH", 3)
    expected = [add(db, tokenizer_id, str(i), "word " * (i + 1))[1][0] for i in range(7)]
    sequences = list(db.sequences.all(tokenizer_id))
    assert [sequence_id for sequence_id, _, _ in sequences] == expected
    assert [len(ids) for _, _, ids in sequences] == [1, 2, 3, 4, 5, 6, 7]
    assert all(ids.dtype == np.int32 for _, _, ids in sequences)
    after = db.sequences.all(tokenizer_id, after=expected[4])
    assert [sequence_id for sequence_id, _, _ in after] == expected[5:]


def test_no_page_of_sequences_holds_more_tokens_than_memory_is_for(
    db: Database, tokenizer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred long documents were read in one go, with all their tokens."""
    monkeypatch.setattr("storage.sequences.PAGE_TOKENS", 5)
    lengths = [2, 3, 1, 9, 1, 5, 4]
    for number, length in enumerate(lengths):
        add(db, tokenizer_id, str(number), " ".join([str(number)] * length))
    read = db._connections.rows
    pages: list[list[int]] = []

    def watched(*arguments: Any) -> list[Row]:
        rows = read(*arguments)
        pages.append([len(row["token_ids"]) // 4 for row in rows if "token_ids" in row])
        return rows

    monkeypatch.setattr(db._connections, "rows", watched)
    assert [len(ids) for _, _, ids in db.sequences.all(tokenizer_id)] == lengths
    assert [page for page in pages if page] == [[2, 3], [1], [9], [1], [5], [4]]


def test_writing_goes_on_while_sequences_are_read(db: Database, tokenizer_id: int) -> None:
    add(db, tokenizer_id, "a", "one")
    reading = db.sequences.all(tokenizer_id)
    next(reading)
    source_id, _ = add(db, tokenizer_id, "b", "two")
    purge_documents(db, source_id)
    assert list(reading) == []


def test_unknown_sequences_are_told_as_such(db: Database) -> None:
    for use in (db.sequences.get, db.sequences.origin, db.sequences.token_ids):
        with pytest.raises(RecordNotFoundError, match="Sequence 5"):
            use(5)


def test_token_ids_survive_as_little_endian_int32() -> None:
    ids = [0, 1, 65_536, 2**31 - 1, -1]
    blob = pack_token_ids(ids)
    assert blob[:8] == b"\x00\x00\x00\x00\x01\x00\x00\x00"
    assert len(blob) == 20
    assert unpack_token_ids(blob).tolist() == ids
    assert unpack_token_ids(pack_token_ids([])).tolist() == []
    for beyond in (2**31, -(2**31) - 1):
        with pytest.raises(OverflowError):
            pack_token_ids([beyond])
