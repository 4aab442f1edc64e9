"""Tables and figures of a live run, from its rows.

Knows the names of arms and what is compared with what. Called by the live suites.
"""

from collections.abc import Mapping, Sequence

from app.bench.interleaving import Row
from app.bench.measurements import Measurements, decode_rate, total_rate
from app.bench.reports import Figure, Table, format_estimate, format_number

__all__ = ["drafting_arms", "live_figures", "live_tables"]

# Arms that others are measured against, where they took part; all others draft.
BASES = ("plain", "plain-one-row", "hf-generate", "hf-prompt-lookup", "llama-cpp")
COPYING_CATEGORIES = frozenset({"extraction", "summarization", "rag"})

_TARGET_COPYING_RATIO = 2.3  # bf16 strict, with history, over plain
_TARGET_DRAFTING_SHARE = 0.04


def live_tables(measured: Measurements, titles: Mapping[str, str]) -> list[Table]:
    """The tables that people read."""
    tables = [_overview(measured, titles), _ratios(measured, titles)]
    drafting = drafting_arms(measured)
    for base, words in (("plain", "our plain loop"), ("hf-generate", "HF generate")):
        if base in measured.arms and drafting and len(measured.categories) > 1:
            tables.append(_by_category(measured, titles, [*drafting], base, words))
    if any(measured.totals(arm).drafted_by_source for arm in drafting):
        tables.append(_by_source(measured, titles, drafting))
    if drafting:
        tables.append(_loops(measured, titles, drafting))
    return tables


def drafting_arms(measured: Measurements) -> list[str]:
    """The arms of ours that draft."""
    return [arm for arm in measured.arms if arm not in BASES]


def _overview(measured: Measurements, titles: Mapping[str, str]) -> Table:
    rows = []
    for arm in measured.arms:
        totals = measured.totals(arm)
        share = totals.drafting_share
        rows.append(
            (
                titles[arm],
                str(totals.num_answers),
                f"{totals.num_tokens:,}",
                format_number(totals.decode_rate, 1),
                format_number(totals.total_rate, 1),
                format_number(totals.first_token_seconds.value * 1000, 0),
                format_number(totals.tokens_per_step),
                format_number(totals.mean_width, 1),
                format_number(totals.mean_rows, 1),
                format_number(None if share is None else share * 100, 1),
                str(totals.num_different),
            )
        )
    columns = (
        *("arm", "answers", "tokens", "decode tokens/s", "total tokens/s", "first token ms"),
        *("tokens per step", "width", "rows", "drafting %", "texts that differ"),
    )
    return Table("All prompts", columns, tuple(rows))


def _ratios(measured: Measurements, titles: Mapping[str, str]) -> Table:
    bases = [base for base in BASES if base in measured.arms]
    rows = []
    for arm in measured.arms:
        cells = [
            "1" if arm == base else format_estimate(measured.speedup(arm, base)) for base in bases
        ]
        total = format_estimate(measured.speedup(arm, bases[0], total_rate))
        rows.append((titles[arm], *cells, "1" if arm == bases[0] else total))
    columns = ("arm", *(f"over {titles[base]}" for base in bases))
    return Table(
        "Decode speed over the baselines, median of per-prompt pairs (95 % interval)",
        (*columns, f"total, over {titles[bases[0]]}"),
        tuple(rows),
    )


def _by_category(
    measured: Measurements, titles: Mapping[str, str], arms: Sequence[str], base: str, words: str
) -> Table:
    rows = []
    for category in measured.categories:
        cells = [
            format_estimate(
                measured.speedup(arm, base, keep=lambda row, c=category: row.category == c)  # type: ignore[misc]
            )
            for arm in arms
        ]
        count = len(measured.of(base, lambda row, c=category: row.category == c))  # type: ignore[misc]
        rows.append((category, str(count), *cells))
    return Table(
        f"Decode speed over {words}, by category",
        ("category", "prompts", *(titles[arm] for arm in arms)),
        tuple(rows),
    )


def _by_source(measured: Measurements, titles: Mapping[str, str], arms: Sequence[str]) -> Table:
    totals = {arm: measured.totals(arm) for arm in arms}
    sources = sorted({source for arm in arms for source in totals[arm].drafted_by_source})
    rows = []
    for arm in arms:
        drafted, accepted = totals[arm].drafted_by_source, totals[arm].accepted_by_source
        cells = [
            f"{accepted[s]:,} of {drafted[s]:,} ({100 * accepted[s] / drafted[s]:.0f} %)"
            if drafted[s]
            else "–"
            for s in sources
        ]
        rows.append((titles[arm], *cells))
    return Table("Accepted of drafted tokens, by source", ("arm", *sources), tuple(rows))


def _loops(measured: Measurements, titles: Mapping[str, str], arms: Sequence[str]) -> Table:
    rows = []
    for arm in arms:
        cells = [
            format_estimate(measured.speedup(arm, "plain", keep=keep))
            for keep in (lambda _: True, _is_straight, _is_looping)
        ]
        rows.append((titles[arm], *cells))
    looping = sum(row.is_looping for row in measured.of("plain"))
    share = measured.loop_share("plain") or 0.0
    title = (
        f"Decode speed over our plain loop, with and without answers that end in a loop "
        f"({looping} of {len(measured.of('plain'))} answers, {100 * share:.0f} % of all text)"
    )
    return Table(title, ("arm", "all", "not looping", "looping"), tuple(rows))


def _is_looping(row: Row) -> bool:
    return row.is_looping


def _is_straight(row: Row) -> bool:
    return not row.is_looping


def live_figures(measured: Measurements, prefix: str = "live") -> list[Figure]:
    """Every number under its stable name, `live.<arm>.<what>`."""
    figures = []
    for arm in measured.arms:
        figures += _arm_figures(measured, arm, f"{prefix}.{arm}")
    figures.append(Figure(f"{prefix}.loop_share", measured.loop_share("plain"), "share"))
    return figures


def _arm_figures(measured: Measurements, arm: str, name: str) -> list[Figure]:
    totals = measured.totals(arm)
    figures = [
        Figure(f"{name}.decode_tokens_per_second", totals.decode_rate, "tokens/s"),
        Figure(f"{name}.total_tokens_per_second", totals.total_rate, "tokens/s"),
        Figure.of(f"{name}.first_token_seconds", totals.first_token_seconds, "s"),
        Figure(f"{name}.tokens_per_step", totals.tokens_per_step, "tokens"),
    ]
    for base in BASES:
        if base not in measured.arms or base == arm:
            continue
        for kind, rate in (("decode", decode_rate), ("total", total_rate)):
            estimate = measured.speedup(arm, base, rate)
            figures.append(Figure.of(f"{name}.{kind}_ratio_over_{base}", estimate, "ratio"))
    if arm not in drafting_arms(measured):
        return figures
    share = totals.drafting_share
    figures += [
        Figure(f"{name}.mean_width", totals.mean_width, "nodes"),
        Figure(f"{name}.mean_rows", totals.mean_rows, "rows"),
        Figure(f"{name}.drafting_share", share, "share", _TARGET_DRAFTING_SHARE, is_at_most=True),
    ]
    over_plain = f"{name}.decode_ratio_over_plain"
    straight = measured.speedup(arm, "plain", keep=_is_straight)
    figures.append(Figure.of(f"{over_plain}.not_looping", straight, "ratio"))
    copying = measured.speedup(arm, "plain", keep=lambda row: row.category in COPYING_CATEGORIES)
    target = _TARGET_COPYING_RATIO if arm == "history" else None
    figures.append(Figure.of(f"{over_plain}.copying", copying, "ratio", target))
    for category in measured.categories:
        estimate = measured.speedup(
            arm,
            "plain",
            keep=lambda row, c=category: row.category == c,  # type: ignore[misc]
        )
        figures.append(Figure.of(f"{over_plain}.{category}", estimate, "ratio"))
    return figures
