"""Answers for the panel: running or saved, with or without a model, the lines are the same."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.panel_presenter import PanelPresenter
from app.services import AnswerSnapshot, ChatService, ServiceConfig, answering
from app.services.recording import settled, step_record
from app.services.saved_answers import SavedAnswers
from app.services.transcript import Transcript
from lookahead.draft import DraftTree, TokenSource
from lookahead.events import Finished, FinishReason, GenerationStats, PrefillDone, StepDone
from lookahead.trie import Trie
from storage import ERASED_TOKEN_ID, Database, RecordNotFoundError, StepRecord
from tests.app.asking import OPTIONS, WAIT, Start, answered, wait_for
from tests.app.panel_values import panel_value
from tests.app.scripted_engine import ByteTokenizer, ScriptedEngine, ScriptedModel

TEXT = "Ünï 東京 🎉 e\u0301 <script>alert(1)</script>\t\u202eabc\u2028x"


def lines(service: ChatService, snapshot: AnswerSnapshot) -> list[Any]:
    value = panel_value(service.messages(snapshot.conversation_id), snapshot, service.origin_labels)
    return [json.loads(line) for line in value["steps"].split("\n")[:-1]]


def shown_text(found: list[Any]) -> str:
    return "".join([found[0][1], *(token[0] for line in found[1:] for token in line[6])])


def answer_id(service: ChatService, conversation_id: int) -> int:
    return service.messages(conversation_id)[-1].id


@pytest.mark.parametrize("step_length", [1, 2, 5])
def test_a_running_answer_only_grows_and_is_saved_as_it_was_shown(
    start: Start, step_length: int
) -> None:
    engine = ScriptedEngine(TEXT, gate=threading.Semaphore(0), step_length=step_length)
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    panel, shown = PanelPresenter(service.origin_labels), ""
    while not (snapshot := job.snapshot()).is_over:
        steps = panel.value([], snapshot)["steps"]
        assert steps.startswith(shown)
        assert steps == panel_value([], snapshot, service.origin_labels)["steps"]
        first = len(snapshot.text) - sum(sum(step.text_lengths) for step in snapshot.steps)
        assert first >= 0
        shown = steps
        engine.go_on()
        job.wait_for_change(snapshot.version, 0.05)
    live = panel.value([], snapshot)
    assert live["steps"].startswith(shown)
    assert shown_text(lines(service, snapshot)) == snapshot.text == TEXT
    saved = service.saved_answer(job.message_id)
    assert saved.steps == snapshot.steps
    later = panel_value([], saved, service.origin_labels)
    assert later.pop("version") > live.pop("version"), "a late value of it running is no news"
    assert later == live


def test_the_legend_counts_what_the_database_counts(start: Start, database: Database) -> None:
    service = start(ScriptedEngine("It is Paris, of course.", step_length=4))
    first = answered(service, "one")
    message_id = answer_id(service, answered(service, "two"))
    generation = database.generations.for_message(message_id)
    assert generation is not None
    legend = panel_value([], service.saved_answer(message_id), service.origin_labels)["legend"]
    accepted = generation.accepted_by_source
    assert legend["chat"] == accepted["prompt"] == generation.num_accepted_tokens > 0
    assert sum(legend.values()) == generation.num_tokens
    assert legend["model"] == generation.num_steps + 1, "each step's own token and the first one"
    assert first != message_id


def test_an_old_chat_is_shown_before_a_model_is_loaded(start: Start) -> None:
    service = start(ScriptedEngine(TEXT, step_length=3))
    message_id = answer_id(service, answered(service, "x"))
    before = service.saved_answer(message_id)
    service.close()
    loading = threading.Event()
    later = start(ScriptedEngine(loading=loading), is_ready=False)
    try:
        assert later.saved_answer(message_id) == before
    finally:
        loading.set()


@pytest.mark.parametrize("fingerprint", ["bytes", "another"])
def test_steps_of_the_first_schema_are_decoded_where_their_tokenizer_is_loaded(
    start: Start, database: Database, fingerprint: str
) -> None:
    service = start(ScriptedEngine(TEXT, step_length=3))
    message_id = answer_id(service, answered(service, "x"))
    before = service.saved_answer(message_id)
    service.close()
    with database._connections.transaction() as connection:
        connection.execute("UPDATE steps SET text_lengths = NULL")
    later = start(ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint=fingerprint)))
    after = later.saved_answer(message_id)
    if fingerprint == "bytes":
        assert after == before
    else:
        assert panel_value([], after, later.origin_labels)["unsplit"] == TEXT
        found = lines(later, after)
        assert shown_text(found) == "", "what each token stands for is not known"
        assert [len(line[6]) for line in found[1:]] == [len(s.token_ids) for s in before.steps]


def test_a_failed_answer_shows_what_was_said_and_its_steps(start: Start) -> None:
    service = start(ScriptedEngine(TEXT, error_after_steps=3))
    job = service.ask(None, "x", OPTIONS)
    live = job.wait_until_over(WAIT)
    saved = service.saved_answer(job.message_id)
    assert (saved.status, saved.error, len(saved.steps)) == ("failed", live.error, 3)
    assert saved.numbers == live.numbers is not None
    assert saved.steps == live.steps
    assert shown_text(lines(service, saved)) == saved.text == live.text != ""
    assert service.step_details(job.message_id, 2).nodes


def test_a_killed_program_leaves_the_steps_that_were_saved(
    start: Start, config: ServiceConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SAVE_SECONDS", 0.0)
    engine = ScriptedEngine(TEXT, gate=threading.Semaphore(0), step_length=3)
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    engine.go_on(4)
    wait_for(lambda: len(job.snapshot().steps) == 4)
    saved_answers = SavedAnswers(service._database, lambda: None)
    wait_for(lambda: len(saved_answers.snapshot(job.message_id).steps) == 4)
    shutil.copytree(config.data_dir, tmp_path / "killed")
    live = job.snapshot()
    engine.go_on(999)
    ended = job.wait_until_over(WAIT)
    assert service.saved_answer(job.message_id).steps == ended.steps, "each is saved once"

    later = ChatService(replace(config, data_dir=tmp_path / "killed"), engine=ScriptedEngine())
    later.start()
    try:
        saved = later.saved_answer(job.message_id)
        assert (saved.status, saved.text, saved.steps) == ("stopped", live.text, live.steps)
        assert saved.numbers == live.numbers
        assert shown_text(lines(later, saved)) == live.text
    finally:
        later.close()


def test_an_answer_that_never_began_has_no_lines(start: Start) -> None:
    service = start(ScriptedEngine(RuntimeError("no")))
    job = service.ask(None, "x", OPTIONS)
    job.wait_until_over(WAIT)
    value = panel_value([], service.saved_answer(job.message_id), service.origin_labels)
    assert (value["answer"], value["status"], value["steps"]) == (job.message_id, "failed", "")
    assert (value["numbers"], value["summary"]) == ([], "")


def test_a_stopped_answer_in_the_middle_of_a_character_adds_up(start: Start) -> None:
    half = list("Hi 🎉".encode())[:-2]
    service = start(ScriptedEngine(half, step_length=2))
    saved = service.saved_answer(answer_id(service, answered(service, "x")))
    assert saved.text == "Hi \ufffd"
    assert shown_text(lines(service, saved)) == saved.text


def test_what_is_no_answer_is_told_so(start: Start) -> None:
    service = start(ScriptedEngine())
    conversation_id = answered(service, "x")
    question, answer = service.messages(conversation_id)
    with pytest.raises(RecordNotFoundError, match="a question, not an answer"):
        service.saved_answer(question.id)
    service.delete_conversation(conversation_id)
    with pytest.raises(RecordNotFoundError, match="may have been deleted"):
        service.saved_answer(answer.id)


def test_tokens_that_a_stop_string_took_back_leave_the_steps() -> None:
    """The stop string "\\nUser:" began in an earlier step than the one it ended in."""
    transcript = Transcript(ByteTokenizer(), GenerationStats(mode="strict"))
    kept, cut = list(b"So"), list(b"\nUse")
    first, second = kept[:1], [*kept[1:], *cut]
    stats = GenerationStats(num_tokens=2)
    transcript.take(PrefillDone(tuple(first), 0, 3, 1, 0.1))
    for token_ids in (second, []):
        transcript.take(step_done(token_ids))
    records = [record(index, token_ids) for index, token_ids in enumerate((second, []))]
    transcript.take(Finished(tuple(kept), FinishReason.STOP, stats))
    transcript.finish()
    steps = settled(records, transcript.text_lengths)
    assert transcript.text == "So"
    assert [step.token_ids for step in steps] == [(ord("o"),), ()]
    assert [step.text_lengths for step in steps] == [(1,), ()]
    assert steps[0].accepted_length == 4, "what the model accepted stays what it was"


def test_what_is_forgotten_between_draft_and_record_is_not_recorded() -> None:
    """It was, without the place that tells whose it is, and outlived every purge."""
    draft = DraftTree(
        token_ids=(1, 50, 51, 52, 53),
        parents=(-1, 0, 1, 0, 3),
        sources=(TokenSource.MODEL, *[TokenSource.DOCUMENT] * 2, *[TokenSource.RECYCLED] * 2),
        probabilities=(1.0,) * 5,
        positions=(-1, 7, 8, -1, -1),
    )
    accepted = StepDone((50, 9), 1, (1,), 5, 16, draft, 2, 0.1, 0.0)
    kept = step_record(0, accepted, [1, 1], Trie()).draft
    assert kept.token_ids == (1, 50, ERASED_TOKEN_ID, 52, 53)
    rejected = StepDone((9,), 0, (), 5, 16, draft, 2, 0.1, 0.0)
    assert step_record(0, rejected, [1], Trie()).draft.token_ids[1:3] == (ERASED_TOKEN_ID,) * 2
    quoted = replace(rejected, draft=replace(draft, positions=(-1, -9, -10, -1, -1)))
    assert step_record(0, quoted, [1], Trie()).draft.token_ids[1:3] == (ERASED_TOKEN_ID,) * 2


def step_done(token_ids: list[int]) -> StepDone:
    draft = DraftTree.root_only(1)
    return StepDone(tuple(token_ids), 0, (), 1, 1, draft, 0, 0.1, 0.0)


def record(index: int, token_ids: list[int]) -> StepRecord:
    step = replace(step_done(token_ids), accepted_length=4 if token_ids else 0)
    return step_record(index, step, [1] * len(token_ids), Trie())
