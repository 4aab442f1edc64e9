"""A live run with scripted arms: what is slower is seen to be, what is wrong fails."""

from collections import Counter
from collections.abc import Callable

import pytest

from app.bench.arms import Arm, ArmResult, BenchRequest
from app.bench.engine_arms import (
    ColdArm,
    DrafterArm,
    HistoryArm,
    PlainArm,
    WarmedArm,
    warm,
)
from app.bench.interleaving import Comparison, Row, arm_order
from app.bench.live_report import live_figures
from app.bench.live_suite import measure
from app.bench.measurements import Measurements, decode_rate
from app.bench.reports import Figure, SuiteReport
from lookahead.divergence import first_difference
from tests.app.bench.scripted_runner import ScriptedRunner, scripted_requests


def run(
    runner: ScriptedRunner,
    num_prompts: int = 30,
    judge: Callable[..., str] = lambda *_: "difference",
    may_go_on: Callable[[], bool] = lambda: True,
) -> SuiteReport:
    requests = scripted_requests(num_prompts)
    trie, learned = warm(runner, scripted_requests(2), lambda _: None)
    arms: list[Arm] = [
        PlainArm(runner),
        ColdArm(runner),
        HistoryArm(runner),
        WarmedArm(runner, trie, learned),
    ]
    comparison = Comparison("plain", frozenset({"cold", "history", "warmed"}), judge)
    return measure(requests, arms, [comparison], may_go_on=may_go_on)


def figure(report: SuiteReport, name: str) -> Figure:
    return next(figure for figure in report.figures if figure.name == name)


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
    report = measure(scripted_requests(3), arms, [Comparison("plain", frozenset({"cold"}))])
    assert report.failures == []
    told = "HF generate: 3 of the texts are not those of ours, plain"
    assert any(note.startswith(told) for note in report.notes)


def test_the_order_is_balanced_and_not_always_the_same_neighbours() -> None:
    """A cyclic shift left every arm behind the same one, at every prompt."""
    orders = [arm_order("abcd", index) for index in range(40)]
    assert orders == [arm_order("abcd", index) for index in range(40)]
    for begin in range(0, 40, 4):
        for place in range(4):
            assert {order[place] for order in orders[begin : begin + 4]} == set("abcd")
    before_a = Counter(order[order.index("a") - 1] for order in orders if order[0] != "a")
    assert set(before_a) == set("bcd")
    positions = {(row["arm"], row["position"]) for row in run(ScriptedRunner(), 4).rows}
    assert len(positions) == 16  # of four prompts each arm was at each place


def test_arms_know_what_their_titles_say_and_nothing_else() -> None:
    runner = ScriptedRunner()
    requests = scripted_requests(3)
    trie, learned = warm(runner, requests[:2], lambda _: None)
    before = trie.statistics().num_sequences
    runner.calls.clear()
    arms = (ColdArm(runner), WarmedArm(runner, trie, learned))
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


def test_pairs_with_another_text_are_counted_and_left_out_beside() -> None:
    def row(prompt_id: str, arm: str, ids: tuple[int, ...], seconds: float, asked: str) -> Row:
        result = ArmResult(ids, 1, 0.0, seconds, seconds, Counter({0: 2}))
        return Row(prompt_id, "qa", 0, arm, 0, 5, result, prompt_sha256=asked)

    rows = [row("a", "plain", (1, 2, 3), 4.0, "x"), row("a", "cold", (1, 2, 3), 2.0, "x")]
    rows += [row("b", "plain", (1, 2, 3), 4.0, "y"), row("b", "cold", (1, 9, 9), 1.0, "y")]
    rows += [row("c", "plain", (1, 2, 3), 4.0, "z"), row("c", "cold", (1, 2, 3), 1.0, "other")]
    measured = Measurements(rows)
    assert measured.ratios("cold", "plain", decode_rate) == [2.0, 4.0]  # c asked something else
    assert measured.ratios("cold", "plain", decode_rate, same_text=True) == [2.0]
    assert measured.num_different_texts("cold", "plain") == 1
    figures = {figure.name: figure for figure in live_figures(measured)}
    assert figures["live.cold.texts_not_of_plain"].value == 1
    same = figures["live.cold.decode_ratio_over_plain.same_text"]
    assert (same.value, same.count, same.low, same.high) == (2.0, 1, None, None)


def test_what_makes_history_is_measured_apart() -> None:
    """Sealing was in nobody's time for ours, remembering in nobody's for the others."""
    runner = ScriptedRunner(noise=0.0)
    arm = DrafterArm(runner, "none")

    def slow_remember(_: object) -> None:
        runner.clock.advance(7.0)

    def slow_begin(_: object) -> None:
        runner.clock.advance(0.25)

    arm._drafter.remember = slow_remember  # type: ignore[method-assign]
    arm._drafter.begin = slow_begin  # type: ignore[method-assign]
    result = arm.run(scripted_requests(1)[0])
    assert result.remember_seconds == pytest.approx(7.0)
    assert result.prefill_seconds == pytest.approx(0.75)  # what it begins with is inside
    assert result.total_seconds == pytest.approx(1.36)
    assert HistoryArm(runner).run(scripted_requests(1)[0]).remember_seconds is not None
    assert ColdArm(runner).run(scripted_requests(1)[0]).remember_seconds is None


def test_targets_stand_where_they_were_promised_and_nowhere_else() -> None:
    def figures(known_length: int, is_promised: bool) -> dict[str, Figure]:
        rows = []
        for request in scripted_requests(6):
            for arm in (PlainArm(ScriptedRunner()), HistoryArm(ScriptedRunner())):
                result = arm.run(request)
                result.known_length = known_length
                rows.append(Row.of(request, arm.name, 0, result))
        found = live_figures(Measurements(rows), is_promised=is_promised)
        return {figure.name: figure for figure in found}

    share, copying = "live.history.drafting_share", "live.history.decode_ratio_over_plain.copying"
    small, large = figures(1_999_999, False), figures(2_000_000, True)
    assert (small[share].target, large[share].target) == (None, 0.04)
    assert (small[copying].target, large[copying].target) == (None, 2.3)
    assert large[f"{share}.rag"].target is None


def test_every_quantity_is_told_of_every_category() -> None:
    names = {figure.name for figure in run(ScriptedRunner(), 6).figures}
    for what in (
        *("decode_tokens_per_second", "total_tokens_per_second", "first_token_seconds"),
        *("tokens_per_step", "mean_width", "mean_rows", "drafting_share"),
        *("acceptance_rate", "acceptance_rate_history"),
    ):
        assert {f"live.history.{what}{end}" for end in ("", ".coding", ".rag", ".qa")} <= names


def test_an_arm_that_drafted_nothing_has_its_figures_all_the_same() -> None:
    arms = (PlainArm(ScriptedRunner()), ColdArm(ScriptedRunner()))
    rows = []
    for arm in arms:
        result = PlainArm(ScriptedRunner()).run(scripted_requests(1)[0])
        rows.append(Row.of(scripted_requests(1)[0], arm.name, 0, result))
    found = {figure.name: figure.value for figure in live_figures(Measurements(rows))}
    assert found["live.cold.mean_width"] == 1
    assert found["live.cold.acceptance_rate"] is None
    assert "live.plain.mean_width" not in found


def test_rows_are_kept_after_every_prompt() -> None:
    runner = ScriptedRunner()
    arms: list[Arm] = [PlainArm(runner), ColdArm(runner)]
    kept: list[int] = []
    measure(
        *(scripted_requests(3), arms, [Comparison("plain", frozenset({"cold"}))]),
        keep_rows=lambda rows: kept.append(len(rows)),
    )
    assert kept == [2, 4, 6]
