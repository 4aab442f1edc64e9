"""A live run with scripted arms: what is slower is seen to be, what is wrong fails."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from app.bench.arms import Arm, ArmResult, BenchRequest
from app.bench.engine_arms import ColdArm, HistoryArm, PlainArm, WarmedArm, warm
from app.bench.interleaving import Comparison, Row, first_difference, rotated
from app.bench.live_suite import measure
from app.bench.measurements import Measurements, decode_rate
from app.bench.reports import Figure, SuiteReport
from tests.app.bench.scripted_runner import ScriptedRunner, scripted_requests


def run(
    runner: ScriptedRunner,
    num_prompts: int = 30,
    judge: Callable[..., str] = lambda *_: "difference",
    may_go_on: Callable[[], bool] = lambda: True,
) -> SuiteReport:
    requests = scripted_requests(num_prompts)
    trie, successors = warm(runner, scripted_requests(2), lambda _: None)
    arms: list[Arm] = [
        PlainArm(runner),
        ColdArm(runner),
        HistoryArm(runner),
        WarmedArm(runner, trie, successors),
    ]
    comparison = Comparison("plain", frozenset({"cold", "history", "warmed"}), judge)
    return measure(requests, arms, comparison, may_go_on=may_go_on)


def figure(report: SuiteReport, name: str) -> Figure:
    return next(figure for figure in report.figures if figure.name == name)


def test_a_planted_slowdown_of_a_tenth_is_visible_in_the_ratio() -> None:
    name = "live.cold.decode_ratio_over_plain"
    honest, slowed = (
        figure(run(ScriptedRunner(slowdown=slowdown)), name) for slowdown in (1.0, 1.1)
    )
    assert honest.value is not None
    assert slowed.value is not None
    assert slowed.value / honest.value == pytest.approx(1 / 1.1, abs=0.02)
    # Their intervals do not touch: ten percent are more than the scripted noise of five.
    assert slowed.high is not None
    assert honest.low is not None
    assert slowed.high < honest.low


def test_a_run_repeated_agrees_within_its_intervals() -> None:
    first = figure(run(ScriptedRunner()), "live.cold.decode_ratio_over_plain")
    again = figure(run(ScriptedRunner(), num_prompts=33), "live.cold.decode_ratio_over_plain")
    assert first.low is not None
    assert again.low is not None
    assert first.low <= (again.high or 0.0)
    assert again.low <= (first.high or 0.0)


def test_a_planted_wrong_token_fails_the_run_and_names_the_place() -> None:
    report = run(ScriptedRunner(wrong_at=("p4", 5)), num_prompts=6)
    assert [failure.split(":")[0] for failure in report.failures] == [
        f"{arm} differs from plain at prompt p4, token 5 "
        f"(63 instead of {3 + (5 + 6 + 11 + 25) % 50})"
        for arm in ("cold", "history", "warmed")
    ]
    assert figure(report, "live.failed_texts").value == 3
    assert figure(report, "live.failed_texts").is_met is False
    different = [row for row in report.rows if row["differs_at"] is not None]
    assert {(row["prompt_id"], row["differs_at"]) for row in different} == {("p4", 5)}
    assert run(ScriptedRunner(), num_prompts=6).failures == []


def test_a_tie_is_told_and_fails_nothing_a_bug_does() -> None:
    wrong = {"wrong_at": ("p1", 3)}
    tie = run(ScriptedRunner(**wrong), 4, lambda *_: "tie")  # type: ignore[arg-type]
    bug = run(ScriptedRunner(**wrong), 4, lambda *_: "bug")  # type: ignore[arg-type]
    assert tie.failures == []
    assert sum("p1, token 3" in note and note.endswith("tie") for note in tie.notes) == 3
    assert len(bug.failures) == 3


def test_another_library_may_say_something_else() -> None:
    runner = ScriptedRunner()

    class Stock:
        name = "hf-generate"
        title = "HF generate"

        def run(self, request: BenchRequest) -> ArmResult:
            return ArmResult((1, 2, 3), 1, 0.5, 0.3, 0.8, Counter({0: 2}))

    arms: list[Arm] = [Stock(), PlainArm(runner), ColdArm(runner)]
    report = measure(scripted_requests(3), arms, Comparison("plain", frozenset({"cold"})))
    assert report.failures == []
    told = "HF generate: 3 of the texts are not those of ours, plain"
    assert any(note.startswith(told) for note in report.notes)


def test_the_order_rotates_and_every_arm_is_first_equally_often() -> None:
    runner = ScriptedRunner()
    arms: Sequence[Arm] = [PlainArm(runner), ColdArm(runner), HistoryArm(runner)]
    orders = [[arm.name for arm in rotated(arms, turn)] for turn in range(6)]
    assert Counter(order[0] for order in orders) == {"plain": 2, "cold": 2, "history": 2}
    assert all(sorted(order) == ["cold", "history", "plain"] for order in orders)
    positions = {(row["arm"], row["position"]) for row in run(runner, 4).rows}
    assert len(positions) == 16  # of four prompts each arm was at each place


def test_arms_know_what_their_titles_say_and_nothing_else() -> None:
    runner = ScriptedRunner()
    requests = scripted_requests(3)
    trie, successors = warm(runner, requests[:2], lambda _: None)
    before = trie.statistics().num_sequences
    runner.calls.clear()
    arms = (ColdArm(runner), WarmedArm(runner, trie, successors))
    for request in requests:
        for arm in arms:
            arm.run(request)
    cold = [used for at, (_, used) in enumerate(runner.calls) if at % 2 == 0]
    assert len({id(used) for used in cold}) == 3
    assert all(used is trie for at, (_, used) in enumerate(runner.calls) if at % 2)
    assert trie.statistics().num_sequences == before == 2
    history = HistoryArm(runner)
    for request in requests:
        history.run(request)
    assert runner.calls[-1][1] is not None
    assert runner.calls[-1][1].statistics().num_sequences == 3


def test_what_was_measured_before_an_interruption_is_reported() -> None:
    runner = ScriptedRunner()
    asked: list[None] = []

    def interrupt_at_the_fourth() -> bool:
        asked.append(None)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return True

    report = run(runner, may_go_on=interrupt_at_the_fourth)
    assert (report.is_interrupted, report.is_complete) == (True, False)
    assert {row["prompt_id"] for row in report.rows} == {"p0", "p1", "p2"}
    assert "The run was interrupted after 3 of 30 prompts." in report.notes


def test_an_interruption_before_the_first_answer_stays_one() -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ScriptedRunner(), may_go_on=interrupt)


def test_times_are_taken_between_the_tokens() -> None:
    """Prefill, eleven tokens in six steps of two, and 0.01 s behind the last one."""
    runner = ScriptedRunner(noise=0.0)
    result = ColdArm(runner).run(scripted_requests(1)[0])
    assert (result.prefill_seconds, result.num_steps, result.num_decoded) == (0.5, 6, 11)
    assert result.decode_seconds == pytest.approx(0.6)
    assert result.total_seconds == pytest.approx(1.11)
    assert result.decode_rate == pytest.approx(11 / 0.6)
    assert result.total_rate == pytest.approx(12 / 1.11)
    assert result.accepted_lengths == {1: 6}
    assert (result.num_nodes, result.num_rows) == (12, 12)
    assert result.drafted_by_source == result.accepted_by_source == {"history": 6}
    assert result.draft_seconds == pytest.approx(0.06)
    plain = PlainArm(runner).run(scripted_requests(1)[0])
    assert (plain.num_nodes, plain.num_rows) == (11, 22)  # padding counts as rows


def test_an_answer_that_ends_early_differs_where_it_ends() -> None:
    assert first_difference((1, 2, 3), (1, 2)) == 2
    assert first_difference((1, 2), (1, 2, 3)) == 2
    assert first_difference((1, 2, 3), (1, 9, 3)) == 1
    assert first_difference((1, 2), [1, 2]) is None


def test_ratios_are_of_pairs_and_of_the_rows_asked_for() -> None:
    def row(prompt_id: str, category: str, arm: str, seconds: float, loop: int = 0) -> Row:
        result = ArmResult((1, 2, 3), 1, 0.0, seconds, seconds, Counter({0: 2}))
        return Row(prompt_id, category, 0, arm, 0, 5, result, loop_length=loop)

    rows = [row("a", "qa", "plain", 4.0), row("a", "qa", "cold", 2.0)]
    rows += [row("b", "rag", "plain", 6.0, loop=2), row("b", "rag", "cold", 2.0)]
    rows += [row("c", "rag", "plain", 1.0)]  # its pair is missing
    measured = Measurements(rows)
    assert measured.ratios("cold", "plain", decode_rate) == [2.0, 3.0]
    assert measured.ratios("cold", "plain", decode_rate, lambda r: r.category == "rag") == [3.0]
    assert measured.ratios("cold", "plain", decode_rate, lambda r: not r.is_looping) == [2.0]
    assert measured.loop_share("plain") == 2 / 9
    assert measured.totals("plain").decode_rate == pytest.approx(6 / 11)
