"""The suite `trie`: what the Trie costs in memory and time as it grows.

Text and code of the installed packages, tokenized by the model's tokenizer; every twentieth file is
kept out: of those, one half fills the tail and drafts are made behind places of the other. All that
once with the tokenizer's own ids, once with as many as the largest vocabularies have. Fetches and
loads no weights. Called by `app.bench`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.bench.charts import draw_trie_chart
from app.bench.corpus import LARGE_VOCABULARY, read_corpus, widened
from app.bench.options import BenchOptions
from app.bench.reports import Figure, SuiteReport, Table, format_number
from app.bench.trie_measuring import (
    CONTEXT_LENGTH,
    LIMITS,
    LONG_PROMPT_LENGTH,
    NUM_DRAFTS,
    TURN_LENGTH,
    TrieMeasurement,
    measure_trie,
)
from lookahead.trie import MAX_TAIL_LENGTH

__all__ = ["run_trie_suite"]

SIZES = (100_000, 1_000_000, 10_000_000, 30_000_000)  # tokens
_TARGET_SIZE = 10_000_000
_BUILD_TARGETS = (15.0, 30.0)  # CPU seconds with the tokenizer's own ids, with many

Report = Callable[[str], None]

# field, title, digits, unit, target at ten million tokens
_FIELDS: tuple[tuple[str, str, int, str, float | None], ...] = (
    ("bytes_per_token", "bytes a token", 2, "bytes", 9.0),
    ("unmerged_bytes_per_token", "unmerged", 2, "bytes", 9.0),
    ("merging_bytes_per_token", "while merging all", 2, "bytes", None),
    ("draft_p50_ms", "draft p50 ms", 3, "ms", 0.3),
    ("draft_p99_ms", "p99", 3, "ms", 1.0),
    ("draft_p999_ms", "p99.9", 3, "ms", 5.0),
    ("unmerged_num_segments", "segments unmerged", 0, "segments", None),
    ("unmerged_draft_p50_ms", "p50 unmerged", 3, "ms", 0.3),
    ("unmerged_draft_p99_ms", "p99 unmerged", 3, "ms", 1.0),
    ("unmerged_draft_p999_ms", "p99.9 unmerged", 3, "ms", 5.0),
    ("candidates_p50_ms", "of it the Trie, p50 ms", 3, "ms", None),
    ("candidates_p99_ms", "p99", 3, "ms", None),
    ("unmerged_candidates_p50_ms", "p50 unmerged", 3, "ms", None),
    ("unmerged_candidates_p99_ms", "p99 unmerged", 3, "ms", None),
    ("mean_width", "nodes drafted", 1, "nodes", None),
    ("long_draft_p50_ms", "p50, 8k prompt", 3, "ms", None),
    ("long_draft_p99_ms", "p99, 8k prompt", 3, "ms", None),
    ("step_observed_p99_ms", "step observed ms", 4, "ms", 0.1),
    ("prompt_matchable_ms", "8k prompt matchable ms", 3, "ms", 20.0),
    ("answer_added_p99_ms", "answer added ms", 3, "ms", None),
    ("turn_saved_p50_ms", "turn saved p50 ms", 2, "ms", None),
    ("turn_saved_p99_ms", "p99", 2, "ms", 10.0),
    ("turn_saved_wall_p50_ms", "p50 on the wall", 2, "ms", None),
    ("build_cpu_seconds", "build CPU s", 2, "s", None),
    ("merge_pause_ms", "longest piece of a merge ms", 0, "ms", None),
    ("save_seconds", "save all s", 2, "s", None),
    ("open_seconds", "open s", 2, "s", 0.5),
    ("open_wall_seconds", "open on the wall s", 2, "s", None),
)


def run_trie_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Measure at each size up to `--limit`, with both vocabularies.

    Raises:
        BenchError: there are no packages to read.
        LookaheadError: the tokenizer cannot be loaded.
    """
    largest = options.limit or SIZES[-1]
    sizes = sorted({size for size in SIZES if size < largest} | {largest})
    tokenizer = _load_tokenizer(options, report)
    corpus = read_corpus(tokenizer, sizes[-1], 2 * CONTEXT_LENGTH, report)
    vocabulary = len(tokenizer)
    measured: dict[int, list[TrieMeasurement]] = {vocabulary: [], LARGE_VOCABULARY: []}
    is_interrupted = False
    try:
        for size in sizes:
            sequences = corpus.limited(size)
            name = f"Measuring a Trie of {size:,} tokens"
            tell = _telling(report, name)
            measured[vocabulary].append(measure_trie(sequences, corpus.held_out, tell))
            if vocabulary < LARGE_VOCABULARY:
                tell = _telling(report, f"{name} of a large vocabulary")
                large, held_out = (
                    [widened(ids, vocabulary) for ids in texts]
                    for texts in (sequences, corpus.held_out)
                )
                measured[LARGE_VOCABULARY].append(measure_trie(large, held_out, tell))
    except KeyboardInterrupt:
        if not measured[vocabulary]:
            raise
        is_interrupted = True
    found = _report({size: ones for size, ones in measured.items() if ones})
    found.options = {
        "tokenizer": Path(options.settings.model).name,
        "vocabulary": vocabulary,
        "drafts": NUM_DRAFTS,
        "draft_width": LIMITS.max_width,
    }
    if corpus.num_tokens < sizes[-1]:
        found.notes.append(
            f"{corpus.num_tokens:,} tokens of the installed packages; beyond that they come again, "
            "one token in fifty replaced."
        )
    found.is_interrupted, found.is_complete = is_interrupted, not is_interrupted
    return found


def _telling(report: Report, name: str) -> Report:
    return lambda stage: report(f"{name}: {stage}")


def _load_tokenizer(options: BenchOptions, report: Report) -> Any:
    from lookahead.loader import load_tokenizer  # only now: it brings torch in

    settings = options.settings
    return load_tokenizer(settings.model, report, may_download=not settings.offline)


def _report(measured: Mapping[int, Sequence[TrieMeasurement]]) -> SuiteReport:
    tables: list[Table] = []
    figures: list[Figure] = []
    rows: list[dict[str, Any]] = []
    for number, (vocabulary, ones) in enumerate(measured.items()):
        name = f"trie.v{vocabulary}"
        for one in ones:
            is_target = one.num_tokens == _TARGET_SIZE
            for field, _, _, unit, target in _FIELDS:
                bound = _BUILD_TARGETS[number] if field == "build_cpu_seconds" else target
                figures.append(
                    Figure(
                        f"{name}.{one.num_tokens}.{field}",
                        getattr(one, field),
                        unit,
                        bound if is_target else None,
                        is_at_most=True,
                    )
                )
            rows.append({"vocabulary": vocabulary, **asdict(one)})
        columns = ("", *(f"{one.num_tokens:,}" for one in ones))
        lines = [
            (title, *(format_number(getattr(one, field), digits) for one in ones))
            for field, title, digits, _, _ in _FIELDS
        ]
        distinct = ones[-1].num_distinct_tokens
        title = f"{vocabulary:,} token ids, of which the largest Trie has {distinct:,}"
        tables.append(Table(title, columns, tuple(lines)))
    return SuiteReport(
        suite="trie",
        tables=tables,
        figures=figures,
        rows=rows,
        notes=[
            f"Drafts of up to {LIMITS.max_width} nodes behind {CONTEXT_LENGTH} tokens of text "
            "the Trie has not seen, in CPU time of the thread. "
            "Unmerged: as many segments as there can be, none merged yet, and a tail of "
            f"{MAX_TAIL_LENGTH:,} words, the most there can be; so it is behind the 8k prompt, "
            f"{LONG_PROMPT_LENGTH:,} tokens of the same text. Matchable: taken in and found by a "
            f"search of the conversation. A turn: {TURN_LENGTH:,} tokens. All of it in CPU "
            "time but what is said to be on the wall.",
            f"{LARGE_VOCABULARY:,} token ids: each id in as many kinds as there is room for, told "
            "apart by the token before it.",
        ],
        draw=lambda folder: draw_trie_chart(rows, folder),
    )
