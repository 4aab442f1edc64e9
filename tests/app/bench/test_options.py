"""`launch.py bench`: what reaches the benchmark, and what is refused before a model loads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lookahead
from app import bench, cli
from app.bench.options import BenchOptions
from app.settings import Settings
from app.terminal import Terminal


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[BenchOptions]:
    """What the benchmark is asked for."""
    asked: list[BenchOptions] = []

    def run(options: BenchOptions, _terminal: Terminal) -> int:
        asked.append(options)
        return 7

    monkeypatch.setattr(cli, "run_bench", run)
    return asked


def test_the_options_reach_the_benchmark(asked: list[BenchOptions], tmp_path: Path) -> None:
    line = "bench --suite full --max-new-tokens 96 --limit 60 --warmup-limit 20 --dtype bfloat16"
    line += " --category rag --category qa --category rag"
    line += " --strict --drafter none --drafter trie --drafter none --device cpu"
    files = {name: tmp_path / f"{name}.x" for name in ("prompts", "warmup", "json", "charts")}
    arguments = line.split()
    for name, path in files.items():
        arguments += [f"--{name}", str(path)]
    for name in ("prompts", "warmup"):
        files[name].touch()
    assert cli.main(arguments) == 7
    assert asked == [
        BenchOptions(
            suite="full",
            settings=Settings(device="cpu", dtype="bfloat16", strict=True),
            prompts=files["prompts"],
            warmup=files["warmup"],
            max_new_tokens=96,
            limit=60,
            categories=("rag", "qa"),
            warmup_limit=20,
            drafters=("none", "trie"),
            json_path=files["json"],
            charts=files["charts"],
        )
    ]
    assert files["charts"].is_dir()


def test_a_suite_has_defaults_that_suit_it() -> None:
    quick, full = BenchOptions(), BenchOptions(suite="full")
    assert quick.answer_length < full.answer_length
    assert (quick.num_prompts, full.num_prompts) == (13, None)
    assert BenchOptions(prompts=Path("mine")).num_prompts == 13  # of a file of any length
    assert BenchOptions(limit=3).num_prompts == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--limit", "0"], "--limit must be a whole number of at least 1, not '0'"),
        (["--max-new-tokens", "-3"], "--max-new-tokens must be"),
        (["--warmup-limit", "two"], "--warmup-limit must be"),
        (["--drafter", "oracle"], "There is no drafter 'oracle'. Choose of: "),
        (["--prompts", "/nowhere.jsonl"], "/nowhere.jsonl: there is no such file. Check the name"),
        (["--compare", "/nowhere.json"], "/nowhere.json: there is no such file"),
        (["--suite", "start", "--prompts", "x"], "The suite start does not use --prompts: leave"),
        (["--suite", "trie", "--drafter", "none"], "--suite quick, full, replay."),
        (["--measure-costs"], "The suite quick does not use --measure-costs"),
        (["--suite", "trie", "--category", "rag"], "does not use --category"),
        (["--suite", "turns", "--warmup-limit", "3"], "does not use --warmup-limit"),
        (["--json", "/proc/nowhere/x.json"], "cannot be written"),
        (["--dtype", "int3"], "--dtype must be"),
    ],
)
def test_what_is_not_possible_is_refused_at_once(
    asked: list[BenchOptions],
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["bench", *arguments]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert asked == []


def test_a_bad_line_of_prompts_is_told_before_a_model_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "prepare_model", lambda *_, **__: pytest.fail("fetched"))
    monkeypatch.setitem(vars(lookahead), "load_model", lambda *_, **__: pytest.fail("loaded"))
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", "category": "qa", "turns": []}), encoding="utf-8")
    assert cli.main(["bench", "--prompts", str(path)]) == 1
    assert "p.jsonl, line 1: 'turns' must be a list" in capsys.readouterr().err


def test_every_suite_has_a_runner() -> None:
    assert set(bench.SUITES) == bench._RUNNERS.keys()


@pytest.mark.real
def test_the_command_line_waits_for_neither_torch_nor_matplotlib() -> None:
    script = "import sys, app.cli, app.bench.live_suite as _\n"
    script += "print({'torch', 'matplotlib'} & set(sys.modules))"
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"
