"""Comparing: the race of two answers, and what is found when they are held side by side."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.services import AnswerOptions, ChatService, ServiceConfig
from app.services.comparison import (
    ArmRecord,
    ArmSnapshot,
    SpeedUp,
    VerdictKind,
    measured_speed_up,
    verdict_of,
)
from app.services.engine import GenerationRequest
from app.services.errors import BusyError, NothingToAnswerError
from lookahead.draft import DraftTree, TokenSource
from lookahead.errors import InvalidRequestError
from lookahead.events import Event, Finished, FinishReason, GenerationStats, PrefillDone, StepDone
from storage import Database
from tests.app.asking import WAIT, Start, answered, begun, wait_for
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel, ScriptedSession

OPTIONS = AnswerOptions(temperature=0.0, max_new_tokens=64, seed=5)
TEXT = "It is Paris, of course."


@dataclass
class RacingEngine(ScriptedEngine):
    """A token a step plainly and four with lookahead; writes down which arm was asked for what.

    Args:
        lookahead_answer: another text than plain's; None: the same.
        seconds: of a step of the plain arm and of the other.
        digests: of the logits behind the token of an index.
        failing: the arm whose third forward fails.
        reasons: why the plain arm ends, and why the other.
    """

    lookahead_answer: str | None = None
    seconds: tuple[float, float] = (0.5, 0.75)
    digests: Callable[[bool, int], bytes] = lambda is_plain, index: b"%d" % index
    failing: str = ""
    reasons: tuple[FinishReason, FinishReason] = (FinishReason.END, FinishReason.END)
    divergence: Any = None
    forwards: list[str] = field(default_factory=list)
    sessions: list[ScriptedSession] = field(default_factory=list)
    judged: list[tuple[Sequence[int], Sequence[int]]] = field(default_factory=list)

    def new_session(self, model: Any) -> Any:
        self.sessions.append(session := ScriptedSession())
        return session

    def find_divergence(
        self, model: Any, prompt_ids: Any, plain: Sequence[int], drafted: Sequence[int], **_: Any
    ) -> Any:
        self.judged.append((plain, drafted))
        return self.divergence

    def generate(self, model: Any, request: GenerationRequest) -> Iterator[Event]:
        if request.take_digest is None:
            yield from super().generate(model, request)
            return
        self.requests.append(request)
        is_plain = request.trie is None
        text = self.answer if is_plain else (self.lookahead_answer or self.answer)
        ids = list(text.encode())[: request.decoding.max_new_tokens]
        stats = GenerationStats(mode=model.mode, num_prefill_chunks=1)
        emitted = self._forward(is_plain, ids, 0, 1, request)
        stats.num_tokens = 1
        yield PrefillDone(tuple(emitted), 0, len(request.prompt_ids), 1, 0.25)
        reason = self.reasons[0 if is_plain else 1]
        while len(emitted) < len(ids):
            if self.gate is not None:
                self.gate.acquire(timeout=30)
            if request.is_cancelled():
                reason = FinishReason.CANCELLED
                break
            fresh = self._forward(is_plain, ids, len(emitted), 1 if is_plain else 4, request)
            emitted += fresh
            step = self._racing_step(fresh, is_plain)
            stats.count_step(step)
            yield step
        stats.num_tokens = len(emitted)
        yield Finished(tuple(emitted), reason, stats)

    def _forward(
        self, is_plain: bool, ids: list[int], at: int, count: int, request: GenerationRequest
    ) -> list[int]:
        name = "plain" if is_plain else "lookahead"
        self.forwards.append(name)
        if name == self.failing and self.forwards.count(name) == 3:
            raise RuntimeError("the forward failed")
        fresh = ids[at : at + count]
        assert request.take_digest is not None
        for index in range(at, at + len(fresh)):
            request.take_digest(self.digests(is_plain, index))
        return fresh

    def _racing_step(self, fresh: list[int], is_plain: bool) -> StepDone:
        accepted = fresh[:-1]
        draft = DraftTree(
            token_ids=(7, *accepted),
            parents=tuple(range(-1, len(accepted))),
            sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * len(accepted)),
            probabilities=(1.0, *[0.5] * len(accepted)),
            positions=(-1, *[0] * len(accepted)),
            match_length=2,
        )
        return StepDone(
            token_ids=tuple(fresh),
            accepted_length=len(accepted),
            accepted_nodes=tuple(range(1, len(accepted) + 1)),
            width=draft.width,
            rows=16,
            draft=draft,
            match_length=2,
            seconds=self.seconds[0 if is_plain else 1],
            draft_seconds=0.0,
        )


def compared(service: ChatService, prompt: str = "Which city?", **options: Any) -> Any:
    job = service.compare(prompt, AnswerOptions(**{"seed": 5, "temperature": 0.0, **options}))
    return job.wait_until_over(WAIT)


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


# ---------------------------------------------------------------------------------- the verdicts


def test_strict_identical_bit_for_bit_with_the_logits_behind_each(start: Start) -> None:
    verdict = compared(start(RacingEngine(TEXT))).verdict
    assert verdict.kind is VerdictKind.IDENTICAL
    assert (verdict.num_equal, verdict.num_equal_logits) == (23, 23)
    assert verdict.is_bit_identical
    assert verdict.is_strict


def test_strict_with_the_same_ids_and_other_logits_is_a_bug(start: Start) -> None:
    engine = RacingEngine(
        TEXT, digests=lambda is_plain, index: b"%d" % (index + (index > 8) * is_plain)
    )
    verdict = compared(start(engine)).verdict
    assert verdict.kind is VerdictKind.BUG
    assert (verdict.num_equal, verdict.num_equal_logits) == (23, 9)
    assert not verdict.is_bit_identical


def test_strict_with_another_token_is_a_bug_and_claims_speed_for_the_common_part(
    start: Start,
) -> None:
    engine = RacingEngine(TEXT, lookahead_answer="It is PARIS, of course.", seconds=(0.5, 1.0))
    snapshot = compared(start(engine))
    assert snapshot.verdict.kind is VerdictKind.BUG
    assert snapshot.verdict.num_equal == 7
    assert not engine.judged, "no rounding excuses it"
    assert snapshot.speed_up == SpeedUp(5, 4 * 0.5, 1.0)


@pytest.mark.parametrize(("is_tie", "kind"), [(True, VerdictKind.TIE), (False, VerdictKind.BUG)])
def test_flexible_with_another_token_is_a_tie_or_a_bug_by_the_logits(
    start: Start, is_tie: bool, kind: VerdictKind
) -> None:
    engine = RacingEngine(
        TEXT,
        lookahead_answer="It is Rome.",
        model=ScriptedModel(mode="flexible"),
        divergence=SimpleNamespace(index=6, gap=1e-4, noise=2e-3, is_tie=is_tie),
    )
    verdict = compared(start(engine)).verdict
    assert (verdict.kind, verdict.num_equal, verdict.gap, verdict.noise) == (kind, 6, 1e-4, 2e-3)
    assert engine.judged == [(tuple(TEXT.encode()), tuple(b"It is Rome."))]


def test_flexible_with_another_end_is_judged_by_the_logits_there(start: Start) -> None:
    engine = RacingEngine(
        TEXT,
        model=ScriptedModel(mode="flexible"),
        reasons=(FinishReason.END, FinishReason.STOP),
        divergence=SimpleNamespace(index=23, gap=1e-4, noise=2e-3, is_tie=True),
    )
    verdict = compared(start(engine)).verdict
    assert (verdict.kind, verdict.num_equal) == (VerdictKind.TIE, 23)
    assert engine.judged[0][0] != engine.judged[0][1]


def test_flexible_and_sampled_only_the_place_is_told(start: Start) -> None:
    engine = RacingEngine(
        TEXT, lookahead_answer="It is Rome.", model=ScriptedModel(mode="flexible")
    )
    verdict = compared(start(engine), temperature=1.0).verdict
    assert (verdict.kind, verdict.num_equal) == (VerdictKind.SAMPLED, 6)
    assert not engine.judged


def test_flexible_with_the_same_ids_and_rounded_logits_is_identical_and_no_more(
    start: Start,
) -> None:
    engine = RacingEngine(
        TEXT,
        model=ScriptedModel(mode="flexible"),
        digests=lambda is_plain, index: b"%d%d" % (is_plain, index),
    )
    verdict = compared(start(engine)).verdict
    assert verdict.kind is VerdictKind.IDENTICAL
    assert not verdict.is_bit_identical


END, STOP, CANCELLED = FinishReason.END, FinishReason.STOP, FinishReason.CANCELLED


def record(text: str, *, digests: str | None = None, reason: FinishReason = END) -> ArmRecord:
    return ArmRecord(
        tuple(text.encode()),
        [digit.encode() for digit in (text if digests is None else digests)],
        [(count, float(count - 1)) for count in range(1, len(text) + 1)],
        reason,
    )


def judge(plain: ArmRecord, lookahead: ArmRecord, *, is_strict: bool = True) -> Any:
    return verdict_of(plain, lookahead, is_strict=is_strict, is_greedy=True)


def test_an_answer_that_ends_earlier_is_a_difference_and_a_stopped_one_is_not() -> None:
    assert judge(record("abcd"), record("ab")).kind is VerdictKind.BUG
    assert judge(record("ab"), record("abcd", reason=CANCELLED)).kind is VerdictKind.BUG
    partial = judge(record("abcd"), record("ab", reason=CANCELLED))
    assert (partial.kind, partial.num_equal, partial.num_equal_logits) == (
        VerdictKind.PARTIAL,
        2,
        2,
    )
    assert partial.is_bit_identical


def test_what_lookahead_chose_behind_a_stop_string_is_compared_with_nothing() -> None:
    """The plain arm ends with the token that completes it; an accepted run may go on behind it."""
    plain = record("ab", digests="abXY", reason=STOP)
    verdict = judge(plain, record("ab", digests="abXYZ", reason=STOP))
    assert (verdict.kind, verdict.num_equal_logits) == (VerdictKind.IDENTICAL, 4)
    assert verdict.is_bit_identical
    assert judge(plain, record("ab", digests="abXZZ", reason=STOP)).kind is VerdictKind.BUG


def test_a_stopped_answer_may_hold_what_a_stop_string_took_from_the_whole_one() -> None:
    whole = record("ab", digests="abXY", reason=STOP)
    stopped = record("abX", reason=CANCELLED)
    for arms in ((whole, stopped), (stopped, whole)):
        verdict = judge(*arms)
        assert (verdict.kind, verdict.num_equal, verdict.num_equal_logits) == (
            VerdictKind.PARTIAL,
            2,
            3,
        )
    assert judge(whole, record("abXYZ", reason=CANCELLED)).kind is VerdictKind.BUG
    assert judge(whole, record("abZ", reason=CANCELLED)).kind is VerdictKind.BUG


def test_the_same_tokens_with_another_end_are_not_identical() -> None:
    ended, cut = record("ab", digests="abX"), record("ab", digests="abX", reason=STOP)
    assert judge(ended, cut).kind is VerdictKind.BUG
    assert judge(cut, cut).kind is VerdictKind.IDENTICAL


def test_the_digest_of_the_end_counts_too() -> None:
    end_differs = judge(record("ab", digests="abX"), record("ab", digests="abY"))
    assert (end_differs.kind, end_differs.num_equal_logits) == (VerdictKind.BUG, 2)
    assert judge(record("ab", digests="abX"), record("ab", digests="abX")).num_equal_logits == 3


def test_empty_answers_are_identical_and_nothing_said_is_no_verdict() -> None:
    assert judge(record("", digests="X"), record("", digests="X")).kind is VerdictKind.IDENTICAL
    nothing = record("", reason=CANCELLED)
    assert judge(nothing, nothing) is None
    assert judge(record("ab"), nothing) is None
    assert measured_speed_up(record("a"), record("a")) is None


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
        service.trie_statistics(),
        dict(bench._sessions),
        bench._kept.learned.successors.to_bytes(),
    )
    compared(service)
    assert (
        service.trie_statistics(),
        dict(bench._sessions),
        bench._kept.learned.successors.to_bytes(),
    ) == before
    assert engine.requests[-1].learned is not engine.requests[0].learned
    assert [session.is_closed for session in engine.sessions] == [False, True, True]
    assert len(database.conversations.list()) == 1
    assert len(database.sequences.ids(bench.tokenizer_id)) == 1


# ------------------------------------------------------------------------------------- for real


@pytest.mark.real
def test_the_embedded_model_is_identical_bit_for_bit(
    embedded_model_path: Path, tmp_path: Path
) -> None:
    config = ServiceConfig(tmp_path / "data", tmp_path / "cache", model=str(embedded_model_path))
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
