"""What is written: JSON of a stable shape, Markdown, text, charts."""

import json
import math
import re
from pathlib import Path

import pytest

from app import bench
from app.bench.arms import Arm
from app.bench.engine_arms import ColdArm, HistoryArm, PlainArm
from app.bench.interleaving import Comparison
from app.bench.live_suite import measure
from app.bench.machine import describe_versions
from app.bench.options import BenchOptions
from app.bench.reports import Figure, SuiteReport, Table, as_markdown, as_text, format_estimate
from app.bench.statistics import Estimate
from app.terminal import Terminal
from tests.app.bench.scripted_runner import ScriptedRunner, scripted_requests

WRONG_AT: dict[str, tuple[str, int]] = {}


def run_scripted_suite(options: BenchOptions, _report: object) -> SuiteReport:
    """Stands where a suite is."""
    runner = ScriptedRunner(wrong_at=WRONG_AT.get("now"))
    arms: list[Arm] = [PlainArm(runner), ColdArm(runner), HistoryArm(runner)]
    return measure(
        scripted_requests(4), arms, [Comparison("plain", frozenset({"cold", "history"}))]
    )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted suite, on a machine that is described without torch."""
    monkeypatch.setattr(bench, "_runner", lambda _: run_scripted_suite)
    monkeypatch.setattr("app.bench.machine._accelerator", lambda: "none")
    monkeypatch.setattr(bench, "prepare_model", lambda *_, **__: None)


@pytest.mark.usefixtures("machine")
def test_the_json_has_machine_versions_rows_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert bench.run(BenchOptions(json_path=path), Terminal()) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document.keys() >= {"version", "suite", "complete", "options", "notes", "failures"}
    assert document["machine"].keys() == {"cpu", "cores", "memory_gib", "system", "accelerator"}
    assert {"lookahead-chat", "python", "torch", "transformers"} <= document["versions"].keys()
    for figure in document["figures"]:
        assert figure.keys() - {"low", "high", "count"} == {
            "name",
            "value",
            "unit",
            "target",
            "met",
        }
    names = [figure["name"] for figure in document["figures"]]
    assert len(set(names)) == len(names)
    assert {
        "live.plain.decode_tokens_per_second",
        "live.history.tokens_per_step",
        "live.history.decode_ratio_over_plain",
        "live.history.total_ratio_over_plain",
        "live.history.decode_ratio_over_plain.coding",
        "live.history.decode_ratio_over_plain.not_looping",
        "live.history.drafting_share",
        "live.history.mean_rows",
        "live.history.first_token_seconds",
        "live.loop_share",
        "live.failed_texts",
    } <= set(names)
    assert len(document["rows"]) == 12
    assert document["rows"][0].keys() >= {"prompt_id", "category", "arm", "position", "num_tokens"}


@pytest.mark.usefixtures("machine")
def test_a_wrong_token_ends_with_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(WRONG_AT, "now", ("p2", 4))
    assert bench.run(BenchOptions(), Terminal()) == 1
    assert "FAILED: cold differs from plain at prompt p2, token 4" in capsys.readouterr().out


@pytest.mark.usefixtures("machine")
def test_a_wrong_token_is_told_by_the_status_of_an_interrupted_run_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C behind a wrong token gave 130, as if all had been well until then."""
    status = {}
    for name, failures in (("well", []), ("wrong", ["a text differs"])):
        found = SuiteReport("x", failures=failures, is_interrupted=True)
        monkeypatch.setattr(bench, "_runner", lambda _, f=found: lambda *_: f)
        status[name] = bench.run(BenchOptions(), Terminal())
    assert status == {"well": 130, "wrong": 1}


@pytest.mark.usefixtures("machine")
def test_charts_and_a_page_that_shows_them_lie_in_the_folder(tmp_path: Path) -> None:
    assert bench.run(BenchOptions(charts=tmp_path), Terminal()) == 0
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]+]\(([^)]+)\)", page)
    assert shown == ["speedup-by-category.png", "accepted-lengths.png", "learning.png"]
    for name in shown:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("machine")
def test_a_report_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(bench.BenchError, match="could not be written"):
        bench.run(BenchOptions(json_path=tmp_path / "gone" / "out.json"), Terminal())


def test_a_figure_says_whether_its_target_is_met() -> None:
    assert Figure("a", 2.4, "ratio", 2.3).is_met is True
    assert Figure("a", 2.4, "s", 2.3, is_at_most=True).is_met is False
    assert Figure("a", None, "ratio", 2.3).is_met is None
    assert Figure("a", 2.4, "ratio").as_json() == {
        "name": "a",
        "value": 2.4,
        "unit": "ratio",
        "target": None,
        "met": None,
    }


def test_what_could_not_be_measured_is_null_and_never_nan() -> None:
    nothing = Estimate(math.nan, math.nan, math.nan, 0)
    entry = Figure.of("a", nothing, "ratio", 1.0).as_json()
    assert (entry["value"], entry["met"]) == (None, None)
    assert json.dumps(entry, allow_nan=False)
    assert format_estimate(nothing) == "–"


def test_two_values_have_no_interval() -> None:
    entry = Figure.of("a", Estimate(1.5, 1.4, 1.6, 2), "ratio").as_json()
    assert (entry["count"], entry["low"], entry["high"]) == (2, None, None)
    assert Figure.of("a", Estimate(1.5, 1.4, 1.6, 3), "ratio").as_json()["low"] == 1.4
    assert format_estimate(Estimate(1.5, 1.4, 1.6, 2)) == "1.50"
    assert format_estimate(Estimate(1.5, 1.4, 1.6, 3)) == "1.50 (1.40–1.60)"


def test_tables_are_aligned_as_text_and_escaped_as_markdown() -> None:
    report = SuiteReport("x", tables=[Table("T", ("arm", "n"), (("a|b", "1"), ("c", "1,000")))])
    report.figures.append(Figure("x.a", 1.0, "ratio", 2.0))
    assert as_text(report)[:4] == ["T", "arm      n", "a|b      1", "c    1,000"]
    assert "Not met: x.a is 1.000 ratio, wanted at least 2.000" in as_text(report)
    page = as_markdown(report, {"cpu": "c"}, {"python": "3"})
    assert "| a\\|b | 1 |" in page


def test_versions_are_those_installed() -> None:
    versions = describe_versions()
    assert re.match(r"\d+\.\d+", versions["torch"])
