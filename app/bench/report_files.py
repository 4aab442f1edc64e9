"""The files that a run was asked for: JSON, and a folder with Markdown and charts.

Knows where they go, not what is in them. The JSON is rewritten while a suite runs, so that a
machine that goes down takes one prompt with it. Called by `app.bench` and by the live suites.
"""

from pathlib import Path
from typing import Any

from app.bench.errors import BenchError
from app.bench.machine import describe_machine, describe_versions
from app.bench.options import BenchOptions
from app.bench.reports import SuiteReport, as_markdown, write_json

__all__ = ["ReportFiles"]


class ReportFiles:
    """Writes what `options` ask for."""

    def __init__(self, options: BenchOptions) -> None:
        self._options = options
        self._machine, self._versions = describe_machine(), describe_versions()

    def keep_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write the rows so far, without tables and figures. Raises BenchError."""
        found = SuiteReport(self._options.suite, rows=rows, is_complete=False)
        if self._options.json_path is not None:
            self._write_json(self._options.json_path, found)

    def write(self, found: SuiteReport) -> None:
        """Write everything. Raises BenchError where a file cannot be written."""
        folder = self._options.charts
        if self._options.json_path is not None:
            self._write_json(self._options.json_path, found)
        if folder is None:
            return
        try:
            charts = found.draw(folder)
            page = as_markdown(found, self._machine, self._versions, charts)
            (folder / "report.md").write_text(page, encoding="utf-8")
        except OSError as error:
            raise BenchError(f"The report could not be written: {error}.") from error

    def _write_json(self, path: Path, found: SuiteReport) -> None:
        try:
            write_json(path, found, self._machine, self._versions)
        except OSError as error:
            raise BenchError(f"The report could not be written: {error}.") from error
