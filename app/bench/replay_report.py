"""What replays found: tables and figures with stable names.

Knows results and curves, of drafters their names only. Called by the replay suite.
"""

from collections.abc import Sequence
from typing import Any

from app.bench.cost_curves import CostCurve
from app.bench.replay import ReplayResult
from app.bench.reports import Figure, Table, format_number
from lookahead import drafters

__all__ = ["replay_figures", "replay_rows", "replay_tables"]

_OURS = "trie"
_SHOWN_WIDTH = 32  # in tables that have room for one
# Promised of our drafter at width 32, on the half of the prompts that it was not tuned on. Tokens
# per step: of the first turns of Spec-Bench's half for development, 256 tokens each.
_TARGET_OVER_BEST_PUBLISHED = 1.25
_TARGET_TOKENS_PER_STEP = {"cold-primed": 2.85, "history": 2.95}
_MIN_SAMPLES = 200  # of a tenth whose reliability counts


def replay_tables(results: Sequence[ReplayResult], curves: Sequence[CostCurve]) -> list[Table]:
    """Tokens per step by width, with and without looping answers; by category; what it would be
    worth; where tokens came from.
    """
    widths = sorted({result.setting.width for result in results})
    shown_width = _SHOWN_WIDTH if _SHOWN_WIDTH in widths else max(widths, default=0)
    widest = [result for result in results if result.setting.width == shown_width]
    not_looping = [result.not_looping for result in results]
    untuned = [result.untuned for result in results]
    return [
        _by_width("Tokens per step by width", results, widths),
        _by_width("Tokens per step by width, answers that do not loop", not_looping, widths),
        _by_width("Tokens per step by width, prompts not tuned on", untuned, widths),
        _by_category(widest),
        _by_curve(results, curves),
        _by_source(widest),
    ]


def replay_figures(
    results: Sequence[ReplayResult], curves: Sequence[CostCurve], *, is_promised: bool
) -> list[Figure]:
    """Figures named `replay.DRAFTER.SETTING.QUANTITY.wWIDTH`, and ours over the best published.

    Args:
        is_promised: whether these are the prompts for which tokens per step were promised.
    """
    figures = []
    for result in results:
        end = f"w{result.setting.width}"
        name = f"replay.{result.drafter}.{result.setting.name}"
        tokens = f"{name}.tokens_per_step"
        target = None
        if is_promised and result.drafter == _OURS and result.setting.width == _SHOWN_WIDTH:
            target = _TARGET_TOKENS_PER_STEP.get(result.setting.name)
        not_looping = _value(result.not_looping)
        figures += [
            Figure(f"{tokens}.{end}", _value(result), "tokens/step"),
            Figure(f"{tokens}.untuned.{end}", _value(result.untuned), "tokens/step", target),
            Figure(f"{tokens}.not_looping.{end}", not_looping, "tokens/step"),
            Figure(f"{name}.mean_width.{end}", result.mean_width, "rows"),
            Figure(f"{name}.acceptance_rate.{end}", result.acceptance_rate, "share"),
            Figure(f"{name}.drafting_milliseconds.{end}", result.drafting_milliseconds, "ms/step"),
        ]
        if result.drafter == _OURS:
            error = result.untuned.reliability.largest_error(_MIN_SAMPLES)
            figures.append(Figure(f"{name}.reliability_error.{end}", error, "probability"))
        ratio = f"{name}.expected_decode_ratio_over_plain"
        figures += [
            Figure(f"{ratio}.{curve.name}.{end}", curve.speedup(result), "ratio")
            for curve in curves
        ]
    return figures + _over_best_published(results)


def _over_best_published(results: Sequence[ReplayResult]) -> list[Figure]:
    """Our tokens per step over the best published drafter's, of the prompts ours was not tuned on:
    in every setting, and, which is what was promised, with history. Nothing where one was not
    replayed.
    """
    names = drafters.published_names()
    figures = []
    for ours in results:
        if ours.drafter != _OURS or ours.setting.width != _SHOWN_WIDTH:
            continue
        rivals = [rival for name in names if (rival := _rival(results, ours, name)) is not None]
        if len(rivals) < len(names) or not ours.untuned.num_steps:
            continue
        best = max(rival.untuned.tokens_per_step for rival in rivals)
        ratio = ours.untuned.tokens_per_step / best
        end = f"over_best_published.w{_SHOWN_WIDTH}"
        figures.append(Figure(f"replay.trie.{ours.setting.name}.{end}", ratio, "ratio"))
        if ours.setting.name == "history":
            promised = Figure(f"replay.trie.{end}", ratio, "ratio", _TARGET_OVER_BEST_PUBLISHED)
            figures.append(promised)
    return figures


def _rival(results: Sequence[ReplayResult], ours: ReplayResult, name: str) -> ReplayResult | None:
    """A drafter's result at our width, with our history and prompt rows.

    One that reads no rows was not replayed with the prompt's: its only result stands for both.
    """
    own = [
        result
        for result in results
        if result.drafter == name
        and result.setting.width == ours.setting.width
        and result.setting.is_cold == ours.setting.is_cold
    ]
    own.sort(key=lambda result: result.setting.name != ours.setting.name)
    return own[0] if own else None


def replay_rows(results: Sequence[ReplayResult]) -> list[dict[str, Any]]:
    """One row a result; what is told per prompt stands in the order of the prompts."""
    return [
        {
            "drafter": result.drafter,
            "setting": result.setting.name,
            "width": result.setting.width,
            "tokens_per_step": result.tokens_per_step,
            "mean_width": result.mean_width,
            "widths": {str(width): steps for width, steps in sorted(result.widths.items())},
            "acceptance_rate": result.acceptance_rate,
            "reliability": result.reliability.points(),
            "accepted_by_source": dict(sorted(result.accepted_by_source.items())),
            "drafting_milliseconds": result.drafting_milliseconds,
            "prefill_seconds": sum(prompt.prefill_seconds for prompt in result.prompts),
            "remember_seconds": sum(prompt.remember_seconds for prompt in result.prompts),
            "num_steps": [prompt.num_steps for prompt in result.prompts],
            "num_accepted": [prompt.num_accepted for prompt in result.prompts],
        }
        for result in results
    ]


def _title(result: ReplayResult) -> str:
    """Drafter and setting as tables show them."""
    return f"{result.drafter}, {result.setting.name.replace('-', ' ')}"


def _by_width(title: str, results: Sequence[ReplayResult], widths: Sequence[int]) -> Table:
    found = {(_title(result), result.setting.width): result for result in results}
    names = dict.fromkeys(_title(result) for result in results)
    rows = [(name, *(_tokens(found.get((name, width))) for width in widths)) for name in names]
    return Table(title, ("drafter", *map(str, widths)), tuple(rows))


def _by_category(results: Sequence[ReplayResult]) -> Table:
    """One width; the settings with prompt rows, which the loop does not have, are left out."""
    shown = [result for result in results if not result.setting.with_prompt_rows]
    categories = shown[0].categories if shown else ()
    rows = [
        (
            _title(result),
            *(_tokens(result.of_category(category)) for category in categories),
            _tokens(result.not_looping),
            _tokens(result),
        )
        for result in shown
    ]
    width = shown[0].setting.width if shown else 0
    title = f"Tokens per step by category, width {width}"
    return Table(title, ("drafter", *categories, "not looping", "all"), tuple(rows))


def _by_curve(results: Sequence[ReplayResult], curves: Sequence[CostCurve]) -> Table:
    """The width that pays most under each curve."""
    rows = []
    for title in dict.fromkeys(_title(result) for result in results):
        own = [result for result in results if _title(result) == title]
        rows.append((title, *(_best(own, curve) for curve in curves)))
    return Table(
        "Expected speed-up over plain in the same mode, at its best width",
        ("drafter", *(curve.title for curve in curves)),
        tuple(rows),
    )


def _best(results: Sequence[ReplayResult], curve: CostCurve) -> str:
    """The best speed-up and its width, of equal ones the narrowest."""
    speedups = [
        (round(speedup, 2), -result.setting.width)
        for result in results
        if (speedup := curve.speedup(result)) is not None
    ]
    if not speedups:
        return "–"
    speedup, negated_width = max(speedups)
    return f"{speedup:.2f} at {-negated_width}"


def _by_source(results: Sequence[ReplayResult]) -> Table:
    """Where the accepted tokens came from, in percent, and what a step's drafting took."""
    sources = sorted({source for result in results for source in result.accepted_by_source})
    rows = []
    for result in results:
        total = max(1, result.accepted_by_source.total())
        shares = (100 * result.accepted_by_source[source] / total for source in sources)
        rows.append(
            (
                _title(result),
                format_number(result.mean_width, 1),
                format_number(100 * result.acceptance_rate, 1),
                *(format_number(share, 1) for share in shares),
                format_number(result.drafting_milliseconds),
            )
        )
    width = results[0].setting.width if results else 0
    columns = (
        "drafter",
        "mean width",
        "accepted of drafted, %",
        *(f"{source}, %" for source in sources),
        "CPU ms a step",
    )
    return Table(f"Drafts at width {width}", columns, tuple(rows))


def _value(result: ReplayResult | None) -> float | None:
    """Tokens per step; None where there was no step."""
    return result.tokens_per_step if result is not None and result.num_steps else None


def _tokens(result: ReplayResult | None) -> str:
    return format_number(_value(result))
