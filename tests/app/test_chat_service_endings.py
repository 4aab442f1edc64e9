"""How answers, chats and services end: stopped, failed, deleted, closed."""

import threading

import pytest

from app.services.errors import (
    EngineNotReadyError,
    ServiceClosedError,
)
from storage import Database, DatabaseFullError, RecordNotFoundError
from storage.messages import Messages
from tests.app.asking import OPTIONS, WAIT, Start, answered, begun, prompt_text, wait_for
from tests.app.kept_trie import trie_statistics
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel


def test_stop_ends_the_answer_within_one_step_and_keeps_it(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    engine.go_on()
    wait_for(lambda: job.snapshot().text == "abc")
    job.stop()
    engine.go_on()
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.text, engine.num_steps) == ("stopped", "abc", 1)
    message = database.messages.get(job.message_id)
    assert (message.status, message.text, bytes(message.token_ids)) == ("stopped", "abc", b"abc")
    engine.go_on(99)
    answered(service, "next", job.conversation_id)
    assert "assistant\nabc\nuser\nnext" in prompt_text(engine)


def test_a_waiting_answer_is_stopped_at_once(start: Start, database: Database) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    service = start(engine)
    running = begun(service)
    waiting = service.ask(None, "two", OPTIONS)
    waiting.stop()
    assert waiting.snapshot().status == "stopped"
    assert database.messages.get(waiting.message_id).status == "stopped"
    assert not running.snapshot().is_over
    engine.go_on(99)
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
    assert trie_statistics(service).num_sequences == 0


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


def test_deleting_a_chat_forgets_its_words(start: Start, database: Database) -> None:
    service = start(ScriptedEngine())
    kept = answered(service, "kept")
    gone = answered(service, "gone")
    service.delete_conversation(gone)
    assert [conversation.id for conversation in service.conversations()] == [kept]
    statistics = trie_statistics(service)
    assert 0 < statistics.num_hidden_tokens < statistics.num_tokens
    with pytest.raises(RecordNotFoundError):
        service.delete_conversation(gone)


def test_deleting_a_chat_that_is_being_answered_stops_it_and_saves_nothing(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = begun(service)
    service.delete_conversation(job.conversation_id)
    engine.go_on(99)
    assert job.wait_until_over(WAIT).status == "stopped"
    assert service.conversations() == []
    assert list(database.sequences.all(1)) == []
    assert trie_statistics(service).num_sequences == 0
    session = engine.requests[0].session
    wait_for(lambda: session.is_closed)  # type: ignore[attr-defined]
    answered(service, "still alive")


def test_a_chat_that_cannot_be_deleted_goes_on(
    start: Start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was given up before the deletion failed, and stayed "streaming" for good."""
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = begun(service)

    def full(_: int) -> list[int]:
        raise DatabaseFullError("No space is left.")

    monkeypatch.setattr(service._database.deletions, "hide_conversation", full)
    with pytest.raises(DatabaseFullError):
        service.delete_conversation(job.conversation_id)
    assert service.running_job(job.conversation_id) is job
    engine.go_on(99)
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
    engine.go_on()
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
