"""What replays found: tables, figures with stable names, a chart.

Knows results and curves, no drafter and no recording. Called by the replay suite.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.bench.cost_curves import CostCurve
from app.bench.replay import ReplayResult
from app.bench.reports import Figure, Table, format_number

__all__ = ["draw_replay_chart", "replay_figures", "replay_rows", "replay_tables"]

OURS = "trie"
_CHART_NAME = "replay-tokens-per-step.png"
_CHART_TITLE = "Replay: tokens per step by width of the draft"
# Okabe and Ito's palette, which colour-blind people can tell apart; our own drafter comes first.
_COLOURS = ("#D55E00", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#444444", "#999999")


def replay_tables(results: Sequence[ReplayResult], curves: Sequence[CostCurve]) -> list[Table]:
    """Tokens per step by width; by category; what it would be worth; where tokens came from."""
    widths = sorted({result.setting.width for result in results})
    tables = [_by_width(results, widths)]
    widest = [result for result in results if result.setting.width == _shown_width(widths)]
    tables.append(_by_category(widest))
    tables.append(_by_curve(results, curves))
    tables.append(_by_source(widest))
    return tables


def replay_figures(results: Sequence[ReplayResult], curves: Sequence[CostCurve]) -> list[Figure]:
    """Figures named `replay.DRAFTER.SETTING.QUANTITY.wWIDTH`.

    The target of our drafter's tokens per step is the best of the others in the same setting.
    """
    figures = []
    for result in results:
        end = f"w{result.setting.width}"
        name = f"replay.{result.drafter}.{setting_name(result)}"
        others = [
            other.tokens_per_step
            for other in results
            if other.setting == result.setting and other.drafter != OURS
        ]
        target = max(others, default=None) if result.drafter == OURS else None
        mat = result.tokens_per_step
        figures += [
            Figure(f"{name}.mat.{end}", mat, "tokens/step", target),
            Figure(f"{name}.mat_not_looping.{end}", _value(result.not_looping), "tokens/step"),
            Figure(f"{name}.mean_width.{end}", result.mean_width, "rows"),
            Figure(f"{name}.draft_time.{end}", result.draft_milliseconds, "ms/step"),
        ]
        figures += [
            Figure(f"{name}.speedup.{curve.name}.{end}", curve.speedup(result), "x")
            for curve in curves
        ]
    return figures


def replay_rows(results: Sequence[ReplayResult]) -> list[dict[str, Any]]:
    """One row a result; what is told per prompt stands in the order of the prompts."""
    return [
        {
            "drafter": result.drafter,
            "setting": setting_name(result),
            "width": result.setting.width,
            "tokens_per_step": result.tokens_per_step,
            "mean_width": result.mean_width,
            "widths": {str(width): steps for width, steps in sorted(result.widths.items())},
            "acceptance_rate": result.acceptance_rate,
            "accepted_by_source": dict(sorted(result.accepted_by_source.items())),
            "draft_milliseconds": result.draft_milliseconds,
            "num_steps": [prompt.num_steps for prompt in result.prompts],
            "num_accepted": [prompt.num_accepted for prompt in result.prompts],
        }
        for result in results
    ]


def setting_name(result: ReplayResult) -> str:
    """`cold` or `history`, and whether the prompt's rows were kept from the drafter."""
    name = "cold" if result.setting.is_cold else "history"
    return name if result.setting.with_prompt_rows else f"{name}-without-prompt-rows"


def _title(result: ReplayResult) -> str:
    """Drafter and setting as tables show them."""
    return f"{result.drafter}, {setting_name(result).replace('-', ' ')}"


def _by_width(results: Sequence[ReplayResult], widths: Sequence[int]) -> Table:
    found = {(_title(result), result.setting.width): result for result in results}
    titles = dict.fromkeys(_title(result) for result in results)
    rows = [(title, *(_mat(found.get((title, width))) for width in widths)) for title in titles]
    return Table("Tokens per step by width", ("drafter", *map(str, widths)), tuple(rows))


def _by_category(results: Sequence[ReplayResult]) -> Table:
    """One width; the settings without prompt rows are left out."""
    shown = [result for result in results if result.setting.with_prompt_rows]
    categories = shown[0].categories if shown else ()
    rows = [
        (
            _title(result),
            *(_mat(result.of_category(category)) for category in categories),
            _mat(result.not_looping),
            _mat(result),
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
    """Where the accepted tokens came from, in percent, and what drafting them took."""
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
                format_number(result.draft_milliseconds),
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


def _mat(result: ReplayResult | None) -> str:
    return format_number(_value(result))


def _shown_width(widths: Sequence[int]) -> int:
    """The width shown in tables that have room for one: 32 where it was replayed."""
    return 32 if 32 in widths else max(widths, default=0)


def draw_replay_chart(results: Sequence[ReplayResult], folder: Path) -> list[tuple[str, str]]:
    """Draw tokens per step by width, cold and with history; returns (file name, what it shows).

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Chart

    shown = [result for result in results if result.setting.with_prompt_rows]
    if not shown:
        return []
    chart = Chart(figsize=(11, 4.8), layout="constrained")
    FigureCanvasAgg(chart)
    chart.suptitle(_CHART_TITLE)
    all_axes = chart.subplots(1, 2, sharey=True)
    names = sorted({result.drafter for result in shown}, key=lambda name: (name != OURS, name))
    panels = ((True, "cold"), (False, "with the history of the run"))
    for axes, (is_cold, title) in zip(all_axes, panels, strict=True):
        axes.set_title(title)
        for number, name in enumerate(names):
            own = [r for r in shown if r.drafter == name and r.setting.is_cold == is_cold]
            own.sort(key=lambda result: result.setting.width)
            axes.plot(
                [result.setting.width for result in own],
                [result.tokens_per_step for result in own],
                marker="o",
                markersize=4,
                linewidth=2.5 if name == OURS else 1.3,
                color=_COLOURS[number % len(_COLOURS)],
                label=name,
            )
        widths = sorted({result.setting.width for result in shown})
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.set_xlabel("width: nodes verified at most")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("tokens per step")
    lines, labels = all_axes[0].get_legend_handles_labels()
    chart.legend(lines, labels, loc="outside right upper", frameon=False)
    chart.savefig(folder / _CHART_NAME, dpi=130)
    return [(_CHART_NAME, _CHART_TITLE)]
