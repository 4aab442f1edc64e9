"""The benchmark: measures side by side what it says, on prompts that are in the repository.

    options = parse_bench_options(values, settings)
    exit_status = run(options, terminal)

Uses the engine's public interface, and the services where a suite is about the app. Knows no page.
Called by the command line; suites are imported when they run.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from app.bench.errors import BenchError
from app.bench.options import SUITES, BenchOptions, add_bench_options, parse_bench_options

if TYPE_CHECKING:
    from app.bench.reports import SuiteReport
    from app.terminal import Terminal

__all__ = [
    "SUITES",
    "BenchError",
    "BenchOptions",
    "add_bench_options",
    "parse_bench_options",
    "run",
]

_EXIT_FAILED = 1
_EXIT_INTERRUPTED = 130

# Suite → module and function; the function takes the options and a reporter of progress.
_RUNNERS = {
    "quick": ("app.bench.live_suite", "run_live_suite"),
    "full": ("app.bench.live_suite", "run_live_suite"),
    "replay": ("app.bench.replay_suite", "run_replay_suite"),
    "trie": ("app.bench.trie_suite", "run_trie_suite"),
    "worst-case": ("app.bench.worst_case_suite", "run_worst_case_suite"),
    "turns": ("app.bench.turns_suite", "run_turns_suite"),
    "start": ("app.bench.start_suite", "run_start_suite"),
}


def run(options: BenchOptions, terminal: "Terminal") -> int:
    """Run one suite, say what it found, write what was asked for; returns the exit status.

    0: done. 1: a text differs where it must not. 130: interrupted; what was measured is reported.

    Raises:
        BenchError: the run cannot be made, or a file cannot be written.
    """
    found = _runner(options.suite)(options, terminal.progress)
    for line in _as_text(found):
        terminal.result(line)
    _write(options, found)
    if found.is_interrupted:
        return _EXIT_INTERRUPTED
    return _EXIT_FAILED if found.failures else 0


def _runner(suite: str) -> "Callable[[BenchOptions, Callable[[str], None]], SuiteReport]":
    module, function = _RUNNERS[suite]
    runner: Callable[[BenchOptions, Callable[[str], None]], SuiteReport]
    runner = getattr(import_module(module), function)
    return runner


def _as_text(found: "SuiteReport") -> list[str]:
    from app.bench.reports import as_text

    return as_text(found)


def _write(options: BenchOptions, found: "SuiteReport") -> None:
    """The files that were asked for: JSON, and a folder with Markdown and charts."""
    from app.bench.machine import describe_machine, describe_versions
    from app.bench.reports import as_markdown, write_json

    machine, versions = describe_machine(), describe_versions()
    try:
        if options.json_path is not None:
            write_json(options.json_path, found, machine, versions)
        if options.charts is not None:
            charts = found.draw(options.charts)
            page = as_markdown(found, machine, versions, charts)
            (options.charts / "report.md").write_text(page, encoding="utf-8")
    except OSError as error:
        raise BenchError(f"The report could not be written: {error}.") from error
