"""What a suite found: tables, figures with stable names, rows; as text, Markdown and JSON.

Knows no suite and draws no chart. Made by the suites and the replay, written by `app.bench`.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.bench.statistics import Estimate

__all__ = [
    "Figure",
    "SuiteReport",
    "Table",
    "as_markdown",
    "as_text",
    "format_estimate",
    "format_number",
    "write_json",
]

JSON_VERSION = 1
_FEWEST_FOR_AN_INTERVAL = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with a stable name.

    Args:
        value: None where it could not be measured.
        target: what it should be, if anything was promised. `is_at_most`: an upper bound.
        low: lower end of its interval; None below three values. `high`: the upper one.
        count: how many values it is the median of; None: it is none.
    """

    name: str
    value: float | None
    unit: str
    target: float | None = None
    is_at_most: bool = False
    low: float | None = None
    high: float | None = None
    count: int | None = None

    @classmethod
    def of(cls, name: str, estimate: Estimate, unit: str, target: float | None = None) -> "Figure":
        """A median, with its interval where it is of enough values to have one."""
        values = (_finite(value) for value in (estimate.value, estimate.low, estimate.high))
        value, low, high = values
        if estimate.count < _FEWEST_FOR_AN_INTERVAL:
            low = high = None
        return cls(name, value, unit, target, low=low, high=high, count=estimate.count)

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing was measured."""
        if self.target is None or self.value is None:
            return None
        return self.value <= self.target if self.is_at_most else self.value >= self.target

    def as_json(self) -> dict[str, Any]:
        """name, value, unit, target, met; count, low and high where it is a median."""
        entry: dict[str, Any] = {
            "name": self.name,
            "value": _finite(self.value),
            "unit": self.unit,
            "target": self.target,
            "met": self.is_met,
        }
        if self.count is not None:
            entry |= {"count": self.count, "low": self.low, "high": self.high}
        return entry


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown; the first column is text, the others are numbers.

    Args:
        is_detail: left out on the terminal.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_detail: bool = False

    def titled(self, title: str) -> "Table":
        """The same table under another title."""
        return replace(self, title=title)


@dataclass(slots=True)
class SuiteReport:
    """All that one suite found.

    Args:
        options: what the run was asked for, without paths.
        notes: sentences about how to read it, what was left out, where texts differ.
        failures: sentences; any of them fails the run.
        extra: further JSON fields.
        draw: draws charts into a folder; returns (file name, what it shows) of each.
        is_complete: False where it was interrupted, or ran out of its time.
    """

    suite: str
    options: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    is_complete: bool = True
    is_interrupted: bool = False
    draw: Callable[[Path], list[tuple[str, str]]] = lambda _: []


def format_number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def format_estimate(estimate: Estimate) -> str:
    """`1.46 (1.31–1.60)`; without the interval where it would be one of a value or two."""
    if not estimate.count:
        return "–"
    if estimate.count < _FEWEST_FOR_AN_INTERVAL:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ({estimate.low:.2f}–{estimate.high:.2f})"


def as_text(report: SuiteReport) -> list[str]:
    """Lines for a terminal."""
    lines: list[str] = []
    for table in report.tables:
        if table.is_detail:
            continue
        cells = [table.columns, *table.rows]
        widths = [max(len(row[at]) for row in cells) for at in range(len(table.columns))]
        lines += [table.title]
        for row in cells:
            first = row[0].ljust(widths[0])
            rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join([first, *rest]).rstrip())
        lines.append("")
    missed = [figure for figure in report.figures if figure.is_met is False]
    for figure in missed:
        bound = "at most" if figure.is_at_most else "at least"
        lines.append(
            f"Not met: {figure.name} is {format_number(figure.value, 3)} {figure.unit}, "
            f"wanted {bound} {format_number(figure.target, 3)}"
        )
    lines += report.notes
    lines += [f"FAILED: {failure}" for failure in report.failures]
    return lines


def as_markdown(
    report: SuiteReport,
    machine: dict[str, Any],
    versions: dict[str, str],
    charts: Sequence[tuple[str, str]] = (),
) -> str:
    """A page of its own.

    Args:
        charts: (file name, what it shows) of images beside the page.
    """
    parts = [f"# Benchmark: suite {report.suite}"]
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    parts.append(f"Machine: {described}.")
    parts.append("Versions: " + ", ".join(f"{n} {v}" for n, v in versions.items()) + ".")
    asked = ", ".join(f"{n} {v}" for n, v in report.options.items() if v is not None)
    parts.append(f"Options: {asked}.")
    if not report.is_complete:
        parts.append("**This run is not complete.**")
    for table in report.tables:
        head = f"## {table.title}\n\n| " + " | ".join(map(_cell, table.columns)) + " |\n"
        head += "|---|" + "--:|" * (len(table.columns) - 1)
        body = ["| " + " | ".join(map(_cell, row)) + " |" for row in table.rows]
        parts.append("\n".join([head, *body]))
    parts += [f"![{_cell(title)}]({name})" for name, title in charts]
    if report.notes or report.failures:
        said = [*(f"**Failed:** {failure}" for failure in report.failures), *report.notes]
        parts.append("## Notes\n\n" + "\n".join(f"- {_cell(sentence)}" for sentence in said))
    return "\n\n".join(parts) + "\n"


def write_json(
    path: Path, report: SuiteReport, machine: dict[str, Any], versions: dict[str, str]
) -> None:
    """Write the whole report, in one piece or not at all.

    Raises:
        OSError: it cannot be written.
    """
    document = {
        "version": JSON_VERSION,
        "suite": report.suite,
        "complete": report.is_complete,
        "machine": machine,
        "versions": versions,
        "options": report.options,
        "figures": [figure.as_json() for figure in report.figures],
        "tables": [asdict(table) for table in report.tables],
        "notes": report.notes,
        "failures": report.failures,
        **report.extra,
        "rows": report.rows,
    }
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(
        json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    os.replace(partial, path)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
