"""Two runs of the benchmark held against each other, prompt by prompt: do they agree?

An arm's decode speed over plain is taken at each prompt in both runs, and the quotient of the two
is what is looked at: a machine that is slower today is so for both arms. Knows the JSON of reports.
Called by `app.bench`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.bench.errors import BenchError
from app.bench.reports import Figure, SuiteReport, Table, format_estimate
from app.bench.statistics import estimate_median

__all__ = ["add_comparison", "read_report"]

_SHARED = ("suite", "model", "dtype", "device", "mode", "threads", "max_new_tokens")
_DOUBT = 0.05  # of calling runs different that are not, over all arms together
_FEWEST_PAIRS = 6

Key = tuple[str, ...]
Rows = dict[str, dict[Key, dict[str, Any]]]  # arm → prompt → row


def read_report(path: Path) -> dict[str, Any]:
    """The JSON of an earlier run. Raises BenchError where the file is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        _by_arm(document["rows"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(
            f"{path} is no report of this benchmark ({type(error).__name__}). Give a file that "
            "--json wrote."
        ) from error
    assert isinstance(document, dict)
    return document


def add_comparison(found: SuiteReport, path: Path) -> None:
    """Add to a report a table, figures `compared.ARM.*` and a sentence: whether the runs agree."""
    old = read_report(path)
    before, now = _by_arm(old["rows"]), _by_arm(found.rows)
    arms = [arm for arm in now if arm in before]
    compared = [arm for arm in arms if arm != "plain"]
    confidence = 1 - _DOUBT / max(1, len(compared))
    apart: list[str] = []
    too_few: list[str] = []
    cells = []
    for arm in arms:
        rates = [rate for key in now[arm] if (rate := _change(before, now, arm, key))]
        ratios = [
            rate / base
            for key in now[arm]
            if (rate := _change(before, now, arm, key))
            and (base := _change(before, now, "plain", key))
        ]
        speed = estimate_median(rates, confidence)
        ratio = estimate_median(ratios, confidence)
        name = f"compared.{arm}"
        found.figures.append(Figure.of(f"{name}.decode_speed", speed, "ratio"))
        row = [arm, str(len(rates)), format_estimate(speed), "–"]
        if arm != "plain":
            found.figures.append(Figure.of(f"{name}.decode_ratio_over_plain", ratio, "ratio"))
            row[-1] = format_estimate(ratio)
            if ratio.count < _FEWEST_PAIRS:
                too_few.append(arm)
            elif not ratio.low <= 1 <= ratio.high:
                apart.append(arm)
        cells.append(tuple(row))
    columns = ("arm", "pairs", "decode speed", "decode speed over plain")
    title = "This run over the earlier one, median of per-prompt pairs with the same text"
    found.tables.append(Table(title, columns, tuple(cells)))
    found.notes += _sentences(_changed_options(found, old), compared, apart, too_few)


def _by_arm(rows: list[dict[str, Any]]) -> Rows:
    found: Rows = {}
    for row in rows:
        key = (row.get("part", ""), row["prompt_id"], str(row["turn"]))
        found.setdefault(row["arm"], {})[key] = {
            name: row[name] for name in ("prompt_sha256", "text_sha256", "decode_rate")
        }
    return found


def _change(before: Rows, now: Rows, arm: str, key: Key) -> float | None:
    """Decode speed now over that before; None without a pair of the same prompt and text."""
    old, new = before.get(arm, {}).get(key), now.get(arm, {}).get(key)
    if old is None or new is None or not old["decode_rate"] or not new["decode_rate"]:
        return None
    if any(old[name] != new[name] for name in ("prompt_sha256", "text_sha256")):
        return None
    change: float = new["decode_rate"] / old["decode_rate"]
    return change


def _changed_options(found: SuiteReport, old: Mapping[str, Any]) -> list[str]:
    """Sentences on what the runs were asked for differently."""
    asked_now = {"suite": found.suite, **found.options}
    asked_before = {"suite": old.get("suite"), **old.get("options", {})}
    return [
        f"The runs differ in {name}: {asked_before.get(name)} before, {asked_now.get(name)} now."
        for name in _SHARED
        if asked_before.get(name) != asked_now.get(name)
    ]


def _sentences(
    changed: list[str], compared: list[str], apart: list[str], too_few: list[str]
) -> list[str]:
    sentences = list(changed)
    if too_few:
        sentences.append(f"Too few pairs to tell whether the runs agree: {', '.join(too_few)}.")
    if apart:
        sentences.append(f"The runs do not agree within their intervals: {', '.join(apart)}.")
    elif len(too_few) < len(compared):
        sentences.append("The runs agree: the interval of every arm that could be told holds 1.")
    elif not compared:
        sentences.append("The runs have no arm in common to be compared.")
    return sentences
