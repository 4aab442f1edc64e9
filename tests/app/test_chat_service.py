"""The chat service: what is asked, what is saved, and what is learned."""

import threading

import pytest

from app.services import AnswerOptions, answering
from app.services.errors import (
    BusyError,
    NothingToAnswerError,
)
from storage import Database, RecordNotFoundError
from tests.app.asking import OPTIONS, WAIT, Start, answered, prompt_text, wait_for
from tests.app.kept_trie import trie_statistics
from tests.app.scripted_engine import END, ScriptedEngine, ScriptedModel


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
    statistics = trie_statistics(service)
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
        engine.go_on()
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
    engine.go_on(9)
    assert job.wait_until_over(WAIT).text == "abcdefgh"


def test_streamed_text_never_holds_half_a_character(start: Start) -> None:
    text = "Ünï 東京 🎉 e\u0301"
    engine = ScriptedEngine(text, gate=threading.Semaphore(0))
    job = start(engine).ask(None, "x", OPTIONS)
    shown = {""}
    while not (snapshot := job.snapshot()).is_over:
        shown.add(snapshot.text)
        engine.go_on()
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
    assert trie_statistics(other).num_sequences == 0
    answered(other, "two", conversation_id)
    assert "assistant\nold\nuser\ntwo" in prompt_text(engine)


def test_without_lookahead_nothing_is_drafted(start: Start) -> None:
    engine = ScriptedEngine()
    job = start(engine).ask(None, "x", AnswerOptions(lookahead=False, temperature=0.5, seed=7))
    job.wait_until_over(WAIT)
    (request,) = engine.requests
    assert (request.trie, request.learned) == (None, None)
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 7)


def test_what_cannot_be_asked_says_why(start: Start) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    service = start(engine)
    with pytest.raises(NothingToAnswerError):
        service.ask(None, " \n", OPTIONS)
    with pytest.raises(RecordNotFoundError):
        service.ask(99, "hello", OPTIONS)
    job = service.ask(None, "x", OPTIONS)
    assert service.running_job(job.conversation_id) is job
    with pytest.raises(BusyError):
        service.ask(job.conversation_id, "y", OPTIONS)
    engine.go_on(99)
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
