"""What is found when two answers are held side by side: identical, a tie, a bug, or no verdict."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.services.comparison import ArmRecord, SpeedUp, VerdictKind, measured_speed_up, verdict_of
from lookahead.events import FinishReason
from tests.app.asking import Start
from tests.app.racing_engine import TEXT, RacingEngine, compared
from tests.app.scripted_engine import ScriptedModel


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
