"""Comparing: the race of two answers, one comparison at a time, and how it ends."""

import threading
from pathlib import Path
from typing import Any

import pytest

from app.services import AnswerOptions, ChatService, ServiceConfig
from app.services.comparison import ArmSnapshot, VerdictKind
from app.services.errors import BusyError, NothingToAnswerError
from lookahead.embedded_model import default_cache_dir
from lookahead.errors import InvalidRequestError
from storage import Database
from tests.app.asking import WAIT, Start, answered, begun, wait_for
from tests.app.kept_trie import trie_statistics
from tests.app.racing_engine import OPTIONS, TEXT, RacingEngine, compared
from tests.app.scripted_engine import ScriptedModel
from tests.stored import shown_sequence_ids

# ------------------------------------------------------------------------------------- the race


def test_the_arm_that_has_used_less_model_time_goes_next(start: Start) -> None:
    engine = RacingEngine(TEXT[:9], seconds=(0.5, 0.75))
    compared(start(engine))
    assert engine.forwards == [
        *("plain", "lookahead"),  # both prompts
        "plain",  # 0.0 and 0.0: the one that began
        "lookahead",  # 0.5 and 0.0
        "plain",  # 0.5 and 0.75
        "lookahead",  # 1.0 and 0.75: it has said all now
        *["plain"] * 6,
    ]


def test_the_arm_that_begins_alternates_from_run_to_run(start: Start) -> None:
    engine = RacingEngine(TEXT)
    service = start(engine)
    for first, second in (("plain", "lookahead"), ("lookahead", "plain"), ("plain", "lookahead")):
        engine.forwards.clear()
        assert compared(service).first == first
        assert engine.forwards[:3] == [first, second, first]


def test_both_arms_get_the_same_prompt_options_and_digest_hook_in_sessions_of_their_own(
    start: Start,
) -> None:
    engine = RacingEngine(TEXT)
    snapshot = compared(start(engine), temperature=0.7, max_new_tokens=12, seed=None)
    plain, lookahead = engine.requests
    assert (plain.prompt_ids, plain.decoding, plain.sampling) == (
        lookahead.prompt_ids,
        lookahead.decoding,
        lookahead.sampling,
    )
    assert (plain.decoding.max_new_tokens, plain.sampling.temperature) == (12, 0.7)
    assert plain.sampling.seed == snapshot.seed is not None
    assert (plain.trie, plain.learned) == (None, None)
    assert lookahead.trie is not None
    assert plain.take_digest is not None
    assert lookahead.take_digest is not None
    assert plain.session is not lookahead.session


def test_the_numbers_of_both_arms_and_the_measured_speed_up(start: Start) -> None:
    snapshot = compared(start(RacingEngine(TEXT, seconds=(0.5, 0.8))))
    assert snapshot.status == "complete"
    assert snapshot.plain.text == snapshot.lookahead.text == TEXT
    plain, lookahead = snapshot.plain.numbers, snapshot.lookahead.numbers
    assert (plain.num_tokens, plain.num_steps, plain.num_forwards) == (23, 22, 23)
    assert (lookahead.num_tokens, lookahead.num_steps, lookahead.num_forwards) == (23, 6, 7)
    assert plain.tokens_per_step == 1.0
    assert snapshot.speed_up.ratio == pytest.approx(22 * 0.5 / (6 * 0.8))
    assert snapshot.speed_up.num_tokens == 23


def pieces_of(arm: ArmSnapshot) -> list[tuple[int, str]]:
    lines = [line.split(" ") for line in arm.pieces.splitlines()]
    return [(int(length), look) for length, look in lines]


def test_each_piece_of_text_names_where_its_token_came_from(start: Start) -> None:
    snapshot = compared(start(RacingEngine("Is it möglich?", seconds=(0.5, 0.8))))
    pieces = pieces_of(snapshot.lookahead)
    assert sum(length for length, _ in pieces) == len("Is it möglich?")
    model, drafted = ["model"], ["history"] * 3
    assert [source for _, source in pieces[:9]] == [*model, *drafted, *model, *drafted, *model]
    assert {look for _, look in pieces_of(snapshot.plain)} == {"model"}


# -------------------------------------------------------------------------- one at a time, and ends


def test_a_second_comparison_meanwhile_is_refused_and_the_first_can_be_found_again(
    start: Start,
) -> None:
    engine = RacingEngine(TEXT, gate=threading.Semaphore(0))
    service = start(engine)
    assert service.latest_comparison() is None
    job = service.compare("one", OPTIONS)
    with pytest.raises(BusyError, match="comparison is running"):
        service.compare("two", OPTIONS)
    assert service.latest_comparison() is job
    engine.go_on(99)
    job.wait_until_over(WAIT)
    assert service.latest_comparison() is job
    assert compared(service).prompt == "Which city?"


@pytest.mark.parametrize(
    ("prompt", "options", "error"),
    [
        (" \n", {}, NothingToAnswerError),
        ("x", {"temperature": -1.0}, InvalidRequestError),
        ("x", {"seed": -1}, InvalidRequestError),
        ("x", {"max_new_tokens": 0}, InvalidRequestError),
    ],
)
def test_what_cannot_be_compared_says_why_at_once(
    start: Start, prompt: str, options: dict[str, Any], error: type[Exception]
) -> None:
    service = start(RacingEngine(TEXT))
    with pytest.raises(error):
        service.compare(prompt, AnswerOptions(**options))
    assert service.latest_comparison() is None


def test_it_waits_for_the_answer_of_a_chat_and_can_be_stopped_meanwhile(start: Start) -> None:
    engine = RacingEngine(TEXT, gate=threading.Semaphore(0))
    service = start(engine)
    answer = begun(service)
    waiting = service.compare("y", OPTIONS)
    assert waiting.snapshot().status == "queued"
    waiting.stop()
    assert waiting.wait_until_over(WAIT).status == "stopped"
    again = service.compare("y", OPTIONS)
    engine.go_on(99)
    assert again.wait_until_over(WAIT).status == "complete"
    assert answer.snapshot().status == "complete"


def test_stop_ends_both_arms_and_says_how_far_they_agree(start: Start) -> None:
    engine = RacingEngine(TEXT, gate=threading.Semaphore(4))
    service = start(engine)
    job = service.compare("y", OPTIONS)
    wait_for(lambda: len(engine.forwards) == 6)
    job.stop()
    engine.go_on(99)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == snapshot.plain.status == snapshot.lookahead.status == "stopped"
    assert snapshot.lookahead.text.startswith(snapshot.plain.text)
    assert snapshot.plain.text
    assert snapshot.verdict.kind is VerdictKind.PARTIAL
    assert snapshot.verdict.num_equal == len(snapshot.plain.text)
    assert len(engine.forwards) == 6


@pytest.mark.parametrize("failing", ["plain", "lookahead"])
def test_an_arm_that_fails_is_named_and_what_was_said_stays(start: Start, failing: str) -> None:
    engine = RacingEngine(TEXT, failing=failing)
    service = start(engine)
    snapshot = compared(service)
    assert snapshot.status == "failed"
    assert "RuntimeError" in snapshot.error
    arms = {arm.name: arm for arm in (snapshot.plain, snapshot.lookahead)}
    assert [name for name, arm in arms.items() if arm.status == "failed"] == [failing]
    assert all(TEXT.startswith(arm.text) and arm.text for arm in arms.values())
    assert snapshot.verdict is None
    assert all(session.is_closed for session in engine.sessions)
    engine.failing = ""
    assert compared(service).status == "complete"


def test_a_model_that_can_only_be_decoded_plainly_says_so(start: Start) -> None:
    model = ScriptedModel(mode="plain", mode_reason="its state cannot be rolled back.")
    snapshot = compared(start(RacingEngine(TEXT, model=model)))
    assert snapshot.status == "failed"
    assert "only be decoded plainly" in snapshot.error
    assert "its state cannot be rolled back." in snapshot.error


def test_a_model_that_cannot_be_loaded_fails_it_in_words(start: Start) -> None:
    service = start(RacingEngine(TEXT, load_error=OSError("no such folder")), is_ready=False)
    snapshot = compared(service)
    assert (snapshot.status, bool(snapshot.error)) == ("failed", True)


def test_closing_the_program_ends_it(start: Start) -> None:
    engine = RacingEngine(TEXT, gate=threading.Semaphore(0))
    service = start(engine)
    job = service.compare("y", OPTIONS)
    wait_for(lambda: len(engine.forwards) == 2)
    threading.Thread(target=service.close).start()
    wait_for(lambda: job.is_stopped)
    engine.go_on(99)
    assert job.wait_until_over(WAIT).status == "stopped"


def test_it_leaves_nothing_behind(start: Start, database: Database) -> None:
    engine = RacingEngine(TEXT)
    service = start(engine)
    answered(service, "before")
    bench = service._worker.bench
    assert bench is not None
    before = (
        trie_statistics(service),
        dict(bench._sessions),
        bench._kept.learned.successors.to_bytes(),
    )
    compared(service)
    assert (
        trie_statistics(service),
        dict(bench._sessions),
        bench._kept.learned.successors.to_bytes(),
    ) == before
    assert engine.requests[-1].learned is not engine.requests[0].learned
    assert [session.is_closed for session in engine.sessions] == [False, True, True]
    assert len(database.conversations.list()) == 1
    assert len(shown_sequence_ids(database, bench.tokenizer_id)) == 1


# ------------------------------------------------------------------------------------- for real


@pytest.mark.real
@pytest.mark.usefixtures("verify_all")
def test_the_embedded_model_is_identical_bit_for_bit(
    embedded_model_path: Path, tmp_path: Path
) -> None:
    config = ServiceConfig(
        *(tmp_path / "data", default_cache_dir()), model=str(embedded_model_path), strict=True
    )
    service = ChatService(config)
    service.start()
    try:
        assert service.wait_until_ready(300).is_ready
        prompt = "Count from one to twelve in words, then count down again."
        for temperature in (0.0, 0.8):
            options = AnswerOptions(temperature=temperature, max_new_tokens=48, seed=3)
            snapshot = service.compare(prompt, options).wait_until_over(300)
            assert snapshot.status == "complete", snapshot.error
            assert snapshot.verdict is not None
            assert snapshot.verdict.kind is VerdictKind.IDENTICAL
            assert snapshot.verdict.is_strict
            assert snapshot.verdict.is_bit_identical
            assert snapshot.verdict.num_equal_logits >= snapshot.verdict.num_equal > 1
            assert snapshot.plain.text == snapshot.lookahead.text
            assert snapshot.plain.numbers is not None
            assert snapshot.lookahead.numbers is not None
            assert snapshot.lookahead.numbers.num_steps < snapshot.plain.numbers.num_steps
    finally:
        service.close()
