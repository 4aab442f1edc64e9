"""The services with the embedded model: what a user would see, end to end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.services import AnswerOptions, AnswerSnapshot, ChatService, ServiceConfig
from lookahead.embedded_model import default_cache_dir
from storage import Database, StepRecord
from tests.app.kept_trie import trie_statistics

WAIT = 300.0
GREEDY = AnswerOptions(temperature=0.0, max_new_tokens=64)
QUESTION = "List the seven days of the week, one per line, and say something about each."


@contextmanager
def running(folder: Path, model_path: Path, *, can_answer: bool = True) -> Iterator[ChatService]:
    config = ServiceConfig(
        folder / "data", default_cache_dir(), model=str(model_path), can_answer=can_answer
    )
    service = ChatService(config)
    service.start()
    try:
        state = service.wait_until_ready(WAIT)
        assert state.is_ready, state
        yield service
    finally:
        service.close()


def ask(
    service: ChatService,
    text: str,
    conversation_id: int | None = None,
    options: AnswerOptions = GREEDY,
) -> AnswerSnapshot:
    snapshot = service.ask(conversation_id, text, options).wait_until_over(WAIT)
    assert snapshot.status == "complete", snapshot
    assert snapshot.numbers is not None
    return snapshot


def saved_steps(folder: Path, message_id: int) -> list[StepRecord]:
    with Database(folder / "data") as database:
        generation = database.generations.for_message(message_id)
        assert generation is not None
        assert generation.id is not None
        return database.generations.list_steps(generation.id)


@pytest.fixture(scope="module")
def first_run(
    tmp_path_factory: pytest.TempPathFactory, embedded_model_path: Path
) -> tuple[Path, AnswerSnapshot, AnswerSnapshot]:
    """A data folder with one chat of two turns, and both answers."""
    folder = tmp_path_factory.mktemp("service")
    with running(folder, embedded_model_path) as service:
        first = ask(service, QUESTION)
        second = ask(service, "And the months?", first.conversation_id)
    return folder, first, second


def test_an_answer_is_what_its_ids_say_and_every_step_is_recorded(
    first_run: tuple[Path, AnswerSnapshot, AnswerSnapshot], embedded_model_path: Path
) -> None:
    from transformers import AutoTokenizer

    folder, first, _ = first_run
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_path)
    with Database(folder / "data") as database:
        message = database.messages.get(first.message_id)
        generation = database.generations.for_message(first.message_id)
    assert generation is not None
    assert (
        message.text == first.text == tokenizer.decode(message.token_ids, skip_special_tokens=True)
    )
    steps = saved_steps(folder, first.message_id)
    assert len(steps) == generation.num_steps == len(first.steps)
    emitted = generation.num_tokens + generation.num_end_tokens + generation.num_cut_tokens
    assert sum(step.accepted_length + 1 for step in steps) + 1 == emitted


@pytest.mark.usefixtures("verify_all")
def test_every_forward_of_the_model_is_a_recorded_step_or_prefill_chunk(
    embedded_model_path: Path, tmp_path: Path
) -> None:
    """Counted inside the model: no forward is left out, none is told twice."""
    with running(tmp_path, embedded_model_path) as service:
        bench = service._worker.bench
        assert bench is not None
        forwards: list[object] = []
        for is_lookahead in (True, False):
            forwards.clear()
            with bench.model.hf_model.register_forward_hook(lambda *_: forwards.append(1)):
                options = AnswerOptions(is_lookahead, temperature=0.0, max_new_tokens=48)
                answer = ask(service, "Name the months of the year.", options=options)
            with Database(tmp_path / "data") as database:
                generation = database.generations.for_message(answer.message_id)
            assert generation is not None
            num_steps = len(saved_steps(tmp_path, answer.message_id))
            assert num_steps + generation.num_prefill_chunks == len(forwards)
        emitted = generation.num_tokens + generation.num_end_tokens
        assert num_steps == emitted - 1 > 1, "without lookahead each token but the first is a step"


def test_the_second_turn_reads_only_its_new_tokens(
    first_run: tuple[Path, AnswerSnapshot, AnswerSnapshot],
) -> None:
    _, first, second = first_run
    assert first.numbers is not None
    assert second.numbers is not None
    assert first.numbers.reused_length == 0
    known = first.numbers.prefilled_length + first.numbers.num_tokens
    assert second.numbers.reused_length == known - 1, "all but the last token's keys are there"
    assert second.numbers.prefilled_length < 20


@pytest.mark.usefixtures("verify_all")
def test_after_a_restart_chats_and_trie_are_there_and_answers_come_faster(
    first_run: tuple[Path, AnswerSnapshot, AnswerSnapshot], embedded_model_path: Path
) -> None:
    folder, first, second = first_run
    with running(folder, embedded_model_path) as service:
        texts = [message.text for message in service.messages(first.conversation_id)]
        assert texts == [QUESTION, first.text, "And the months?", second.text]
        statistics = trie_statistics(service)
        assert statistics.num_sequences == 2
        again = ask(service, QUESTION)
        plain = ask(service, QUESTION, options=AnswerOptions(False, 0.0, 64))
    assert again.text == plain.text == first.text
    assert again.numbers is not None
    assert plain.numbers is not None
    assert again.numbers.tokens_per_step >= 3
    assert plain.numbers.tokens_per_step == 1


@pytest.mark.usefixtures("verify_all")
def test_an_imported_document_is_quoted_and_named_as_the_source(
    first_run: tuple[Path, AnswerSnapshot, AnswerSnapshot],
    embedded_model_path: Path,
    tmp_path: Path,
) -> None:
    _, first, _ = first_run
    (tmp_path / "week.md").write_text(f"# Notes\n\n{first.text}\n")
    with running(tmp_path, embedded_model_path) as service:
        imported = service.import_paths([tmp_path / "week.md"]).wait_until_over(WAIT)
        assert (imported.status, imported.num_documents) == ("complete", 1)
        answer = ask(service, QUESTION)
    assert answer.text == first.text
    origins = [
        step.draft.origins[node]
        for step in saved_steps(tmp_path, answer.message_id)
        for node in step.accepted_nodes
        if step.draft.sources[node] == "document"
    ]
    assert len(origins) >= 10
    with Database(tmp_path / "data") as database:
        named = {database.sequences.origin(origin[0]).name for origin in origins}  # type: ignore[index]
    assert named == {"week.md"}


def test_an_import_alone_loads_no_weights_and_serves_the_model(
    embedded_model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lookahead.loader

    (tmp_path / "week.md").write_text("Monday, Tuesday, Wednesday")
    with monkeypatch.context() as patch:
        patch.setattr(lookahead.loader, "_load_weights", None)
        with running(tmp_path, embedded_model_path, can_answer=False) as service:
            imported = service.import_paths([tmp_path / "week.md"]).wait_until_over(WAIT)
            assert (imported.status, imported.num_documents) == ("complete", 1)
    with running(tmp_path, embedded_model_path) as service:
        statistics = trie_statistics(service)
        assert statistics.num_tokens == imported.num_tokens


def test_stop_ends_the_answer_at_once_and_the_chat_goes_on(
    first_run: tuple[Path, AnswerSnapshot, AnswerSnapshot], embedded_model_path: Path
) -> None:
    folder, _, _ = first_run
    with running(folder, embedded_model_path) as service:
        job = service.ask(None, "Write a long story about a fox.", AnswerOptions(True, 0.8, 1000))
        snapshot = job.snapshot()
        while len(snapshot.steps) < 3:
            snapshot = job.wait_for_change(snapshot.version, WAIT)
        job.stop()
        num_steps = len(job.snapshot().steps)
        stopped = job.wait_until_over(WAIT)
        assert stopped.status == "stopped"
        assert len(stopped.steps) <= num_steps + 1
        ask(service, "Go on.", job.conversation_id)
        completion = service.complete(
            [{"role": "user", "content": "What is the capital of France?"}], GREEDY
        )
        assert "Paris" in completion.text
