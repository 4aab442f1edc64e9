"""Another model with another tokenizer, and back: each has its own Trie, and texts go to both."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.services import ChatService, ServiceConfig
from storage import Database, DatabaseBusyError
from storage.sources import Sources
from tests.app.asking import WAIT, Start, answered, wait_for
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel

Segments = list[tuple[object, ...]]


def other_model() -> ScriptedEngine:
    return ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint="other"))


def imported(service: ChatService, folder: Path, name: str) -> None:
    (folder / name).write_text(f"All that is known about {name}. " * 20)
    assert service.import_paths([folder / name]).wait_until_over(WAIT).num_documents == 1


def cached(config: ServiceConfig, tokenizer_id: int) -> Segments:
    """The segments of a tokenizer as they stand in the cache."""
    with closing(sqlite3.connect(config.cache_dir / "segments.db")) as connection:
        return connection.execute(
            "SELECT name, created_at, data FROM segments WHERE tokenizer_id = ? ORDER BY name",
            [tokenizer_id],
        ).fetchall()


def held(service: ChatService) -> frozenset[int]:
    bench = service._worker.bench
    assert bench is not None
    return bench.keeper.trie.sequence_ids


def rows(database: Database, tokenizer_id: int) -> dict[int, bytes]:
    return {i: ids.tobytes() for i, _, ids in database.sequences.all(tokenizer_id)}


def test_the_first_trie_is_untouched_by_a_switch_and_back(
    start: Start, config: ServiceConfig, database: Database, tmp_path: Path
) -> None:
    first = start(ScriptedEngine())
    imported(first, tmp_path, "a.txt")
    answered(first, "one")
    first.close()
    segments, sequences = cached(config, 1), rows(database, 1)
    assert segments
    second = start(other_model())
    wait_for(lambda: len(rows(database, 2)) == 1)
    answered(second, "two")
    second.close()
    assert (cached(config, 1), rows(database, 1)) == (segments, sequences)
    assert len(cached(config, 2)) >= 1
    assert len(rows(database, 2)) == 2, "the document, and what was said with it"
    again = start(ScriptedEngine())
    assert held(again) == frozenset(sequences)
    again.close()
    assert cached(config, 1) == segments, "nothing had to be sorted anew"


def test_what_was_imported_meanwhile_is_indexed_in_the_background(
    start: Start, config: ServiceConfig, database: Database, tmp_path: Path
) -> None:
    second = start(other_model())
    imported(second, tmp_path, "b.txt")
    second.close()
    first = start(ScriptedEngine())
    tokenizer_id = first._worker.bench.tokenizer_id  # type: ignore[union-attr]
    wait_for(lambda: held(first) == frozenset(rows(database, tokenizer_id)) != frozenset())
    answered(first, "one")
    assert len(database.sources.list()) == 1


def test_an_earlier_answer_of_another_tokenizer_is_read_as_text(
    start: Start, database: Database
) -> None:
    conversation_id = answered(start(ScriptedEngine()), "one")
    engine = other_model()
    answered(start(engine), "two", conversation_id)
    prompt = bytes(i for i in engine.requests[-1].prompt_ids if i < 256)
    assert b"It is Paris." in prompt


def test_deleting_takes_a_document_out_of_the_tries_of_all_tokenizers(
    start: Start, config: ServiceConfig, database: Database, tmp_path: Path
) -> None:
    first = start(ScriptedEngine())
    imported(first, tmp_path, "a.txt")
    first.close()
    second = start(other_model())
    wait_for(lambda: len(rows(database, 2)) == 1)
    second.delete_document(second.documents()[0].id)
    assert (rows(database, 1), rows(database, 2)) == ({}, {})
    second.undo("document", second.recent_deletions()[0].ids)
    second.close()
    assert len(held(start(ScriptedEngine()))) == 1


def test_a_document_whose_tokens_could_not_be_saved_is_indexed_later(
    start: Start,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was passed over until the next start."""
    first = start(ScriptedEngine())
    imported(first, tmp_path, "a.txt")
    first.close()

    def busy(*_: object) -> list[int]:
        raise DatabaseBusyError("Another program is holding the file.")

    with monkeypatch.context() as patch:
        patch.setattr(Sources, "add_sequence", busy)
        second = start(other_model())
        wait_for(lambda: "could not be indexed" in caplog.text)
    assert rows(database, 2) == {}
    second._worker.request_idle_work()
    wait_for(lambda: len(rows(database, 2)) == 1)
    assert [*rows(database, 2).values()] == [*rows(database, 1).values()], "the whole document"


def test_a_document_that_is_brought_back_is_indexed(
    start: Start, database: Database, tmp_path: Path
) -> None:
    """Those behind it had been indexed meanwhile, and nobody looked at it again."""
    first = start(ScriptedEngine())
    for name in ("a.txt", "b.txt"):
        imported(first, tmp_path, name)
    deleted = min(source.id for source in first.documents())
    first.delete_document(deleted)
    first.close()
    second = start(other_model())
    wait_for(lambda: len(rows(database, 2)) == 1)
    second.undo("document", [deleted])
    wait_for(lambda: len(rows(database, 2)) == 2)
    assert {*rows(database, 2).values()} == {*rows(database, 1).values()}, "each whole, and once"
