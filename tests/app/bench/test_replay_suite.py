"""The suite `replay`: from a file of prompts to tables, figures and a chart."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import app.bench.replay_suite
from app.bench.cost_curves import FLAT
from app.bench.options import BenchOptions
from app.bench.recordings import RecordedModel, Recording
from app.bench.replay import PromptReplay, RecordedPrompt, ReplayResult, ReplaySetting
from app.bench.replay_report import (
    draw_replay_chart,
    replay_figures,
    replay_rows,
    replay_tables,
    setting_name,
)
from app.bench.replay_suite import replay_all, run_replay_suite
from app.settings import Settings
from lookahead import TokenSource


def recorded(name: str, answer: Sequence[int], category: str = "any") -> RecordedPrompt:
    """Behind every token the row says: the next token, then others."""
    whole = [1, 3, *answer]
    rows = np.array([[after, *range(90, 97)] for after in whole[1:]], np.int32)
    model = RecordedModel(100, 400, (2,))
    return RecordedPrompt(name, category, Recording(model, (1, 3), tuple(answer), rows))


PROMPTS = [
    recorded("a", [10, 11, 12, 13] * 5 + [2], "first"),
    recorded("b", [20, 21, 22, 3, 20, 2], "second"),
    recorded("c", [10, 11, 12, 13] * 5 + [2], "first"),
]


def test_every_drafter_is_replayed_at_every_width_cold_and_with_history() -> None:
    results = list(
        replay_all(("none", "prompt-lookup", "token-recycling"), PROMPTS, 40, widths=(4, 8))
    )
    by_name = {
        name: [
            (setting_name(result), result.setting.width)
            for result in results
            if result.drafter == name
        ]
        for name in ("none", "prompt-lookup", "token-recycling")
    }
    both = [("cold", 4), ("history", 4), ("cold", 8), ("history", 8)]
    assert by_name["none"] == by_name["prompt-lookup"] == both
    without = [(f"{name}-without-prompt-rows", width) for name, width in both]
    assert sorted(by_name["token-recycling"]) == sorted([*both, *without])
    assert {result.num_plain_steps for result in results} == {20 + 5 + 20}
    plain = next(result for result in results if result.drafter == "none")
    assert plain.tokens_per_step == 1.0


def a_result(
    drafter: str, accepted: list[int], *, width: int = 32, is_cold: bool = True
) -> ReplayResult:
    setting = ReplaySetting(width, is_cold=is_cold)
    prompts = tuple(
        PromptReplay(
            name,
            category,
            is_looping=name == "b",
            accepted_lengths=accepted,
            widths=[width] * len(accepted),
            accepted_by_source=Counter({TokenSource.OUTPUT: 3, TokenSource.RECYCLED: 1}),
        )
        for name, category in (("a", "first"), ("b", "second"))
    )
    return ReplayResult(drafter, setting, prompts)


RESULTS = [
    a_result("trie", [3, 1], width=16),
    a_result("trie", [3, 1]),
    a_result("trie", [4, 2], is_cold=False),
    a_result("suffix", [2, 0]),
    a_result("suffix", [6, 2], is_cold=False),
]


def test_figures_have_stable_names_and_ours_must_beat_the_best_of_the_others() -> None:
    figures = {figure.name: figure for figure in replay_figures(RESULTS, [FLAT])}
    assert figures["replay.trie.cold.mat.w32"].value == 3.0
    assert figures["replay.trie.cold.mat.w32"].target == 2.0
    assert figures["replay.trie.cold.mat.w32"].is_met is True
    assert figures["replay.trie.history.mat.w32"].target == 5.0
    assert figures["replay.trie.history.mat.w32"].is_met is False
    assert figures["replay.trie.cold.mat.w16"].target is None
    assert figures["replay.suffix.history.mat.w32"].target is None
    assert figures["replay.trie.cold.mean_width.w32"].value == 32.0
    assert figures["replay.trie.cold.speedup.flat.w32"].value == pytest.approx(3 / FLAT.at(32) * 20)
    assert figures["replay.trie.cold.draft_time.w32"].value == 0.0


def test_answers_that_loop_are_left_out_where_the_figure_says_so() -> None:
    looping = PromptReplay("b", "any", is_looping=True, accepted_lengths=[15], widths=[16])
    other = PromptReplay("a", "any", accepted_lengths=[1, 1, 1], widths=[16, 16, 16])
    result = ReplayResult("suffix", ReplaySetting(16), (looping, other))
    figures = {figure.name: figure.value for figure in replay_figures([result], [])}
    assert figures["replay.suffix.cold.mat.w16"] == 22 / 4
    assert figures["replay.suffix.cold.mat_not_looping.w16"] == 2.0


def test_tables_have_a_row_for_every_drafter_and_setting() -> None:
    by_width, by_category, by_curve, by_source = replay_tables(RESULTS, [FLAT])
    assert by_width.columns == ("drafter", "16", "32")
    assert by_width.rows[0] == ("trie, cold", "3.00", "3.00")
    assert ("trie, history", "–", "4.00") in by_width.rows
    assert by_category.columns == ("drafter", "first", "second", "not looping", "all")
    assert ("suffix, history", "5.00", "5.00", "5.00", "5.00") in by_category.rows
    assert by_curve.rows[0] == ("trie, cold", "2.93 at 16")
    assert by_source.rows[0][:3] == ("trie, cold", "32.0", "6.5")
    assert "75.0" in by_source.rows[0]


def test_rows_tell_steps_per_prompt_and_are_plain_json() -> None:
    row = json.loads(json.dumps(replay_rows(RESULTS)))[1]
    assert (row["drafter"], row["setting"], row["width"]) == ("trie", "cold", 32)
    assert (row["num_steps"], row["num_accepted"]) == ([2, 2], [4, 4])
    assert row["accepted_by_source"] == {"output": 6, "recycled": 2}


def test_the_chart_is_drawn_as_a_png(tmp_path: Path) -> None:
    ((name, title),) = draw_replay_chart(RESULTS, tmp_path)
    assert title
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def prompt_file(tmp_path: Path) -> Path:
    lines = [
        {"id": "one", "category": "greeting", "turns": ["Say hello three times.", "Again."]},
        {"id": "two", "category": "list", "turns": ["Count: one, two, three, one, two,"]},
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_run_records_once_and_later_needs_no_model(
    tmp_path: Path, prompt_file: Path, embedded_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKAHEAD_CHAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(app.bench.replay_suite, "WIDTHS", (4,))
    options = BenchOptions(
        suite="replay",
        settings=Settings(model=str(embedded_model_path), device="cpu"),
        prompts=prompt_file,
        max_new_tokens=8,
        drafters=("prompt-lookup", "trie"),
    )
    first = run_replay_suite(options, lambda _: None)

    def no_model(*_: object, **__: object) -> None:
        pytest.fail("the model was loaded again")

    monkeypatch.setattr("lookahead.load_model", no_model)
    second = run_replay_suite(options, lambda _: None)
    assert first.rows[0]["num_steps"] == second.rows[0]["num_steps"]
    assert {row["drafter"] for row in second.rows} == {"prompt-lookup", "trie"}
    assert second.extra["prompts"] == [
        {"id": "one", "category": "greeting"},
        {"id": "two", "category": "list"},
    ]
    assert second.is_complete
    assert str(tmp_path) not in json.dumps([second.options, second.notes, second.extra])
