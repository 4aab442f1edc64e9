"""The live suites as they are run, with a scripted workload where the model is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.bench import live_suite, turns_suite, worst_case_suite
from app.bench.comparing import add_comparison
from app.bench.errors import BenchError
from app.bench.live_suite import gguf_for, run_live_suite
from app.bench.options import BenchOptions
from app.bench.reports import Figure, SuiteReport, write_json
from app.bench.turns_suite import run_turns_suite
from app.bench.worst_case_suite import run_worst_case_suite
from app.settings import Settings
from tests.app.bench.scripted_runner import ScriptedRunner, ScriptedWorkload

Suite = Callable[..., SuiteReport]
NAME = "live.cold.decode_ratio_over_plain"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Runs the suite of the options over a runner."""
    monkeypatch.setattr("app.bench.machine._accelerator", lambda: "none")
    monkeypatch.setattr(live_suite, "other_arms", lambda *_: [])

    def run(
        runner: ScriptedRunner,
        num_prompts: int = 30,
        options: BenchOptions | None = None,
        **choices: Any,
    ) -> SuiteReport:
        options = options or BenchOptions(suite="full")
        workload = ScriptedWorkload(runner, num_prompts, **choices)
        for module in (live_suite, turns_suite, worst_case_suite):
            monkeypatch.setattr(module, "load_workload", lambda *_: workload)
        if options.suite == "turns":
            return run_turns_suite(options, lambda _: None)
        if options.suite == "worst-case":
            return run_worst_case_suite(options, lambda _: None)
        return run_live_suite(options, lambda _: None, runner.clock)

    return run


def figure(report: SuiteReport, name: str) -> Figure:
    return next(figure for figure in report.figures if figure.name == name)


def test_a_planted_slowdown_of_a_tenth_is_visible_in_the_ratio(run: Suite) -> None:
    honest, slowed = (
        figure(run(ScriptedRunner(slowdown=slowdown, seed=seed)), NAME)
        for seed, slowdown in enumerate((1.0, 1.1))
    )
    assert slowed.value / honest.value == pytest.approx(1 / 1.1, abs=0.04)
    # Their intervals do not touch: ten percent are more than the scripted noise of five.
    assert slowed.high < honest.low


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_two_runs_agree_and_a_slower_one_does_not(run: Suite, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "old.json"
    write_json(path, run(ScriptedRunner(seed=1)), {}, {})
    again, slowed = run(ScriptedRunner(seed=seed)), run(ScriptedRunner(seed=seed, slowdown=1.1))
    add_comparison(again, path)
    assert again.notes[-1].startswith("The runs agree: ")
    add_comparison(slowed, path)
    assert slowed.notes[-1] == (
        "The runs do not agree within their intervals: cold, history, warmed."
    )
    compared = figure(slowed, "compared.cold.decode_ratio_over_plain")
    assert compared.count == 30
    assert compared.high < 1


def test_runs_of_other_texts_or_options_are_told_and_not_paired(run: Suite, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    write_json(path, run(ScriptedRunner(), 8), {}, {})
    document = json.loads(path.read_text(encoding="utf-8"))
    for row in document["rows"]:
        row["text_sha256"] = (
            "other" if row["prompt_id"] in ("p0", "p1", "p2") else row["text_sha256"]
        )
    path.write_text(json.dumps(document), encoding="utf-8")
    found = run(ScriptedRunner(), 8, dtype="float32")
    add_comparison(found, path)
    assert figure(found, "compared.cold.decode_ratio_over_plain").count == 5
    assert "The runs differ in dtype: bfloat16 before, float32 now." in found.notes
    assert any(note.startswith("Too few pairs to tell") for note in found.notes)


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [{"arm": 1}]}', '{"rows": 3}'])
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BenchError, match="is no report of this benchmark"):
        add_comparison(SuiteReport("full"), path)


def test_a_planted_wrong_token_fails_the_suite(run: Suite) -> None:
    report = run(ScriptedRunner(wrong_at=("p4", 5)), 6)
    assert [failure.split(" differs")[0] for failure in report.failures] == [
        "cold",
        "history",
        "warmed",
    ]
    assert run(ScriptedRunner(), 6).failures == []


def test_every_arm_answers_once_before_and_what_it_learned_is_thrown_away(run: Suite) -> None:
    """The arms that draft met their first call while they were measured."""
    runner = ScriptedRunner()
    run(runner, 6, BenchOptions(suite="full", drafters=("llma",)))
    asked = [prompt_id for prompt_id, _ in runner.calls]
    assert asked[:6] == ["w0"] * 6  # one row, plain, cold, history, warmed, the drafter
    assert asked[6:9] == ["w0", "w1", "w2"]
    history = {id(trie): trie for _, trie in runner.calls[9:] if trie is not None}
    assert sorted(trie.statistics().num_sequences for trie in history.values()) == [
        *[0] * 6,  # cold, a fresh one at each prompt
        3,
        6,
    ]


def test_quick_stops_warming_and_asking_when_its_time_is_over(run: Suite) -> None:
    runner = ScriptedRunner(slowdown=4.0)  # 1.6 s a plain answer, 2.9 s a drafted one
    report = run(runner, 30, BenchOptions(suite="quick"))
    assert not report.is_complete
    assert 0 < figure(report, "live.prompts").value < 30
    assert figure(report, "live.suite_seconds").is_met is True


def test_quick_without_time_for_a_prompt_says_what_to_do(run: Suite) -> None:
    """It ended with an IndexError."""
    runner = ScriptedRunner(slowdown=100.0)
    with pytest.raises(BenchError, match=r"no prompt was answered\. Use --suite full"):
        run(runner, 30, BenchOptions(suite="quick"))
    assert [prompt_id for prompt_id, _ in runner.calls].count("w1") == 0  # warming stopped, too


def test_the_rows_so_far_lie_in_the_file_while_it_runs(run: Suite, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    run(ScriptedRunner(), 5, BenchOptions(suite="full", json_path=path))
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (len(document["rows"]), document["complete"]) == (5 * 5, False)


def test_promises_are_of_bf16_strict(run: Suite) -> None:
    copying = "live.history.decode_ratio_over_plain.copying"
    assert figure(run(ScriptedRunner(), 6), copying).target == 2.3
    assert figure(run(ScriptedRunner(), 6, dtype="float32"), copying).target is None


def test_the_embedded_models_gguf_is_for_the_embedded_model(tmp_path: Path) -> None:
    """It was taken whatever --model was."""
    named = tmp_path / "x.gguf"
    other = Settings(model="some/other")
    assert gguf_for(BenchOptions(settings=other)) is None
    assert gguf_for(BenchOptions(settings=other, gguf=named)) == named


def test_turns_rehearses_and_measures_every_turn(run: Suite) -> None:
    runner = ScriptedRunner()
    report = run(runner, 4, BenchOptions(suite="turns"))
    assert len(report.rows) == 4 * 2 * 4
    assert report.failures == []
    assert len(runner.calls) == len(report.rows) + 2 * 4
    assert figure(report, "turns.plain.follow_up_wait_ratio").count == 4


def test_turns_with_other_prompts_are_no_pairs(run: Suite) -> None:
    """Behind a wrong token the conversations differ, and so does what a follow-up asks."""
    report = run(ScriptedRunner(wrong_at=("p1", 3)), 4, BenchOptions(suite="turns"))
    assert len(report.failures) == 2
    assert figure(report, "turns.history.turn_1.decode_ratio_over_plain").count == 4
    assert figure(report, "turns.history.turn_2.decode_ratio_over_plain").count == 3


def test_worst_case_measures_both_parts_and_tells_width_and_acceptance(run: Suite) -> None:
    report = run(ScriptedRunner(), 4, BenchOptions(suite="worst-case"))
    assert {row["part"] for row in report.rows} == {
        "Random prompts, high temperature",
        "Hostile Trie, greedy",
    }
    for what in ("mean_width", "acceptance_rate", "decode_ratio_over_plain_at_least"):
        assert figure(report, f"worst_case.hostile.hostile.{what}").value is not None


def test_an_interruption_of_the_hostile_part_keeps_the_random_one(
    run: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = ScriptedRunner(wrong_at=("random-2", 3))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(worst_case_suite, "hostile_sequences", interrupt)
    report = run(runner, 4, BenchOptions(suite="worst-case"))
    assert (report.is_interrupted, report.is_complete) == (True, False)
    assert {row["part"] for row in report.rows} == {"Random prompts, high temperature"}
    assert len(report.failures) == 2
