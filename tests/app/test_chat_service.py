"""The chat service: what is saved, what is stopped, what is learned, and what survives."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from app.prompting import MessageTooLongError
from app.services import AnswerOptions, ChatService, ServiceConfig, answering
from app.services.errors import (
    AnswerFailedError,
    BusyError,
    EngineNotReadyError,
    NothingToAnswerError,
    ServiceClosedError,
)
from lookahead.successors import SuccessorTable
from storage import Database, DatabaseFullError, NewSequence, RecordNotFoundError
from storage.messages import Messages
from tests.app.scripted_engine import END, ByteTokenizer, ScriptedEngine, ScriptedModel

OPTIONS = AnswerOptions()
WAIT = 20.0

Start = Callable[..., ChatService]


@pytest.fixture
def config(tmp_path: Path) -> ServiceConfig:
    return ServiceConfig(tmp_path / "data", tmp_path / "cache", model="scripted")


@pytest.fixture
def start(config: ServiceConfig) -> Iterator[Start]:
    """Start a service on the same folders; all are closed at the end."""
    services = []

    def start(engine: ScriptedEngine, *, is_ready: bool = True) -> ChatService:
        services.append(service := ChatService(config, engine=engine))
        service.start()
        if is_ready:
            assert service.wait_until_ready(WAIT).is_ready
        return service

    yield start
    for service in services:
        service.close()


@pytest.fixture
def database(config: ServiceConfig) -> Iterator[Database]:
    """Another view of the database that the services write."""
    with Database(config.data_dir) as database:
        yield database


def answered(service: ChatService, text: str, conversation_id: int | None = None) -> int:
    """Ask, wait, and return the conversation."""
    job = service.ask(conversation_id, text, OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == "complete", snapshot
    return job.conversation_id


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def prompt_text(engine: ScriptedEngine, index: int = -1) -> str:
    return ByteTokenizer().decode(list(engine.requests[index].prompt_ids))


# ------------------------------------------------------------------------------- asking and saving


def test_an_answer_is_saved_with_its_numbers_steps_and_history(
    start: Start, database: Database
) -> None:
    service = start(ScriptedEngine("It is Paris."))
    conversation_id = answered(service, "What is the capital of France?")
    question, answer = service.messages(conversation_id)
    assert (question.role, question.text) == ("user", "What is the capital of France?")
    assert (answer.role, answer.text, answer.status) == ("assistant", "It is Paris.", "complete")
    assert answer.numbers is not None
    assert (answer.numbers.num_tokens, answer.numbers.reason) == (12, "end")

    generation = database.generations.for_message(answer.id)
    assert generation is not None
    assert generation.id is not None
    assert (generation.model, generation.dtype, generation.mode) == (
        "scripted",
        "float64",
        "strict",
    )
    steps = database.generations.list_steps(generation.id)
    assert len(steps) == generation.num_steps == 6
    assert [step.index for step in steps] == list(range(6))
    assert sum(step.accepted_length + 1 for step in steps) + 1 == 12
    assert steps[0].draft.origins == (None, 3, None), "nothing stands at position 0 of the Trie yet"

    (sequence_id,) = database.sequences.for_conversation(conversation_id)
    history = bytes(i for i in database.sequences.token_ids(sequence_id).tolist() if i < 256)
    assert history.decode() == "user\nWhat is the capital of France?\nassistant\nIt is Paris."
    assert database.sequences.origin(sequence_id).message_id == answer.id
    statistics = service.trie_statistics()
    assert statistics is not None
    assert (statistics.num_sequences, statistics.num_tokens) == (1, len(history) + 3)


def test_drafted_tokens_are_traced_to_the_sequence_they_came_from(
    start: Start, database: Database
) -> None:
    service = start(ScriptedEngine())
    first = answered(service, "one")
    second = answered(service, "two")
    (sequence_id,) = database.sequences.for_conversation(first)
    generation = database.generations.for_message(service.messages(second)[1].id)
    assert generation is not None
    assert generation.id is not None
    assert database.generations.list_steps(generation.id)[0].draft.origins == (
        *(None, 3),
        (sequence_id, 0),
    )


def test_the_question_is_saved_before_anything_is_generated(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    job = service.ask(None, "Are you there?", OPTIONS)
    assert job.snapshot().status == "queued"
    question, answer = database.messages.list(job.conversation_id)
    assert (question.text, answer.status) == ("Are you there?", "streaming")
    assert engine.loading is not None
    engine.loading.set()
    assert job.wait_until_over(WAIT).text == "It is Paris."


def test_the_answer_is_shown_and_saved_as_it_grows(
    start: Start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SAVE_SECONDS", 0.0)
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    job = start(engine).ask(None, "spell", OPTIONS)
    snapshot = job.wait_for_change(0, WAIT)
    for expected in ("abc", "abcde"):
        engine.gate.release()  # type: ignore[union-attr]
        while snapshot.text != expected:
            snapshot = job.wait_for_change(snapshot.version, WAIT)
        assert snapshot.status == "decoding"
        assert snapshot.numbers is not None
        assert (snapshot.numbers.num_tokens, len(snapshot.steps)) == (
            len(expected),
            snapshot.numbers.num_steps,
        )
        wait_for(lambda text=expected: database.messages.get(job.message_id).text == text)
    assert bytes(database.messages.get(job.message_id).token_ids) == b"abcde"
    engine.gate.release(9)  # type: ignore[union-attr]
    assert job.wait_until_over(WAIT).text == "abcdefgh"


def test_streamed_text_never_holds_half_a_character(start: Start) -> None:
    text = "Ünï 東京 🎉 e\u0301"
    engine = ScriptedEngine(text, gate=threading.Semaphore(0))
    job = start(engine).ask(None, "x", OPTIONS)
    shown = {""}
    while not (snapshot := job.snapshot()).is_over:
        shown.add(snapshot.text)
        engine.gate.release()  # type: ignore[union-attr]
        job.wait_for_change(snapshot.version, 0.05)
    assert all(text.startswith(part) for part in shown)
    assert job.snapshot().text == text


def test_the_next_turn_reads_only_what_is_new(start: Start) -> None:
    engine = ScriptedEngine([0, END, 65])  # what no text would give when tokenized again
    service = start(engine)
    conversation_id = answered(service, "one")
    job = service.ask(conversation_id, "two", OPTIONS)
    numbers = job.wait_until_over(WAIT).numbers
    first, second = engine.requests
    beginning = (*first.prompt_ids, 0, END, 65)
    assert tuple(second.prompt_ids[: len(beginning)]) == beginning
    assert numbers is not None
    assert numbers.reused_length == len(beginning)
    assert numbers.prefilled_length == len("\x00\nuser\ntwo\x00\n\x00assistant\n") + 1
    assert second.masked_sequence_ids == {1}
    assert second.trie is not None


def test_an_answer_begun_while_the_model_loads_is_spliced_in_too(start: Start) -> None:
    engine = ScriptedEngine([0, END, 65], loading=threading.Event())
    service = start(engine, is_ready=False)
    job = service.ask(None, "one", OPTIONS)
    engine.loading.set()  # type: ignore[union-attr]
    job.wait_until_over(WAIT)
    answered(service, "two", job.conversation_id)
    first, second = engine.requests
    assert tuple(second.prompt_ids[: len(first.prompt_ids) + 3]) == (*first.prompt_ids, 0, END, 65)


def test_answers_of_another_tokenizer_are_tokenized_again(start: Start) -> None:
    service = start(ScriptedEngine("old"))
    conversation_id = answered(service, "one")
    service.close()
    engine = ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint="another"))
    other = start(engine)
    assert other.trie_statistics().num_sequences == 0  # type: ignore[union-attr]
    answered(other, "two", conversation_id)
    assert "assistant\nold\nuser\ntwo" in prompt_text(engine)


def test_without_lookahead_nothing_is_drafted(start: Start) -> None:
    engine = ScriptedEngine()
    job = start(engine).ask(None, "x", AnswerOptions(lookahead=False, temperature=0.5, seed=7))
    job.wait_until_over(WAIT)
    (request,) = engine.requests
    assert (request.trie, request.successors) == (None, None)
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 7)


def test_regenerating_keeps_the_earlier_answer_beside_the_new_one(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("first")
    service = start(engine)
    conversation_id = answered(service, "question")
    earlier = service.messages(conversation_id)[1]
    engine.answer = "second"
    service.regenerate(conversation_id, OPTIONS).wait_until_over(WAIT)
    question, answer = service.messages(conversation_id)
    assert answer.text == "second"
    first = database.messages.get(earlier.id)
    assert (first.text, first.parent_id) == ("first", question.id)
    assert engine.requests[0].prompt_ids == engine.requests[1].prompt_ids


def test_what_cannot_be_asked_says_why(start: Start) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    service = start(engine)
    with pytest.raises(NothingToAnswerError):
        service.ask(None, " \n", OPTIONS)
    with pytest.raises(RecordNotFoundError):
        service.ask(99, "hello", OPTIONS)
    job = service.ask(None, "x", OPTIONS)
    assert service.running_job(job.conversation_id) is job
    for again in (
        lambda: service.ask(job.conversation_id, "y", OPTIONS),
        lambda: service.regenerate(job.conversation_id, OPTIONS),
    ):
        with pytest.raises(BusyError):
            again()
    engine.gate.release(99)  # type: ignore[union-attr]
    job.wait_until_over(WAIT)
    assert service.running_job(job.conversation_id) is None


def test_a_chat_is_named_after_its_first_question(start: Start) -> None:
    service = start(ScriptedEngine())
    answered(service, "  Why is   the sky blue\nand not green? ")
    answered(service, "word " * 40)
    long, short = service.conversations()
    assert short.title == "Why is the sky blue"
    assert long.title.endswith("word…")
    assert len(long.title) <= 60


# ------------------------------------------------------------------------- stopping and failing


def test_stop_ends_the_answer_within_one_step_and_keeps_it(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    engine.gate.release()  # type: ignore[union-attr]
    wait_for(lambda: job.snapshot().text == "abc")
    job.stop()
    engine.gate.release()  # type: ignore[union-attr]
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.text, engine.num_steps) == ("stopped", "abc", 1)
    message = database.messages.get(job.message_id)
    assert (message.status, message.text, bytes(message.token_ids)) == ("stopped", "abc", b"abc")
    engine.gate.release(99)  # type: ignore[union-attr]
    answered(service, "next", job.conversation_id)
    assert "assistant\nabc\nuser\nnext" in prompt_text(engine)


def test_a_waiting_answer_is_stopped_at_once(start: Start, database: Database) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    service = start(engine)
    running = service.ask(None, "one", OPTIONS)
    wait_for(lambda: running.snapshot().status == "decoding")
    waiting = service.ask(None, "two", OPTIONS)
    waiting.stop()
    assert waiting.snapshot().status == "stopped"
    assert database.messages.get(waiting.message_id).status == "stopped"
    assert not running.snapshot().is_over
    engine.gate.release(99)  # type: ignore[union-attr]
    running.wait_until_over(WAIT)
    assert len(engine.requests) == 1


def test_a_question_that_was_not_answered_is_left_out_of_the_next_prompt(start: Start) -> None:
    engine = ScriptedEngine(ValueError("broken"))
    service = start(engine)
    job = service.ask(None, "unlucky", OPTIONS)
    assert job.wait_until_over(WAIT).status == "failed"
    engine.answer = "fine"
    answered(service, "lucky", job.conversation_id)
    assert "unlucky" not in prompt_text(engine)
    assert "lucky" in prompt_text(engine)


def test_a_failing_answer_is_told_in_a_sentence_and_the_next_one_is_answered(
    start: Start, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine(ValueError("the secret detail"))
    service = start(engine)
    job = service.ask(None, "my private question", OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == "failed"
    assert snapshot.error == (
        "The model failed on this answer (ValueError). The log has the details."
    )
    message = database.messages.get(job.message_id)
    assert (message.status, message.error) == ("failed", snapshot.error)
    assert service.messages(job.conversation_id)[1].error == snapshot.error
    assert "the secret detail" in caplog.text
    assert "private question" not in caplog.text
    engine.answer = "better"
    answered(service, "again")


def test_an_answer_whose_forward_fails_keeps_what_was_said(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("abcdefgh", error_after_steps=2)
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.text) == ("failed", "abcde")
    message = database.messages.get(job.message_id)
    assert (message.status, message.text, message.token_ids) == ("failed", "abcde", (*b"abcde",))
    assert database.sequences.ids(1) == [], "it is no history"
    assert engine.requests[0].session.is_closed  # type: ignore[attr-defined]
    engine.error_after_steps = None
    answered(service, "again", job.conversation_id)
    assert engine.requests[1].session is not engine.requests[0].session


def test_running_out_of_memory_is_told_as_such(start: Start) -> None:
    job = start(ScriptedEngine(MemoryError())).ask(None, "x", OPTIONS)
    assert "memory ran out" in job.wait_until_over(WAIT).error


def test_a_full_disk_is_told_and_the_question_stays(
    start: Start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseFullError("No space is left.")

    service = start(ScriptedEngine())
    monkeypatch.setattr(Messages, "finish_answer", fail)
    job = service.ask(None, "x", OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.error) == ("failed", "No space is left.")
    assert snapshot.text == "It is Paris."
    assert database.messages.list(job.conversation_id)[0].text == "x"
    assert service.trie_statistics().num_sequences == 0  # type: ignore[union-attr]


def test_a_model_that_cannot_be_loaded_leaves_the_chats_open(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine(load_error=OSError("no such model"), loading=threading.Event())
    service = start(engine, is_ready=False)
    early = service.ask(None, "early", OPTIONS)
    engine.loading.set()  # type: ignore[union-attr]
    state = service.wait_until_ready(WAIT)
    assert (state.status, "could not be loaded" in state.detail) == ("failed", True)
    early.wait_until_over(WAIT)
    late = service.ask(early.conversation_id, "late", OPTIONS)
    for job in (early, late):
        assert job.wait_until_over(WAIT).error == state.detail
    texts = [message.text for message in database.messages.list(early.conversation_id)]
    assert texts == ["early", "", "late", ""]
    with pytest.raises(EngineNotReadyError):
        service.complete([{"role": "user", "content": "x"}], OPTIONS)


def test_a_message_that_cannot_fit_is_refused_and_stays_saved(start: Start) -> None:
    service = start(ScriptedEngine(model=ScriptedModel(context_length=200)))
    job = service.ask(None, "long " * 100, OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == "failed"
    assert "the model can read 175 at once" in snapshot.error
    assert service.messages(job.conversation_id)[0].text == "long " * 100
    assert service.ask(job.conversation_id, "short", OPTIONS).wait_until_over(WAIT).text


def test_turns_that_no_longer_fit_are_left_out_and_the_snapshot_says_so(start: Start) -> None:
    engine = ScriptedEngine("y" * 60, model=ScriptedModel(context_length=240))
    service = start(engine)
    conversation_id = answered(service, "first")
    answered(service, "second", conversation_id)
    job = service.ask(conversation_id, "third", OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.notice == (
        "The context is full: the oldest question with its answer could not be read any more."
    )
    assert "first" not in prompt_text(engine)
    assert len(service.messages(conversation_id)) == 6


# ------------------------------------------------------------------------- deleting and closing


def test_deleting_a_chat_forgets_its_words(start: Start, database: Database) -> None:
    service = start(ScriptedEngine())
    kept = answered(service, "kept")
    gone = answered(service, "gone")
    service.delete_conversation(gone)
    assert [conversation.id for conversation in service.conversations()] == [kept]
    assert service.trie_statistics().num_sequences == 1  # type: ignore[union-attr]
    with pytest.raises(RecordNotFoundError):
        service.delete_conversation(gone)


def test_deleting_a_chat_that_is_being_answered_stops_it_and_saves_nothing(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    wait_for(lambda: job.snapshot().status == "decoding")
    service.delete_conversation(job.conversation_id)
    engine.gate.release(99)  # type: ignore[union-attr]
    assert job.wait_until_over(WAIT).status == "stopped"
    assert service.conversations() == []
    assert list(database.sequences.all(1)) == []
    assert service.trie_statistics().num_sequences == 0  # type: ignore[union-attr]
    session = engine.requests[0].session
    wait_for(lambda: session.is_closed)  # type: ignore[attr-defined]
    answered(service, "still alive")


def test_a_chat_that_cannot_be_deleted_goes_on(
    start: Start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was given up before the deletion failed, and stayed "streaming" for good."""
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    wait_for(lambda: job.snapshot().status == "decoding")

    def full(_: int) -> list[int]:
        raise DatabaseFullError("No space is left.")

    monkeypatch.setattr(service._database.conversations, "delete", full)
    with pytest.raises(DatabaseFullError):
        service.delete_conversation(job.conversation_id)
    assert service.running_job(job.conversation_id) is job
    engine.gate.release(99)  # type: ignore[union-attr]
    assert job.wait_until_over(WAIT).status == "complete"
    assert database.messages.get(job.message_id).text == "abcdefgh"


def test_closing_stops_what_runs_and_keeps_what_was_said(start: Start, database: Database) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(1))
    service = start(engine)
    running = service.ask(None, "one", OPTIONS)
    wait_for(lambda: running.snapshot().text == "abc")
    waiting = service.ask(None, "two", OPTIONS)
    closing = threading.Thread(target=service.close)
    closing.start()
    wait_for(lambda: running.is_stopped)
    engine.gate.release()  # type: ignore[union-attr]
    closing.join(WAIT)
    service.close()
    assert (running.snapshot().status, running.snapshot().text) == ("stopped", "abc")
    assert waiting.snapshot().status == "stopped"
    assert [database.messages.get(job.message_id).status for job in (running, waiting)] == [
        *("stopped", "stopped"),
    ]
    with pytest.raises(ServiceClosedError):
        service.ask(None, "three", OPTIONS)


def test_closing_breaks_off_the_loading(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    job = service.ask(None, "one", OPTIONS)
    wait_for(lambda: bool(engine.configs))
    closing = threading.Thread(target=service.close)
    closing.start()
    assert job.wait_until_over(WAIT).status == "stopped"
    engine.loading.set()  # type: ignore[union-attr]
    closing.join(WAIT)
    assert not service.state.is_ready
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_few_sessions_are_kept_and_the_oldest_is_given_back(start: Start) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    for number in range(6):
        answered(service, f"question {number}")
    assert [request.session.is_closed for request in engine.requests] == [  # type: ignore[attr-defined]
        *(True, True),
        *(False,) * 4,
    ]


# --------------------------------------------------------------------------------- starting again


def test_chats_and_trie_are_there_after_a_restart(start: Start) -> None:
    service = start(ScriptedEngine())
    conversation_id = answered(service, "one")
    before = service.trie_statistics()
    service.close()
    again = start(ScriptedEngine())
    assert [message.text for message in again.messages(conversation_id)] == ["one", "It is Paris."]
    after = again.trie_statistics()
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
    before = service.trie_statistics()
    service.close()
    path = config.cache_dir / "segments.db"
    if harm == "missing":
        path.unlink()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE segments SET data = ?, sha256 = ''", [b"lookahead"])
        connection.close()
    after = start(ScriptedEngine()).trie_statistics()
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
    table = engine.requests[0].successors
    assert table is not None
    table.update([65], np.arange(8, dtype=np.int32)[None])
    service.close()
    data = database.successors.load("scripted-model")
    assert data is not None
    assert SuccessorTable.from_bytes(data).successors(65) == list(range(8))
    for model, expected in (
        (ScriptedModel(), list(range(8))),
        (ScriptedModel(fingerprint="other"), [-1] * 8),
        (ScriptedModel(vocab_size=300), [-1] * 8),
    ):
        engine = ScriptedEngine(model=model)
        service = start(engine)
        answered(service, "again")
        assert engine.requests[0].successors is not None
        assert engine.requests[0].successors.successors(65) == expected
        service.close()


def test_a_long_tail_is_sealed_and_saved_when_nothing_is_asked(
    start: Start, monkeypatch: pytest.MonkeyPatch, config: ServiceConfig, database: Database
) -> None:
    from app.services import worker
    from storage import SegmentCache

    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    service = start(ScriptedEngine("y" * 1000))
    for _ in range(3):
        answered(service, "x")
    wait_for(lambda: service.trie_statistics().tail_length == 0)  # type: ignore[union-attr]
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    wait_for(lambda: cache.load(1) is not None)


# ------------------------------------------------------------------------------------------- API


def test_a_completion_is_neither_saved_nor_learned(start: Start, database: Database) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    completion = service.complete(
        [{"role": "system", "content": "Rhyme."}, {"role": "user", "content": "x"}], OPTIONS
    )
    assert (completion.text, completion.num_tokens) == ("It is Paris.", 12)
    assert completion.reason == "end"
    assert "system\nRhyme.\nuser\nx" in prompt_text(engine)
    service.complete([{"role": "user", "content": "x"}], OPTIONS)
    first, second = (request.successors for request in engine.requests)
    assert first is not None
    assert second is not None
    first.update([65], np.arange(8, dtype=np.int32)[None])
    assert second.successors(65) == [-1] * 8, "each works on a copy"
    answered(service, "a chat")
    assert engine.requests[2].successors.successors(65) == [-1] * 8  # type: ignore[union-attr]
    for conversation in service.conversations():
        service.delete_conversation(conversation.id)
    service.complete([{"role": "user", "content": "x"}], OPTIONS)
    service.close()
    assert database.conversations.list() == []
    assert database.sequences.ids(1) == []
    table = database.successors.load("scripted-model")
    assert table is not None, "the chat's"
    assert SuccessorTable.from_bytes(table).successors(65) == [-1] * 8


def test_completions_and_chats_wait_in_one_queue(start: Start) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    service = start(engine)
    job = service.ask(None, "chat", OPTIONS)
    wait_for(lambda: job.snapshot().status == "decoding")
    answers: list[str] = []
    thread = threading.Thread(
        target=lambda: answers.append(
            service.complete([{"role": "user", "content": "api"}], OPTIONS).text
        )
    )
    thread.start()
    wait_for(lambda: len(service._worker._tasks) == 1)
    assert len(engine.requests) == 1
    engine.gate.release(99)  # type: ignore[union-attr]
    thread.join(WAIT)
    assert answers == ["It is Paris."]


def test_a_completion_whose_client_left_is_stopped(start: Start) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(99))
    completion = start(engine).complete(
        [{"role": "user", "content": "x"}], OPTIONS, is_cancelled=lambda: engine.num_steps >= 2
    )
    assert (completion.reason, completion.text) == ("cancelled", "abcde")


def test_completions_that_cannot_be_made_say_why(start: Start) -> None:
    engine = ScriptedEngine(model=ScriptedModel(context_length=100))
    service = start(engine)
    with pytest.raises(MessageTooLongError):
        service.complete([{"role": "user", "content": "long " * 100}], OPTIONS)
    engine.answer = ValueError("broken")
    with pytest.raises(AnswerFailedError, match="ValueError"):
        service.complete([{"role": "user", "content": "x"}], OPTIONS)
    with pytest.raises(NothingToAnswerError):
        service.complete([], OPTIONS)
