"""Tables and figures of a live run, from its rows.

Knows the names of arms and what is compared with what. Called by the live suites.
"""

from collections.abc import Callable, Mapping, Sequence

from app.bench.interleaving import Row
from app.bench.measurements import ArmTotals, Measurements, decode_rate, total_rate
from app.bench.reports import Figure, Table, format_estimate, format_number

__all__ = ["drafting_arms", "live_figures", "live_tables"]

# Arms that others are measured against, where they took part; all others draft.
BASES = ("plain", "plain-one-row", "hf-generate", "hf-prompt-lookup", "llama-cpp")
COPYING_CATEGORIES = frozenset({"extraction", "summarization", "rag"})

_TARGET_COPYING_RATIO = 2.3  # bf16 strict, with history, over plain
_TARGET_DRAFTING_SHARE = 0.04  # with a Trie of so many tokens:
_TARGET_KNOWN_LENGTH = 2_000_000


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
    if len(measured.categories) > 1:
        tables += [_arm_by_category(measured, arm, titles[arm]) for arm in measured.arms]
    return tables


def drafting_arms(measured: Measurements) -> list[str]:
    """The arms of ours that draft."""
    return [arm for arm in measured.arms if arm not in BASES]


_COLUMNS = (
    *("answers", "tokens", "decode tokens/s", "total tokens/s", "first token ms"),
    *("tokens per step", "width", "rows", "accepted %", "drafting %"),
)


def _overview(measured: Measurements, titles: Mapping[str, str]) -> Table:
    rows = []
    for arm in measured.arms:
        totals = measured.totals(arm)
        rows.append((titles[arm], *_cells(totals), str(totals.num_different)))
    return Table("All prompts", ("arm", *_COLUMNS, "texts that differ"), tuple(rows))


def _arm_by_category(measured: Measurements, arm: str, title: str) -> Table:
    rows = [
        (category, *_cells(measured.totals(arm, _is_of(category))))
        for category in measured.categories
    ]
    return Table(f"{title}, by category", ("category", *_COLUMNS), tuple(rows), is_detail=True)


def _cells(totals: ArmTotals) -> tuple[str, ...]:
    return (
        str(totals.num_answers),
        f"{totals.num_tokens:,}",
        format_number(totals.decode_rate, 1),
        format_number(totals.total_rate, 1),
        format_number(totals.first_token_seconds.value * 1000, 0),
        format_number(totals.tokens_per_step),
        format_number(totals.mean_width, 1),
        format_number(totals.mean_rows, 1),
        _percent(totals.acceptance_rate),
        _percent(totals.drafting_share),
    )


def _percent(share: float | None) -> str:
    return format_number(None if share is None else share * 100, 1)


def _is_of(category: str) -> Callable[[Row], bool]:
    return lambda row: row.category == category


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
        keep = _is_of(category)
        cells = [format_estimate(measured.speedup(arm, base, keep=keep)) for arm in arms]
        count = len(measured.of(base, keep))
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


def live_figures(
    measured: Measurements, prefix: str = "live", *, is_promised: bool = False
) -> list[Figure]:
    """Every number under its stable name, `live.<arm>.<what>` and `live.<arm>.<what>.<of what>`.

    Args:
        is_promised: the speed-up that was promised is of this dtype and mode.
    """
    figures = []
    for arm in measured.arms:
        name = f"{prefix}.{arm}"
        totals = measured.totals(arm)
        is_drafting = arm in drafting_arms(measured)
        sources = sorted(totals.drafted_by_source) if is_drafting else None
        figures += _totals_figures(totals, name, sources)
        figures += _ratio_figures(measured, arm, name)
        if is_drafting:
            figures += _over_plain_figures(measured, arm, name, is_promised=is_promised)
        if len(measured.categories) > 1:
            for category in measured.categories:
                totals = measured.totals(arm, _is_of(category))
                figures += _totals_figures(totals, name, sources, f".{category}")
    figures.append(Figure(f"{prefix}.loop_share", measured.loop_share("plain"), "share"))
    return figures


def _totals_figures(
    totals: ArmTotals, name: str, sources: Sequence[str] | None, end: str = ""
) -> list[Figure]:
    """What is counted over the answers of one arm.

    Args:
        sources: where the arm's drafts come from; None: it does not draft.
        end: of which category.
    """
    figures = [
        Figure(f"{name}.decode_tokens_per_second{end}", totals.decode_rate, "tokens/s"),
        Figure(f"{name}.total_tokens_per_second{end}", totals.total_rate, "tokens/s"),
        Figure.of(f"{name}.first_token_seconds{end}", totals.first_token_seconds, "s"),
        Figure(f"{name}.tokens_per_step{end}", totals.tokens_per_step, "tokens"),
    ]
    if sources is None:
        return figures
    is_full = totals.least_known_length >= _TARGET_KNOWN_LENGTH
    target = _TARGET_DRAFTING_SHARE if is_full and not end else None
    share = totals.drafting_share
    figures += [
        Figure(f"{name}.mean_width{end}", totals.mean_width, "nodes"),
        Figure(f"{name}.mean_rows{end}", totals.mean_rows, "rows"),
        Figure(f"{name}.drafting_share{end}", share, "share", target, is_at_most=True),
        Figure(f"{name}.acceptance_rate{end}", totals.acceptance_rate, "share"),
    ]
    for source in sources:
        accepted = totals.acceptance_of(source)
        figures.append(Figure(f"{name}.acceptance_rate_{source}{end}", accepted, "share"))
    if totals.remember_seconds.count:
        figures.append(Figure.of(f"{name}.remember_seconds{end}", totals.remember_seconds, "s"))
    return figures


def _ratio_figures(measured: Measurements, arm: str, name: str) -> list[Figure]:
    """Over every baseline; where texts differ, of the pairs with the same text, too."""
    figures = []
    for base in BASES:
        if base not in measured.arms or base == arm:
            continue
        for kind, rate in (("decode", decode_rate), ("total", total_rate)):
            ratio = f"{name}.{kind}_ratio_over_{base}"
            figures.append(Figure.of(ratio, measured.speedup(arm, base, rate), "ratio"))
            same = measured.speedup(arm, base, rate, same_text=True)
            figures.append(Figure.of(f"{ratio}.same_text", same, "ratio"))
        different = measured.num_different_texts(arm, base)
        figures.append(Figure(f"{name}.texts_not_of_{base}", different, "answers"))
    return figures


def _over_plain_figures(
    measured: Measurements, arm: str, name: str, *, is_promised: bool
) -> list[Figure]:
    """Decode speed over plain, of parts of the prompts."""
    over_plain = f"{name}.decode_ratio_over_plain"
    straight = measured.speedup(arm, "plain", keep=_is_straight)
    copying = measured.speedup(arm, "plain", keep=lambda row: row.category in COPYING_CATEGORIES)
    target = _TARGET_COPYING_RATIO if arm == "history" and is_promised else None
    figures = [
        Figure.of(f"{over_plain}.not_looping", straight, "ratio"),
        Figure.of(f"{over_plain}.copying", copying, "ratio", target),
    ]
    for category in measured.categories:
        estimate = measured.speedup(arm, "plain", keep=_is_of(category))
        figures.append(Figure.of(f"{over_plain}.{category}", estimate, "ratio"))
    return figures
