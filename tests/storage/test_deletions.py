"""Deleting: hidden at once, brought back by undo, and after that in no file any more."""

import json
import os
import re
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from storage import (
    DATABASE_NAME,
    ERASED_TOKEN_ID,
    Database,
    DraftRecord,
    GenerationRecord,
    Message,
    NewSequence,
    RecordExistsError,
    RecordNotFoundError,
    StepRecord,
    deletions,
    erasures,
)
from storage.erasures import Erasures
from storage.token_blobs import pack_token_ids
from tests.stored import purge_documents, shown_sequence_ids

WORDS = [f"zanzibar{number}" for number in range(300)]
SECRET_IDS = np.arange(30_000, 30_600)
SECRETS = re.compile(
    rb"anzibar"
    rb"|(?s:.[\x75-\x77]\0\0){3}"  # 29,952 to 30,719, as they are packed
    rb"|30[0-5]\d\d, ?30[0-5]\d\d"
)


@pytest.fixture
def tokenizer_id(db: Database) -> int:
    return db.tokenizers.ensure("tokenizer", "A tokenizer")


def add(db: Database, name: str, text: str, token_ids: object = (1, 2, 3)) -> int:
    source_id, _ = db.sources.add_document(
        name=name,
        uri=f"/docs/{name}",
        sha256=f"sha {zlib.crc32(text.encode())}",
        text=text,
        token_ids=token_ids,  # type: ignore[arg-type]
        tokenizer_id=db.tokenizers.ensure("tokenizer", "A tokenizer"),
    )
    return source_id


def later() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=1)


def purge(db: Database) -> list[int]:
    purged = db.deletions.purge(later())
    assert db.erasures.finish(lambda _: True)
    return purged


def traces(folder: Path) -> dict[str, int]:
    """How often the secret text, three packed secret ids, or two as JSON stand in each file."""
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = {name: len(SECRETS.findall(content)) for name, content in contents.items()}
    return {name: count for name, count in found.items() if count}


def test_a_deleted_document_is_seen_nowhere_and_undo_brings_all_of_it_back(
    db: Database, tokenizer_id: int
) -> None:
    source_id = add(db, "a.txt", "some words")
    kept_id = add(db, "b.txt", "other words")
    sequence_ids = shown_sequence_ids(db, tokenizer_id)

    def seen() -> list[object]:
        return [
            [source.id for source in db.sources.list()],
            [match.name for match in db.sources.search("words")],
            [sequence_id for sequence_id, _, _ in db.sequences.all(tokenizer_id)],
            shown_sequence_ids(db, tokenizer_id),
            sorted(db.sequences.origins(sequence_ids)),
            db.sources.find_by_uri("/docs/a.txt"),
            db.sources.find_by_sha256(f"sha {zlib.crc32(b'some words')}"),
            db.sources.next_without_sequence(99),
        ]

    before = seen()
    assert db.deletions.hide_documents([source_id]) == sequence_ids[:1]
    rest = sequence_ids[1:]
    assert seen() == [[kept_id], ["b.txt"], rest, rest, rest, None, None, kept_id]
    for use in (
        db.sources.get,
        db.sources.text,
        lambda i: db.deletions.hide_documents([kept_id, i]),
    ):
        with pytest.raises(RecordNotFoundError):
            use(source_id)
    for use_sequence in (db.sequences.get, db.sequences.token_ids, db.sequences.origin):
        with pytest.raises(RecordNotFoundError):
            use_sequence(sequence_ids[0])
    with pytest.raises(RecordNotFoundError):
        db.sources.add_sequence(source_id, [1], 99)
    [deletion] = db.deletions.list()
    assert (deletion.kind, deletion.ids, deletion.name) == ("document", (source_id,), "a.txt")
    assert db.deletions.restore("document", [source_id]) == sequence_ids[:1]
    assert seen() == before
    assert db.deletions.list() == []


def test_a_deleted_chat_is_seen_nowhere_and_undo_brings_all_of_it_back(
    db: Database, exchange: Callable[..., Message], tokenizer_id: int
) -> None:
    chat = db.conversations.create("A chat")
    answer = exchange(chat.id)
    half = db.messages.start_answer(chat.id, answer.id)
    db.messages.save_progress(half.id, "half", [1])
    before = db.messages.list(chat.id)
    sequence_ids = db.sequences.for_conversation(chat.id)
    assert db.deletions.hide_conversation(chat.id) == sequence_ids
    assert db.conversations.list() == []
    assert shown_sequence_ids(db, tokenizer_id) == db.sequences.for_conversation(chat.id) == []
    assert db.sequences.for_message(answer.id) is None
    for use in (
        lambda: db.conversations.get(chat.id),
        lambda: db.messages.list(chat.id),
        lambda: db.messages.get(answer.id),
        lambda: db.messages.add_user(chat.id, answer.id, "More?"),
        lambda: db.messages.start_answer(chat.id, answer.id),
        lambda: db.messages.save_progress(half.id, "more", [1, 2]),
        lambda: db.messages.finish_answer(half.id, text="", token_ids=[], status="complete"),
        lambda: db.deletions.hide_conversation(chat.id),
    ):
        with pytest.raises(RecordNotFoundError):
            use()
    [deletion] = db.deletions.list()
    assert (deletion.kind, deletion.ids, deletion.name) == ("conversation", (chat.id,), "A chat")
    assert db.deletions.restore("conversation", [chat.id]) == sequence_ids
    after = db.messages.list(chat.id)
    assert after[:-1] == before[:-1]
    assert (after[-1].status, after[-1].text) == ("stopped", "half"), "nobody writes it any more"


def test_only_what_was_deleted_long_enough_ago_is_purged(db: Database) -> None:
    first = add(db, "1.txt", "first")
    chat = db.conversations.create("chat").id
    db.deletions.hide_documents([first])
    between = datetime.now(UTC)
    second = add(db, "2.txt", "second")
    db.deletions.hide_documents([second])
    db.deletions.hide_conversation(chat)
    assert db.deletions.purge(between) == [1]
    assert [(d.kind, d.ids) for d in db.deletions.list()] == [
        ("conversation", (chat,)),
        ("document", (second,)),
    ]
    assert db.deletions.purge(later()) == [2]
    assert db.deletions.list() == []
    for kind, row_id in (("document", first), ("document", second), ("conversation", chat)):
        with pytest.raises(RecordNotFoundError, match="cannot be brought back"):
            db.deletions.restore(kind, [row_id])  # type: ignore[arg-type]


def test_much_is_purged_in_pieces_and_none_of_it_comes_back_after_the_first(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a gigabyte it was one transaction of twenty seconds; who saved a message gave up."""
    monkeypatch.setattr(deletions, "PIECES", {"conversation": 1, "document": 10})
    texts = ["a longer text than a piece is", *(f"text {number}" for number in range(5))]
    ids = [add(db, f"{text}.txt", text) for text in texts]
    chats = [db.conversations.create().id for _ in range(2)]
    for chat in chats:
        db.deletions.hide_conversation(chat)
    db.deletions.hide_documents(ids)
    late = add(db, "late.txt", "late")
    db.deletions.hide_documents([late])
    assert db.deletions.purge(later() - timedelta(days=1), 0.0) == []
    assert not db.deletions.are_under_way
    due = max(one.deleted_at for one in db.deletions.list() if one.ids == tuple(ids))
    assert [db.deletions.purge(due, 0.0) for _ in range(3)] == [[1], [2, 3], [4, 5]]
    assert db.deletions.are_under_way
    with pytest.raises(RecordNotFoundError, match="cannot be brought back"):
        db.deletions.restore("document", [*ids])
    assert db.deletions.purge(due, 0.0) == [6]
    assert not db.deletions.are_under_way
    assert [one.ids for one in db.deletions.list()] == [(late,)]


def test_a_purge_that_was_broken_off_is_gone_on_with(db: Database, data_dir: Path) -> None:
    ids = [add(db, f"{number}.txt", f"text {number}") for number in range(3)]
    db.deletions.hide_documents(ids)
    with db._connections.transaction() as connection:
        connection.execute("UPDATE sources SET deleted_at = ?", [deletions.GONE])
    db.close()
    with Database(data_dir) as again:
        assert again.deletions.are_under_way
        assert again.deletions.purge(datetime.now(UTC) - timedelta(seconds=300)) == [1, 2, 3]
        assert again.deletions.list() == []


def test_what_was_deleted_while_the_clock_was_ahead_is_purged_all_the_same(db: Database) -> None:
    """It was kept until the clock came to that day: ten years, where the day was wrong."""
    source_id = add(db, "a.txt", "alpha")
    conversation = db.conversations.create("Chat")
    db.deletions.hide_documents([source_id])
    db.deletions.hide_conversation(conversation.id)
    with db._connections.transaction() as connection:
        for table in ("sources", "conversations"):
            connection.execute(f"UPDATE {table} SET deleted_at = '2036-01-02T03:04:05+00:00'")
    assert db.deletions.purge(datetime.now(UTC) - timedelta(seconds=300)) == []
    [first, second] = db.deletions.list()
    assert max(first.deleted_at, second.deleted_at) <= datetime.now(UTC), "its time begins now"
    purge(db)
    assert db.deletions.list() == []


def test_what_was_deleted_one_after_the_other_comes_back_so_after_the_clock_was_ahead(
    db: Database,
) -> None:
    """Both began at the same time then, and bringing one back brought back the other."""
    sources = [add(db, name, name) for name in ("a.txt", "b.txt")]
    with db._connections.transaction() as connection:
        for year, source_id in zip((2036, 2037), sources, strict=True):
            connection.execute(
                "UPDATE sources SET deleted_at = ? WHERE id = ?",
                [f"{year}-01-02T03:04:05+00:00", source_id],
            )
    db.deletions.purge(datetime.now(UTC) - timedelta(seconds=300))
    assert [one.ids for one in db.deletions.list()] == [(sources[1],), (sources[0],)]


def test_what_is_deleted_at_one_time_comes_back_together_also_when_that_is_put_off(
    db: Database,
) -> None:
    times = [datetime.now(UTC) - timedelta(seconds=seconds) for seconds in (400, 0)]
    ids = [add(db, name, name) for name in ("a.txt", "b.txt", "c.txt")]
    kept = db.sources.get(ids[2])
    db.deletions.hide_versions(db.sources.get(ids[0]).uri, times[0])
    db.deletions.hide_content(db.sources.get(ids[1]).sha256 or "", times[0])
    assert db.sources.list() == [kept]
    assert db.deletions.put_off(*times) == 2
    assert db.deletions.put_off(*times) == 0
    assert db.deletions.purge(times[0]) == []
    [deletion] = db.deletions.list()
    assert (deletion.ids, deletion.deleted_at) == (tuple(ids[:2]), times[1])


def test_the_history_of_a_chat_is_no_document_to_be_deleted(
    db: Database, exchange: Callable[..., Message]
) -> None:
    exchange(db.conversations.create().id)
    with pytest.raises(RecordNotFoundError):
        db.deletions.hide_documents([1])


def test_a_document_can_be_imported_again_while_its_deletion_could_be_undone(
    db: Database, tokenizer_id: int
) -> None:
    source_id = add(db, "a.txt", "same")
    db.deletions.hide_documents([source_id])
    again = add(db, "a.txt", "same")
    with pytest.raises(RecordNotFoundError, match="imported again"):
        db.deletions.restore("document", [source_id])
    with pytest.raises(RecordExistsError):
        add(db, "b.txt", "same")
    assert [source.id for source in db.sources.list()] == [again]
    assert len(shown_sequence_ids(db, tokenizer_id)) == 1


def test_of_documents_that_cannot_be_deleted_together_the_missing_one_is_named(
    db: Database,
) -> None:
    """It was the first of all that was named, whichever was gone."""
    first, gone = add(db, "a.txt", "a"), add(db, "b.txt", "b")
    db.deletions.hide_documents([gone])
    with pytest.raises(RecordNotFoundError, match=f"Document {gone} "):
        db.deletions.hide_documents([first, gone])
    assert [source.id for source in db.sources.list()] == [first]


def test_the_history_of_a_deleted_chat_does_not_come_back_as_a_document(
    db: Database, exchange: Callable[..., Message], tokenizer_id: int
) -> None:
    """The chat stayed deleted, and its words were drafted from again."""
    chat = db.conversations.create().id
    exchange(chat)
    db.deletions.hide_conversation(chat)
    with pytest.raises(RecordNotFoundError):
        db.deletions.restore("document", [1])
    assert shown_sequence_ids(db, tokenizer_id) == []


def test_what_belongs_to_something_deleted_is_not_read_and_not_written(
    db: Database, exchange: Callable[..., Message], tokenizer_id: int
) -> None:
    kept, chat = db.conversations.create().id, db.conversations.create().id
    exchange(kept)
    before = db.generations.totals()
    assert before.num_answers == 1
    message_id = exchange(chat).id
    source_id = add(db, "a.txt", "a")
    db.passages.use(chat, True)
    db.passages.save(message_id, [(source_id, 0, 1)])
    db.deletions.hide_conversation(chat)
    db.deletions.hide_documents([source_id])
    assert db.generations.totals() == before
    assert db.passages.references(message_id) == []
    assert db.passages.quoted([message_id]) == {}
    assert db.passages.sequences_of(source_id, tokenizer_id) == []
    for call in (
        lambda: db.passages.are_used(chat),
        lambda: db.passages.use(chat, False),
        lambda: db.passages.save(message_id, []),
    ):
        with pytest.raises(RecordNotFoundError):
            call()
    db.deletions.restore("conversation", [chat])
    assert db.passages.are_used(chat)
    assert db.passages.references(message_id) == [(source_id, 0, 1)]


def test_documents_deleted_in_one_go_come_back_in_one_go(db: Database) -> None:
    ids = [add(db, f"{number}.txt", f"text {number}") for number in range(4)]
    assert db.deletions.hide_documents(ids[:3]) == [1, 2, 3]
    db.deletions.hide_documents(ids[3:])
    last, first = db.deletions.list()
    assert (first.ids, first.name, last.ids) == (tuple(ids[:3]), "0.txt", (ids[3],))
    add(db, "1.txt", "text 1")
    assert db.deletions.restore("document", first.ids) == [1, 3], "one was imported again"
    assert {source.name for source in db.sources.list()} == {"0.txt", "1.txt", "2.txt"}


def drafted_from(db: Database, sequence_id: int, conversation_id: int) -> int:
    """An answer of another chat, one of whose steps drafted from a sequence; its message id."""
    ids = [int(token_id) for token_id in SECRET_IDS[:5]]
    draft = DraftRecord(
        token_ids=(7, ids[0], ids[1], ids[2], 11, 12),
        parents=(-1, 0, 1, 2, 3, 0),
        sources=("model", *["document"] * 3, "recycled", "recycled"),
        probabilities=(1.0,) * 6,
        origins=(None, (sequence_id, 0), (sequence_id, 1), (sequence_id, 2), None, None),
    )
    step = StepRecord(0, 6, 16, 1, 3, (ids[0], 9), (1,), draft, 0.1, 0.1, (1, 1))
    started = db.messages.start_answer(conversation_id, None)
    db.messages.finish_answer(
        started.id,
        text="An answer",
        token_ids=[7, ids[0], 9],
        status="complete",
        generation=GenerationRecord("end", "m", "strict", "float32", "cpu"),
        steps=[
            step,
            replace(step, index=1, draft=replace(draft, token_ids=(7,) * 6, origins=(None,) * 6)),
        ],
    )
    return started.id


def steps_of(db: Database, message_id: int) -> list[StepRecord]:
    generation = db.generations.for_message(message_id)
    assert generation is not None
    assert generation.id is not None
    return db.generations.list_steps(generation.id)


def test_drafts_that_other_answers_recorded_lose_what_was_taken_from_it(db: Database) -> None:
    source_id = add(db, "secret.txt", "secret", SECRET_IDS)
    message_id = drafted_from(db, 1, db.conversations.create().id)
    before = steps_of(db, message_id)
    db.deletions.hide_documents([source_id])
    purge(db)
    erased, other = steps_of(db, message_id)
    gone = ERASED_TOKEN_ID
    assert erased.draft.token_ids == (7, 30_000, gone, gone, gone, 12), "accepted ones are its own"
    assert replace(erased, draft=before[0].draft) == before[0]
    assert other == before[1]


def test_a_draft_that_is_written_after_the_purge_loses_what_was_taken_from_it_too(
    db: Database,
) -> None:
    """An answer that had stood in memory, or another program's, brought the words back."""
    hidden, purged = add(db, "a.txt", "a", SECRET_IDS), add(db, "b.txt", "b", SECRET_IDS)
    db.deletions.hide_documents([purged])
    assert purge(db) == [2]
    db.deletions.hide_documents([hidden])
    chat = db.conversations.create().id
    gone = ERASED_TOKEN_ID
    kept, erased = (steps_of(db, drafted_from(db, number, chat))[0] for number in (1, 2))
    assert gone not in kept.draft.token_ids, "it can still be brought back"
    assert erased.draft.token_ids == (7, 30_000, gone, gone, gone, 12)
    assert erased.draft.origins[2] == (2, 1)


def test_the_secret_is_found_as_it_is_packed_and_as_it_stands_in_json() -> None:
    assert all(SECRETS.search(pack_token_ids(SECRET_IDS[at : at + 3])) for at in range(598))
    assert all(
        SECRETS.search(json.dumps(SECRET_IDS[at : at + 2].tolist()).encode()) for at in range(599)
    )


@pytest.mark.parametrize("is_at_once", [False, True], ids=["after the undo time", "at once"])
def test_nothing_of_a_deleted_document_stays_in_any_file(
    db: Database, data_dir: Path, is_at_once: bool
) -> None:
    chat = db.conversations.create()
    rng = np.random.default_rng(0)
    for number in range(30):  # so that pages are shared, split and joined
        add(db, f"{number}.txt", f"plain {number} " * int(rng.integers(9_000)), [1] * 2_000)
    source_id = add(db, "zanzibar.txt", " ".join(WORDS), SECRET_IDS)
    [sequence_id] = db._connections.rows("SELECT max(id) AS id FROM sequences")
    message_id = drafted_from(db, sequence_id["id"], chat.id)
    back_up(data_dir)
    (data_dir / "backups" / "lookahead-chat-before-x.partial").write_bytes(b"zanzibar")
    assert len(traces(data_dir)) == 3, "the log and two copies"
    for number in (3, 17, 29):
        purge_documents(db, number + 1)
    if is_at_once:
        purge_documents(db, source_id)
        assert db.erasures.finish(lambda _: True)
    else:
        db.deletions.hide_documents([source_id])
        assert traces(data_dir)
        purge(db)
    assert traces(data_dir) == {}
    assert not db.erasures.are_pending
    assert steps_of(db, message_id)[0].draft.token_ids[2] == ERASED_TOKEN_ID
    assert len(list((data_dir / "backups").iterdir())) == 1, "the copy stays, without it"


def back_up(data_dir: Path) -> Path:
    folder = data_dir / "backups"
    folder.mkdir(exist_ok=True)
    path = folder / "lookahead-chat-before-m9001_x.db"
    with (
        closing(sqlite3.connect(data_dir / DATABASE_NAME)) as source,
        closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)
    return path


def test_nothing_of_a_purged_chat_stays_in_any_file(db: Database, data_dir: Path) -> None:
    other = db.conversations.create("Other")
    chat = db.conversations.create("About zanzibar")
    user = db.messages.add_user(chat.id, None, " ".join(WORDS))
    answer = db.messages.start_answer(chat.id, user.id)
    db.messages.finish_answer(
        answer.id,
        text=" ".join(WORDS[::-1]),
        token_ids=SECRET_IDS,
        status="complete",
        sequence=NewSequence(db.tokenizers.ensure("t", "t"), SECRET_IDS),
    )
    [sequence_id] = db.sequences.for_conversation(chat.id)
    drafted_from(db, sequence_id, other.id)
    drafted_from(db, sequence_id, chat.id)
    back_up(data_dir)
    db.deletions.hide_conversation(chat.id)
    assert purge(db) == [sequence_id]
    assert traces(data_dir) == {}
    assert [c.title for c in db.conversations.list()] == ["Other"]


def test_a_copy_that_cannot_be_cleared_is_removed(db: Database, data_dir: Path) -> None:
    source_id = add(db, "zanzibar.txt", " ".join(WORDS), SECRET_IDS)
    path = back_up(data_dir)
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)
    db.deletions.hide_documents([source_id])
    purge(db)
    assert not path.exists()
    assert traces(data_dir) == {}


def test_a_copy_of_another_database_is_left_as_it_is(
    db: Database, data_dir: Path, tmp_path: Path
) -> None:
    with Database(tmp_path / "other") as other:
        add(other, "mine.txt", "words of another one")
        path = back_up(tmp_path / "other")
    (data_dir / "backups").mkdir()
    path = path.rename(data_dir / "backups" / path.name)
    purge_documents(db, add(db, "a.txt", "a"))
    assert db.erasures.finish(lambda _: True)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sources").fetchone() == (1,)


def test_what_could_not_be_erased_is_tried_again(
    db: Database, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_id = add(db, "zanzibar.txt", " ".join(WORDS), SECRET_IDS)
    asked: list[int] = []

    def refuse(tokenizer_id: int) -> bool:
        asked.append(tokenizer_id)
        return False

    db.deletions.hide_documents([source_id])
    db.deletions.purge(later())
    assert not db.erasures.finish(refuse), "the index could not be written"
    assert asked == [1]
    assert db.erasures.are_pending
    with closing(sqlite3.connect(data_dir / DATABASE_NAME, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sources").fetchall()
        db.conversations.create()
        assert not db.erasures.finish(lambda _: True), "somebody reads what stood there before"
    db.close()
    with Database(data_dir) as again:
        assert again.erasures.are_pending
        assert again.erasures.finish(lambda _: True)
        assert not again.erasures.are_pending


def test_words_of_a_version_replaced_by_an_import_that_was_killed_go_later(
    db: Database, data_dir: Path
) -> None:
    """The search index kept them where the program ended before the import did."""
    add(db, "a.txt", " ".join(WORDS), SECRET_IDS)
    add(db, "a.txt", "replaced")
    db.close()
    with Database(data_dir) as again:
        assert again.erasures.finish(lambda _: True)
    assert traces(data_dir) == {}


def test_looking_for_drafts_goes_on_behind_the_first_page(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "PAGE_LENGTH", 3)
    source_id = add(db, "secret.txt", "secret", SECRET_IDS)
    chat = db.conversations.create().id
    message_ids = [drafted_from(db, 1, chat) for _ in range(5)]
    purge_documents(db, source_id)
    assert db.erasures.finish(lambda _: True)
    assert [steps_of(db, i)[0].draft.token_ids[3] for i in message_ids] == [ERASED_TOKEN_ID] * 5


def test_nothing_is_done_where_nothing_was_deleted(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Erasures, "_erase_drafts", None)
    add(db, "a.txt", "a")
    assert db.deletions.purge(later()) == []
    assert db.erasures.finish(lambda _: os.abort())  # type: ignore[arg-type, return-value]
