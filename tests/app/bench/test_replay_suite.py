"""The suite `replay`: from a file of prompts to tables, figures and a chart."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import app.bench.replay_suite
from app.bench.charts import draw_reliability_chart, draw_replay_chart
from app.bench.cost_curves import FLAT
from app.bench.options import BenchOptions
from app.bench.prompt_sets import BenchPrompt, PromptSet
from app.bench.recordings import RecordedModel, Recording, prompt_digest
from app.bench.reliability import Reliability
from app.bench.replay import PromptReplay, RecordedPrompt, ReplayResult, ReplaySetting
from app.bench.replay_report import replay_figures, replay_rows, replay_tables
from app.bench.replay_suite import (
    _PROMISED_PROMPTS,
    _is_promised,
    _recorded_prompts,
    replay_all,
    run_replay_suite,
)
from app.bench.reports import Figure
from app.settings import Settings
from lookahead import DecodingConfig, TokenSource, drafters
from lookahead.draft import DraftTree
from lookahead.successors import SuccessorTable


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
            (result.setting.name, result.setting.width)
            for result in results
            if result.drafter == name
        ]
        for name in ("none", "prompt-lookup", "token-recycling")
    }
    both = [("cold", 4), ("history", 4), ("cold", 8), ("history", 8)]
    assert by_name["none"] == by_name["prompt-lookup"] == both
    with_rows = [(f"{name}-with-prompt-rows", width) for name, width in both]
    assert sorted(by_name["token-recycling"]) == sorted([*both, *with_rows])
    assert {result.num_plain_steps for result in results} == {20 + 5 + 20}
    plain = next(result for result in results if result.drafter == "none")
    assert plain.tokens_per_step == 1.0


def test_published_drafters_are_as_deep_as_they_like_and_ours_as_the_product_is() -> None:
    results = replay_all(("llma", "trie", "trie-own-context"), PROMPTS, 40, widths=(64,))
    depths = {(result.drafter, result.setting.max_draft_depth) for result in results}
    ours = DecodingConfig().max_draft_depth
    assert depths == {("llma", None), ("trie", ours), ("trie-own-context", ours)}


def a_result(
    drafter: str,
    accepted: list[int],
    *,
    width: int = 32,
    is_cold: bool = True,
    with_prompt_rows: bool = False,
    is_primed: bool = False,
) -> ReplayResult:
    setting = ReplaySetting(width, is_cold, with_prompt_rows, is_primed=is_primed)
    prompts = tuple(
        PromptReplay(
            name,
            category,
            is_looping=name == "b",
            accepted_lengths=accepted,
            widths=[width] * len(accepted),
            accepted_by_source=Counter({TokenSource.OUTPUT: 3, TokenSource.RECYCLED: 1}),
        )
        for name, category in (("a", "first"), ("b", "second"), ("c", "first"), ("d", "second"))
    )
    return ReplayResult(drafter, setting, prompts)


RESULTS = [
    a_result("trie", [3, 1], width=16),
    a_result("trie", [3, 1]),
    a_result("trie", [4, 2], is_cold=False),
    a_result("trie", [3, 1], is_primed=True),
    a_result("suffix", [2, 0]),
    a_result("suffix", [6, 2], is_cold=False),
]


def figures_of(results: Sequence[ReplayResult], *, is_promised: bool = False) -> dict[str, Figure]:
    figures = replay_figures(results, [FLAT], is_promised=is_promised)
    return {figure.name: figure for figure in figures}


def test_figures_have_stable_names_in_the_words_of_the_live_suites() -> None:
    figures = figures_of(RESULTS)
    assert figures["replay.trie.cold.tokens_per_step.w32"].value == 3.0
    assert figures["replay.trie.cold.mean_width.w32"].value == 32.0
    assert figures["replay.trie.cold.acceptance_rate.w32"].value == pytest.approx(2 / 31)
    assert figures["replay.trie.cold.drafting_milliseconds.w32"].value == 0.0
    ratio = figures["replay.trie.cold.expected_decode_ratio_over_plain.flat.w32"]
    assert ratio.value == pytest.approx(3 / FLAT.at(32) * 20)
    assert {figure.target for figure in figures.values()} == {None}


def test_tokens_per_step_have_a_target_where_it_was_promised_and_nowhere_else() -> None:
    figures = figures_of(RESULTS, is_promised=True)
    targets = {name: figure.target for name, figure in figures.items() if figure.target}
    assert targets == {
        "replay.trie.cold-primed.tokens_per_step.untuned.w32": 2.85,
        "replay.trie.history.tokens_per_step.untuned.w32": 2.95,
    }


def test_the_promise_is_of_all_those_prompts_their_length_and_the_embedded_model() -> None:
    all_of_them = PromptSet("any name", _PROMISED_PROMPTS, ())
    options = BenchOptions(suite="replay")
    assert _is_promised(options, all_of_them)
    assert not _is_promised(options, PromptSet("specbench-dev.jsonl", "0" * 64, ()))
    for change in ({"limit": 60}, {"max_new_tokens": 128}, {"settings": Settings(model="other")}):
        assert not _is_promised(replace(options, **change), all_of_them)


def test_ours_over_the_best_published_drafter_of_the_same_setting_is_one_promised_figure() -> None:
    others = [name for name in drafters.published_names() if name != "token-recycling"]
    results = [
        *(a_result(name, [0, 0], is_cold=cold) for name in others for cold in (True, False)),
        a_result("none", [15, 15], is_cold=False),
        a_result("trie-own-context", [15, 15], is_cold=False),
        a_result("suffix", [15, 15], is_cold=False, width=64),
        a_result("token-recycling", [1, 1]),
        a_result("token-recycling", [3, 3], with_prompt_rows=True),
        a_result("token-recycling", [2, 2], is_cold=False),
        a_result("token-recycling", [9, 9], is_cold=False, with_prompt_rows=True),
        a_result("trie", [4, 4]),
        a_result("trie", [5, 5], is_cold=False),
        a_result("trie", [5, 5], with_prompt_rows=True),
    ]
    figures = figures_of(results)
    found = {
        name: (figure.value, figure.target)
        for name, figure in figures.items()
        if "over_best_published" in name
    }
    assert found == {
        "replay.trie.cold.over_best_published.w32": (5 / 2, None),
        "replay.trie.history.over_best_published.w32": (6 / 3, None),
        "replay.trie.over_best_published.w32": (6 / 3, 1.25),
        "replay.trie.cold-with-prompt-rows.over_best_published.w32": (6 / 4, None),
    }
    assert figures["replay.trie.over_best_published.w32"].is_met is True


def test_a_drafter_that_reads_no_rows_counts_beside_prompt_rows_too() -> None:
    published = drafters.published_names()
    results = [a_result(name, [4 if name == "suffix" else 0], is_cold=False) for name in published]
    ours = a_result("trie", [9], is_cold=False, with_prompt_rows=True)
    name = "replay.trie.history-with-prompt-rows.over_best_published.w32"
    assert figures_of([*results, ours])[name].value == 10 / 5
    missing = figures_of([*results[1:], ours])
    assert name not in missing, "the best of some is not the best"


def test_answers_that_loop_are_left_out_where_the_figure_says_so() -> None:
    looping = PromptReplay("b", "any", is_looping=True, accepted_lengths=[15], widths=[16])
    other = PromptReplay("a", "any", accepted_lengths=[1, 1, 1], widths=[16, 16, 16])
    result = ReplayResult("suffix", ReplaySetting(16), (looping, other))
    figures = figures_of([result])
    assert figures["replay.suffix.cold.tokens_per_step.w16"].value == 22 / 4
    assert figures["replay.suffix.cold.tokens_per_step.not_looping.w16"].value == 2.0


def test_tables_have_a_row_for_every_drafter_and_setting() -> None:
    with_rows = a_result("trie", [8, 8], with_prompt_rows=True)
    by_width, not_looping, untuned, by_category, by_curve, by_source = replay_tables(
        [*RESULTS, with_rows], [FLAT]
    )
    assert ("trie, cold with prompt rows", "–", "9.00") in by_width.rows
    assert not_looping.rows == by_width.rows
    assert untuned.rows == by_width.rows, "every second prompt fared like the first"
    assert ("trie, cold primed", "–", "3.00") in by_width.rows
    assert len(by_category.rows) == 5, "prompt rows are no part of the loop today"
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
    assert (row["num_steps"], row["num_accepted"]) == ([2] * 4, [4] * 4)
    assert row["accepted_by_source"] == {"output": 12, "recycled": 4}


def test_the_half_not_tuned_on_is_every_second_prompt_of_each_category() -> None:
    prompts = [(name, category) for category in "xy" for name in "abc"]
    result = ReplayResult("trie", ReplaySetting(4), tuple(PromptReplay(*each) for each in prompts))
    assert [(one.id, one.category) for one in result.untuned.prompts] == [("b", "x"), ("b", "y")]


def test_a_primed_table_is_there_from_the_first_step_and_no_prompt_changes_it_for_another() -> None:
    table = SuccessorTable(100)
    table.update([10, 11, 12, 13], np.array([[11], [12], [13], [10]]).repeat(8, axis=1))
    before = table.to_bytes()
    results = replay_all(("trie",), PROMPTS, 40, widths=(8,), primed=table)
    by_name = {result.setting.name: result for result in results}
    first_steps = {name: found.prompts[0].accepted_lengths[0] for name, found in by_name.items()}
    assert first_steps["cold-primed"] > first_steps["cold"]
    assert first_steps["history-primed"] > first_steps["history"]
    assert table.to_bytes() == before


def test_what_a_draft_said_is_held_against_what_came_among_children_of_reached_nodes() -> None:
    sources = (TokenSource.OUTPUT,) * 5
    draft = DraftTree(
        (1, 2, 3, 4, 5), (-1, 0, 1, 0, 3), sources, (1, 0.5, 0.25, 0.2, 0.1), (-1,) * 5
    )
    reliability = Reliability()
    reliability.observe(draft, [1])
    assert reliability.points() == [(0.2, 0.0, 1), (0.5, 0.5, 2)]
    assert reliability.largest_error(1) == pytest.approx(0.2)
    assert reliability.largest_error(2) == 0.0
    assert reliability.largest_error(3) is None
    assert (reliability + reliability).points() == [(0.2, 0.0, 2), (0.5, 0.5, 4)]


def test_the_reliability_chart_is_drawn_where_ours_was_replayed(tmp_path: Path) -> None:
    ((name, _),) = draw_reliability_chart(RESULTS, tmp_path)
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert draw_reliability_chart(RESULTS[-2:], tmp_path) == []


def test_the_chart_is_drawn_as_a_png(tmp_path: Path) -> None:
    many = [a_result(name, [1, 2]) for name in drafters.names()]
    ((name, title),) = draw_replay_chart([*RESULTS, *many], tmp_path)
    assert title
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_prompts_are_replayed_in_the_order_of_the_set_which_goes_round_its_categories() -> None:
    class Recorder:
        builder = SimpleNamespace(
            build_chat=lambda turns: SimpleNamespace(token_ids=tuple(turns[0].text.encode()))
        )

        def recordings(self, prompts: Sequence[tuple[int, ...]]) -> dict[str, Recording]:
            one = PROMPTS[0].recording
            return {
                prompt_digest(ids): Recording(one.model, ids, (10,), one.top_ids) for ids in prompts
            }

    chosen = PromptSet(
        "some", "0", tuple(BenchPrompt(f"{n}{c}", c, (f"{n}{c}",)) for n in "12" for c in "ab")
    )
    prompts, _ = _recorded_prompts(Recorder(), chosen)  # type: ignore[arg-type]
    assert [prompt.id for prompt in prompts] == ["1a", "1b", "2a", "2b"]


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
    from lookahead import priming

    monkeypatch.setenv("LOOKAHEAD_CHAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(app.bench.replay_suite, "WIDTHS", (4,))
    prime = priming.prime  # all of it takes minutes
    monkeypatch.setattr(priming, "prime", lambda *arguments: islice(prime(*arguments), 2))
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
