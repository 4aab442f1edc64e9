"""Starting again: what survives of chats and Trie, and how it is brought up to date."""

import sqlite3

import numpy as np
import pytest

from app.services import ServiceConfig
from lookahead.successors import SuccessorTable
from storage import Database, NewSequence
from tests.app.asking import Start, answered, prompt_text, wait_for
from tests.app.kept_trie import trie_statistics
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel


def test_chats_and_trie_are_there_after_a_restart(start: Start) -> None:
    service = start(ScriptedEngine())
    conversation_id = answered(service, "one")
    before = trie_statistics(service)
    service.close()
    again = start(ScriptedEngine())
    assert [message.text for message in again.messages(conversation_id)] == ["one", "It is Paris."]
    after = trie_statistics(again)
    assert after is not None
    assert before is not None
    assert (after.num_sequences, after.num_tokens) == (before.num_sequences, before.num_tokens)
    assert after.tail_length == 0, "the sealed segment was taken from the cache"


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_without_its_cache_the_trie_is_built_from_the_sequences(
    start: Start, config: ServiceConfig, harm: str
) -> None:
    service = start(ScriptedEngine())
    answered(service, "one")
    before = trie_statistics(service)
    service.close()
    path = config.cache_dir / "segments.db"
    if harm == "missing":
        path.unlink()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE segments SET data = ?", [b"lookahead"])
        connection.close()
    after = trie_statistics(start(ScriptedEngine()))
    assert after is not None
    assert before is not None
    assert (after.num_sequences, after.num_tokens) == (before.num_sequences, before.num_tokens)


def test_a_stale_cache_is_brought_up_to_date(start: Start, database: Database) -> None:
    service = start(ScriptedEngine())
    gone = answered(service, "gone")
    kept = answered(service, "kept")
    service.close()
    database.conversations.delete(gone)
    question = database.messages.add_user(kept, None, "more")
    answer = database.messages.start_answer(kept, question.id, tokenizer_id=1)
    database.messages.finish_answer(
        answer.id, text="a", token_ids=[1], status="complete", sequence=NewSequence(1, [1, 2, 3])
    )
    again = start(ScriptedEngine())
    trie = again._worker.bench.keeper.trie  # type: ignore[union-attr]
    assert trie.sequence_ids == set(database.sequences.ids(1))
    assert len(trie.sequence_ids) == 2


def test_interrupted_answers_are_kept_as_far_as_they_came(start: Start, database: Database) -> None:
    conversation = database.conversations.create("crashed")
    question = database.messages.add_user(conversation.id, None, "one")
    answer = database.messages.start_answer(conversation.id, question.id)
    database.messages.save_progress(answer.id, "It w", list(b"It w"))
    engine = ScriptedEngine()
    service = start(engine)
    assert [(m.text, m.status) for m in service.messages(conversation.id)] == [
        ("one", "complete"),
        ("It w", "stopped"),
    ]
    answered(service, "two", conversation.id)
    assert "assistant\nIt w\nuser\ntwo" in prompt_text(engine)


def test_successors_are_kept_per_model(start: Start, database: Database) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    answered(service, "one")
    learned = engine.requests[0].learned
    assert learned is not None
    learned.successors.update([65], np.arange(8, dtype=np.int32)[None])
    service.close()
    data = database.successors.load("scripted-model")
    assert data is not None
    assert SuccessorTable.from_bytes(data).successors(65) == list(range(8))
    for model, expected in (
        (ScriptedModel(), list(range(8))),
        (ScriptedModel(model_fingerprint="other"), []),
        (ScriptedModel(fingerprint="upgraded"), list(range(8))),
        (ScriptedModel(vocab_size=300), []),
    ):
        engine = ScriptedEngine(model=model)
        service = start(engine)
        answered(service, "again")
        assert engine.requests[0].learned is not None
        assert engine.requests[0].learned.successors.successors(65) == expected
        service.close()


def test_a_long_tail_is_sealed_and_saved_when_nothing_is_asked(
    start: Start, monkeypatch: pytest.MonkeyPatch, config: ServiceConfig, database: Database
) -> None:
    from app.services import worker
    from storage import SegmentCache

    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    service = start(ScriptedEngine("y" * 1100))
    for _ in range(3):
        answered(service, "x")
    wait_for(lambda: trie_statistics(service).tail_length == 0)
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    wait_for(lambda: cache.load(1) != [])
    assert all(content for _, content in cache.load(1)), "while the service goes on"
