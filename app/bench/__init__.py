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
from lookahead.model_source import prepare_model

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
        LookaheadError: the model cannot be used.
    """
    from app.bench.report_files import ReportFiles
    from app.bench.reports import as_text

    _check_files(options)
    settings = options.settings
    prepare_model(
        settings.model,
        terminal.progress,
        may_download=not settings.offline,
        with_weights=options.suite != "trie",
    )
    terminal.end_progress()
    found = _runner(options.suite)(options, terminal.progress)
    if options.compare is not None:
        from app.bench.comparing import add_comparison

        add_comparison(found, options.compare)
    for line in as_text(found):
        terminal.result(line)
    ReportFiles(options).write(found)
    if found.failures:  # also where it was interrupted afterwards
        return _EXIT_FAILED
    return _EXIT_INTERRUPTED if found.is_interrupted else 0


def _check_files(options: BenchOptions) -> None:
    """Read what is asked, before a model is fetched or loaded. Raises BenchError."""
    if options.suite not in ("trie", "start"):
        from app.bench.workload import read_prompt_sets

        read_prompt_sets(options)
    if options.compare is not None:
        from app.bench.comparing import read_report

        read_report(options.compare)


def _runner(suite: str) -> "Callable[[BenchOptions, Callable[[str], None]], SuiteReport]":
    module, function = _RUNNERS[suite]
    runner: Callable[[BenchOptions, Callable[[str], None]], SuiteReport]
    runner = getattr(import_module(module), function)
    return runner
