"""Listing and deleting chats; what is deleted is gone from the disk too."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from storage import DATABASE_NAME, Database, Message, RecordNotFoundError
from storage.token_blobs import pack_token_ids

OWN_TABLES = ("conversations", "messages", "generations", "steps", "sequences", "sources")


def counts(db: Database) -> list[int]:
    rows = [db._connections.row(f"SELECT count(*) AS number FROM {t}") for t in OWN_TABLES]
    return [row["number"] for row in rows if row is not None]


def test_the_chat_with_the_latest_message_comes_first(
    db: Database, exchange: Callable[..., Message]
) -> None:
    first, second = db.conversations.create("First"), db.conversations.create("Second")
    assert db.conversations.list() == [second, first]
    exchange(first.id)
    assert [conversation.title for conversation in db.conversations.list()] == ["First", "Second"]


def test_times_are_aware_and_now(db: Database) -> None:
    created_at = db.conversations.create().created_at
    assert abs((datetime.now(UTC) - created_at).total_seconds()) < 60


def test_an_unknown_chat_is_told_as_such(db: Database) -> None:
    for use in (db.conversations.get, db.conversations.delete, db.messages.list):
        with pytest.raises(RecordNotFoundError, match="Chat 7"):
            use(7)


def test_deleting_a_chat_takes_all_that_came_of_it_and_nothing_else(
    db: Database, exchange: Callable[..., Message]
) -> None:
    kept = db.conversations.create("Kept")
    exchange(kept.id)
    tokenizer_id = db.tokenizers.ensure("tokenizer", "A tokenizer")
    db.sources.add_document(
        name="d", uri="d", sha256="d", text="document", token_ids=[1], tokenizer_id=tokenizer_id
    )
    before = counts(db)
    deleted = db.conversations.create("Deleted")
    first = exchange(deleted.id)
    exchange(deleted.id, parent_id=first.id)
    expected = db.sequences.for_conversation(deleted.id)
    assert len(expected) == 2
    assert db.conversations.delete(deleted.id) == expected
    assert counts(db) == before
    assert db.conversations.list() == [db.conversations.get(kept.id)]
    assert [kind for _, kind, _ in db.sequences.all(tokenizer_id)] == ["history", "document"]
    assert db.sources.search("document")


def test_a_long_chat_can_be_deleted(db: Database) -> None:
    """SQLite ends at 1,000 nested cascades: a parent that cascades makes long chats undeletable."""
    conversation = db.conversations.create()
    with db._connections.transaction() as connection:
        connection.conn.executemany(
            "INSERT INTO messages (id, conversation_id, parent_id, role, status, text, token_ids,"
            " created_at, updated_at) VALUES (?, ?, ?, 'user', 'complete', '', x'', '', '')",
            [(i, conversation.id, i - 1 if i > 1 else None) for i in range(1, 3001)],
        )
    db.conversations.delete(conversation.id)
    assert counts(db) == [0] * len(OWN_TABLES)


def test_ids_of_deleted_rows_never_come_back(
    db: Database, exchange: Callable[..., Message]
) -> None:
    conversation = db.conversations.create()
    answer = exchange(conversation.id)
    deleted_ids = db.conversations.delete(conversation.id)
    again = db.conversations.create()
    assert again.id > conversation.id
    assert exchange(again.id).id > answer.id
    assert min(db.sequences.for_conversation(again.id)) > max(deleted_ids)


def test_nothing_of_a_deleted_chat_stays_on_the_disk(
    db: Database, data_dir: Path, exchange: Callable[..., Message]
) -> None:
    secret, ids = "xylophone-quartz-91", np.arange(30_000, 30_400)
    conversation = db.conversations.create(f"About {secret}")
    exchange(conversation.id, f"Tell {secret}", f"No {secret}" * 500, token_ids=ids)
    needles = (secret.encode(), pack_token_ids(ids[50:60]))

    def on_disk() -> list[bool]:
        content = b"".join(path.read_bytes() for path in data_dir.iterdir())
        return [needle in content for needle in needles]

    assert on_disk() == [True, True]
    db.conversations.delete(conversation.id)
    assert on_disk() == [False, False]
    assert (data_dir / f"{DATABASE_NAME}-wal").stat().st_size == 0


def test_deleting_is_as_thorough_after_a_restart_and_from_any_thread(
    db: Database, data_dir: Path, exchange: Callable[..., Message]
) -> None:
    """Foreign keys are switched on per connection: one without would leave orphans behind."""
    conversation_ids = [exchange(db.conversations.create().id).conversation_id for _ in range(2)]
    with Database(data_dir) as again:
        again.conversations.delete(conversation_ids[0])
        with ThreadPoolExecutor(1) as pool:
            pool.submit(again.conversations.delete, conversation_ids[1]).result(30)
    assert counts(db) == [0] * len(OWN_TABLES)
