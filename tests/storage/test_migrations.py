"""A file of any earlier version, with rows in every table, is read by this one as it was."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage import DATABASE_NAME, Database
from storage.connections import Connections
from storage.migrations import MIGRATIONS
from storage.token_blobs import pack_token_ids
from tests.stored import purge_documents

TIME = "2026-01-02T03:04:05.000006+00:00"
IDS = pack_token_ids([5, 6])
DRAFT = {
    "token_ids": [4, 5],
    "parents": [-1, 0],
    "sources": ["model", "history"],
    "probabilities": [1, 0.5],
    "origins": [None, [2, 7]],
}
FIRST_ROWS = {  # columns of the first version: every later one must do without those it added
    "tokenizers": {"id": 1, "fingerprint": "print", "name": "name", "created_at": TIME},
    "conversations": {"id": 1, "title": "Old", "created_at": TIME, "updated_at": TIME},
    "messages": {
        "id": 1,
        "conversation_id": 1,
        "role": "assistant",
        "status": "complete",
        "text": "An answer",
        "token_ids": IDS,
        "tokenizer_id": 1,
        "created_at": TIME,
        "updated_at": TIME,
    },
    "sources": {
        "id": 2,
        "kind": "document",
        "name": "old.txt",
        "uri": "/old.txt",
        "sha256": "sha",
        "num_characters": 8,
        "pinned": 1,
        "created_at": TIME,
    },
    "document_texts": {"source_id": 2, "text": "old text"},
    "sequences": {
        "id": 2,
        "source_id": 2,
        "tokenizer_id": 1,
        "num_tokens": 2,
        "token_ids": IDS,
        "created_at": TIME,
    },
    "generations": {
        "id": 1,
        "message_id": 1,
        "reason": "end",
        "model": "m",
        "mode": "strict",
        "dtype": "bfloat16",
        "device": "cpu",
        "seed": str(2**64 - 1),
        "temperature": 0.5,
        **dict.fromkeys(
            (
                "prompt_length",
                "reused_length",
                "prefilled_length",
                "num_prefill_chunks",
                "num_steps",
                "num_tokens",
                "num_end_tokens",
                "num_cut_tokens",
                "num_drafted_tokens",
                "num_accepted_tokens",
                "prefill_seconds",
                "decode_seconds",
                "draft_seconds",
            ),
            3,
        ),
        "accepted_by_source": '{"history":1}',
    },
    "steps": {
        "generation_id": 1,
        "step_index": 0,
        "width": 2,
        "rows": 16,
        "accepted_length": 1,
        "match_length": 2,
        "token_ids": IDS,
        "accepted_nodes": "[1]",
        "draft": json.dumps(DRAFT),
        "seconds": 0.5,
        "draft_seconds": 0,
    },
    "successors": {"model_fingerprint": "model", "data": b"table", "updated_at": TIME},
    "facts": {"model_fingerprint": "model", "key": "k", "value": "v", "updated_at": TIME},
    "settings": {"key": "lookahead", "value": "true"},
}


@pytest.fixture(params=range(1, len(MIGRATIONS)), ids=lambda n: MIGRATIONS[n - 1].__name__)
def old_file(request: pytest.FixtureRequest, data_dir: Path) -> Path:
    """A file as the version with so many steps left it, written without any of our stores."""
    path = data_dir / DATABASE_NAME
    Connections(path, MIGRATIONS[: request.param]).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, row in FIRST_ROWS.items():
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values())
            )
    return path


def test_every_earlier_version_is_read_with_all_its_rows(old_file: Path) -> None:
    with Database(old_file.parent) as db:
        [conversation] = db.conversations.list()
        [message] = db.messages.list(conversation.id)
        assert (message.text, message.token_ids) == ("An answer", (5, 6))
        [source] = db.sources.list()
        assert (source.name, source.num_tokens, source.is_pinned) == ("old.txt", 2, True)
        assert db.sources.text(source.id) == "old text"
        assert [match.name for match in db.sources.search("text")] == ["old.txt"]
        assert [ids.tolist() for _, _, ids in db.sequences.all(1)] == [[5, 6]]
        generation = db.generations.for_message(message.id)
        assert generation is not None
        assert generation.id is not None
        assert (generation.accepted_by_source, generation.seed) == ({"history": 1}, 2**64 - 1)
        [step] = db.generations.list_steps(generation.id)
        assert (step.token_ids, step.draft.origins) == ((5, 6), (None, (2, 7)))
        assert step.text_lengths == (), "it was not recorded then"
        assert step.paused is False
        how = (generation.top_k, generation.top_p, generation.min_p, generation.repetition_penalty)
        assert how == (0, 1.0, 0.0, 1.0), "all off"
        assert db.tokenizers.ensure("print", "another name") == 1
        assert db.successors.load("model") == b"table"
        assert "facts" not in {name for name, _ in tables(db.path)}, "they are in the cache folder"
        assert db.settings.get("lookahead") is True
        assert db._connections.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert db._connections.rows("PRAGMA foreign_key_check") == []


def test_what_an_earlier_version_wrote_can_be_deleted_and_brought_back(old_file: Path) -> None:
    with Database(old_file.parent) as db:
        assert db.deletions.hide_documents([2]) == [2]
        assert db.sources.search("text") == []
        assert db.deletions.restore("document", [2]) == [2]
        assert db.conversations.delete(1) == []
        assert purge_documents(db, 2) == [2]
        assert db.erasures.finish(lambda _: True)
    assert b"old text" not in b"".join(
        path.read_bytes() for path in old_file.parent.rglob("*") if path.is_file()
    )
    copies = list((old_file.parent / "backups").iterdir())
    assert len(copies) == 1, "the copy stays, without what was deleted"


def test_a_file_of_an_earlier_version_is_copied_before_it_is_changed(old_file: Path) -> None:
    before = {name for name, _ in tables(old_file)}
    Database(old_file.parent).close()
    [copy] = (old_file.parent / "backups").iterdir()
    assert {name for name, _ in tables(copy)} == before
    with closing(sqlite3.connect(copy)) as connection:
        for table, row in FIRST_ROWS.items():
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] >= 1, row


def tables(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
