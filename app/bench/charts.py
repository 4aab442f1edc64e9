"""Charts as PNG files: of live runs, of the Trie as it grows, of replays.

The only place that knows matplotlib, which is imported when a chart is drawn. Called when a run is
over.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.bench.live_report import drafting_arms
from app.bench.measurements import Measurements, rolling_median
from app.bench.replay import ReplayResult
from lookahead import drafters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_live_charts", "draw_reliability_chart", "draw_replay_chart", "draw_trie_chart"]

# Okabe and Ito's palette, which colour-blind people can tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#444444")
_LONGEST_SHOWN = 15
_ROLLING = 9  # prompts
_PNG_DPI = 130


def draw_live_charts(
    measured: Measurements, titles: Mapping[str, str], folder: Path
) -> list[tuple[str, str]]:
    """Draw what the rows give; returns (file name, what it shows).

    Raises:
        OSError: a file cannot be written.
    """
    arms = drafting_arms(measured)
    if not arms or not measured.of("plain"):
        return []
    charts = (
        ("speedup-by-category.png", "Decode speed over our plain loop, by category", _speedups),
        ("accepted-lengths.png", "Accepted drafted tokens per step", _accepted_lengths),
        ("learning.png", "Decode speed over the run, as the Trie learns", _learning),
    )
    for name, title, draw in charts:
        figure, (axes,) = _new_chart(title)
        draw(axes, measured, titles, arms)
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
        figure.savefig(folder / name, dpi=_PNG_DPI)
    return [(name, title) for name, title, _ in charts]


def _new_chart(title: str, panels: Sequence[str] = ("",)) -> "tuple[Any, list[Axes]]":
    """A figure that belongs to nobody else: pyplot's global state is not touched.

    Args:
        panels: titles of the axes, side by side with one scale.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9 if len(panels) == 1 else 11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0].tolist()
    for axes, panel in zip(all_axes, panels, strict=True):
        axes.set_title(panel, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    return figure, all_axes


def _speedups(
    axes: "Axes", measured: Measurements, titles: Mapping[str, str], arms: Sequence[str]
) -> None:
    """A group of bars for each category, each with its interval; all prompts come last."""
    groups = [*measured.categories, "all"]
    width = 0.8 / len(arms)
    for number, arm in enumerate(arms):
        estimates = [
            measured.speedup(
                arm,
                "plain",
                keep=lambda row, g=group: g in ("all", row.category),  # type: ignore[misc]
            )
            for group in groups
        ]
        places = [at + (number - (len(arms) - 1) / 2) * width for at in range(len(groups))]
        below = [estimate.value - estimate.low for estimate in estimates]
        above = [estimate.high - estimate.value for estimate in estimates]
        axes.bar(
            places,
            [estimate.value for estimate in estimates],
            width,
            yerr=[below, above],
            error_kw={"elinewidth": 0.8, "alpha": 0.7},
            color=_COLOURS[number % len(_COLOURS)],
            label=titles[arm],
        )
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(groups)), groups, rotation=35, ha="right", fontsize="small")
    axes.set_ylabel("times plain")


def _accepted_lengths(
    axes: "Axes", measured: Measurements, titles: Mapping[str, str], arms: Sequence[str]
) -> None:
    """Share of steps by accepted length; all that is longer is in the last bar."""
    width = 0.8 / len(arms)
    for number, arm in enumerate(arms):
        lengths = measured.totals(arm).accepted_lengths
        counts = [lengths[length] for length in range(_LONGEST_SHOWN)]
        counts.append(lengths.total() - sum(counts))
        total = max(1, lengths.total())
        places = [at + (number - (len(arms) - 1) / 2) * width for at in range(len(counts))]
        axes.bar(
            places,
            [100 * count / total for count in counts],
            width,
            color=_COLOURS[number % len(_COLOURS)],
            label=titles[arm],
        )
    labels = [*map(str, range(_LONGEST_SHOWN)), f"≥{_LONGEST_SHOWN}"]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("drafted tokens accepted in a step")
    axes.set_ylabel("% of steps")


def _learning(
    axes: "Axes", measured: Measurements, titles: Mapping[str, str], arms: Sequence[str]
) -> None:
    """Tokens per second of decoding, rolling median over the last prompts."""
    for number, arm in enumerate(["plain", *arms]):
        rates = [rate for row in measured.of(arm) if (rate := row.result.decode_rate) is not None]
        axes.plot(
            range(1, len(rates) + 1),
            rolling_median(rates, _ROLLING),
            color="#999999" if arm == "plain" else _COLOURS[(number - 1) % len(_COLOURS)],
            label=titles[arm],
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"prompts answered (median of the last {_ROLLING})")
    axes.set_ylabel("tokens/s")


def draw_trie_chart(measured: Sequence[Mapping[str, float]], folder: Path) -> list[tuple[str, str]]:
    """Draw how drafts, building and opening grow with the Trie; returns (file name, title).

    Args:
        measured: for each vocabulary and size, `vocabulary` and the fields of `TrieMeasurement`.

    Raises:
        OSError: the file cannot be written.
    """
    lines = (
        ("candidates_p50_ms", "search of the Trie p50", 1.0),
        ("draft_p50_ms", "draft p50", 1.0),
        ("draft_p99_ms", "draft p99", 1.0),
        ("unmerged_draft_p99_ms", "draft p99, nothing merged", 1.0),
        ("turn_saved_p50_ms", "turn saved p50", 1.0),
        ("open_seconds", "open", 1000.0),
        ("build_cpu_seconds", "build, CPU", 1000.0),
    )
    title = "What the Trie costs as it grows"
    vocabularies = sorted({one["vocabulary"] for one in measured})
    figure, all_axes = _new_chart(title, [f"{size:,} token ids" for size in vocabularies])
    for axes, vocabulary in zip(all_axes, vocabularies, strict=True):
        ones = [one for one in measured if one["vocabulary"] == vocabulary]
        sizes = [one["num_tokens"] for one in ones]
        for number, (field, label, scale) in enumerate(lines):
            values = [one[field] * scale for one in ones]
            shown_label = label if axes is all_axes[0] else ""
            axes.plot(sizes, values, marker="o", color=_COLOURS[number], label=shown_label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("tokens")
    all_axes[0].set_ylabel("milliseconds")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    figure.savefig(folder / "trie-growth.png", dpi=_PNG_DPI)
    return [("trie-growth.png", title)]


def draw_replay_chart(results: Sequence[ReplayResult], folder: Path) -> list[tuple[str, str]]:
    """Draw tokens per step by width, cold and with history; returns (file name, what it shows).

    Raises:
        OSError: the file cannot be written.
    """
    panels = {"cold": "cold", "history": "with the history of the run"}
    shown = [result for result in results if result.setting.name in panels]
    names = [name for name in drafters.names() if any(name == one.drafter for one in shown)]
    names.sort(key=lambda name: name not in drafters.OURS)  # ours first, in their own colours
    title = "Replay: tokens per step by width of the draft"
    figure, all_axes = _new_chart(title, list(panels.values()))
    for axes, setting in zip(all_axes, panels, strict=True):
        for number, name in enumerate(names):
            own = [one for one in shown if (one.drafter, one.setting.name) == (name, setting)]
            own.sort(key=lambda result: result.setting.width)
            axes.plot(
                [result.setting.width for result in own],
                [result.tokens_per_step for result in own],
                marker="o",
                markersize=4,
                linewidth=2.5 if name in drafters.OURS else 1.3,
                linestyle="-" if number < len(_COLOURS) else "--",
                color=_COLOURS[number % len(_COLOURS)],
                label=name,
            )
        widths = sorted({result.setting.width for result in shown})
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.set_xlabel("width: nodes verified at most, root included")
    all_axes[0].set_ylabel("tokens per step")
    figure.legend(
        *all_axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False
    )
    figure.savefig(folder / "replay-tokens-per-step.png", dpi=_PNG_DPI)
    return [("replay-tokens-per-step.png", title)]


def draw_reliability_chart(results: Sequence[ReplayResult], folder: Path) -> list[tuple[str, str]]:
    """Draw what our drafts said of their tokens against what came, in the prompts not tuned on.

    Returns (file name, what it shows); nothing where ours was not replayed.

    Raises:
        OSError: the file cannot be written.
    """
    widest = max((one.setting.width for one in results if one.drafter == "trie"), default=0)
    shown = [one for one in results if (one.drafter, one.setting.width) == ("trie", widest)]
    if not shown:
        return []
    title = f"Replay: probability said and share accepted, width {widest}"
    figure, (axes,) = _new_chart(title)
    axes.plot([0, 1], [0, 1], color="#444444", linewidth=0.8)
    for number, result in enumerate(shown):
        points = result.untuned.reliability.points()
        said, came = [point[0] for point in points], [point[1] for point in points]
        name = result.setting.name.replace("-", " ")
        colour = _COLOURS[number % len(_COLOURS)]
        axes.plot(said, came, marker="o", markersize=4, label=name, color=colour)
    axes.set_xlabel("probability said, mean of a tenth")
    axes.set_ylabel("share accepted")
    axes.legend(frameon=False)
    figure.savefig(folder / "replay-reliability.png", dpi=_PNG_DPI)
    return [("replay-reliability.png", title)]
