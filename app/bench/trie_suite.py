"""The suite `trie`: what the Trie costs in memory and time as it grows.

Text and code of the installed packages, tokenized by the model's tokenizer; every twentieth file is
kept out: of those, one half fills the tail and drafts are made behind places of the other. Fetches
and loads no weights. Called by `app.bench`.
"""

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.bench.charts import draw_trie_chart
from app.bench.corpus import read_corpus
from app.bench.errors import BenchError
from app.bench.options import BenchOptions
from app.bench.reports import Figure, SuiteReport, Table, format_number
from app.bench.statistics import percentile
from lookahead.candidates import IntArray
from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.request_view import RequestView
from lookahead.segment import Segment
from lookahead.trie import MAX_TAIL_LENGTH, Trie
from storage import SegmentCache

__all__ = ["TrieMeasurement", "measure_trie", "run_trie_suite"]

SIZES = (100_000, 1_000_000, 10_000_000)  # tokens
_NUM_DRAFTS = 3_000
_CONTEXT_LENGTH = 512
_LIMITS = DraftLimits(max_width=32, max_depth=15)
_STEP_LENGTH = 4
_ANSWER_LENGTH = 256
_LONG_PROMPT = 8_192
_NUM_LONG_DRAFTS = 300
_SEED = 5
_TARGET_SIZE = 10_000_000

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrieMeasurement:
    """One size. Drafts and observing in milliseconds of the thread's own CPU time."""

    num_tokens: int
    bytes_per_token: float
    build_cpu_seconds: float
    save_seconds: float
    open_seconds: float
    draft_p50_ms: float
    draft_p99_ms: float
    draft_p999_ms: float
    tail_draft_p50_ms: float
    tail_draft_p99_ms: float
    tail_draft_p999_ms: float
    mean_width: float
    long_draft_p50_ms: float
    long_draft_p99_ms: float
    step_observed_p99_ms: float
    prompt_matchable_ms: float
    answer_added_p99_ms: float


# field, title, digits, unit, target at ten million tokens
_FIELDS: tuple[tuple[str, str, int, str, float | None], ...] = (
    ("bytes_per_token", "bytes a token", 2, "bytes", 9.0),
    ("draft_p50_ms", "draft p50 ms", 3, "ms", 0.3),
    ("draft_p99_ms", "draft p99 ms", 3, "ms", 1.0),
    ("draft_p999_ms", "draft p99.9 ms", 3, "ms", 5.0),
    ("tail_draft_p50_ms", "p50, tail full", 3, "ms", 0.3),
    ("tail_draft_p99_ms", "p99, tail full", 3, "ms", 1.0),
    ("tail_draft_p999_ms", "p99.9, tail full", 3, "ms", 5.0),
    ("mean_width", "nodes drafted", 1, "nodes", None),
    ("long_draft_p50_ms", "p50, 8k prompt", 3, "ms", None),
    ("long_draft_p99_ms", "p99, 8k prompt", 3, "ms", None),
    ("step_observed_p99_ms", "step observed ms", 4, "ms", 0.1),
    ("prompt_matchable_ms", "8k prompt matchable ms", 3, "ms", 20.0),
    ("answer_added_p99_ms", "answer added ms", 3, "ms", None),
    ("build_cpu_seconds", "build CPU s", 2, "s", 15.0),
    ("save_seconds", "save all s", 2, "s", None),
    ("open_seconds", "open s", 2, "s", 0.5),
)


def run_trie_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Measure at each size that the corpus and `--limit` allow.

    Raises:
        BenchError: there are no packages to read.
        LookaheadError: the tokenizer cannot be loaded.
    """
    largest = options.limit or SIZES[-1]
    sizes = sorted({size for size in SIZES if size < largest} | {largest})
    tokenizer = _load_tokenizer(options, report)
    corpus = read_corpus(tokenizer, sizes[-1], 2 * _CONTEXT_LENGTH, report)
    measured: list[TrieMeasurement] = []
    is_interrupted = False
    try:
        for size in sizes:
            report(f"Measuring a Trie of {size:,} tokens")
            measured.append(measure_trie(corpus.limited(size), corpus.held_out))
            if corpus.num_tokens <= size:
                break
    except KeyboardInterrupt:
        if not measured:
            raise
        is_interrupted = True
    found = _report(measured)
    found.options = {
        "tokenizer": Path(options.settings.model).name,
        "vocabulary": len(tokenizer),
        "drafts": _NUM_DRAFTS,
        "draft_width": _LIMITS.max_width,
    }
    if corpus.num_tokens < sizes[-1]:
        found.notes.append(f"The installed packages gave {corpus.num_tokens:,} tokens only.")
    found.is_interrupted, found.is_complete = is_interrupted, not is_interrupted
    return found


def measure_trie(sequences: Sequence[IntArray], held_out: Sequence[IntArray]) -> TrieMeasurement:
    """Build a Trie of these sequences and measure it.

    Args:
        held_out: two sequences or more, longer ones than a context: the even ones are drafted
            behind, the odd ones are the answers that are added.
    """
    chance = random.Random(_SEED)
    trie = Trie()
    started = time.process_time()
    trie.add_many((None, TokenSource.DOCUMENT, sequence) for sequence in sequences)
    trie.seal()
    build_cpu_seconds = time.process_time() - started
    statistics = trie.statistics()
    save_seconds, open_seconds = _save_and_open(trie.segment)
    drafted_behind = held_out[::2]
    contexts = _contexts(drafted_behind, chance, _NUM_DRAFTS, _CONTEXT_LENGTH)
    sealed = _draft_times(trie, contexts)
    added = _fill_tail(trie, held_out[1::2])
    full = _draft_times(trie, contexts)
    long = _long_draft_times(trie, drafted_behind)
    steps, prompt = _matchable_times(drafted_behind, chance)
    return TrieMeasurement(
        num_tokens=statistics.num_tokens,
        bytes_per_token=statistics.num_bytes / statistics.num_tokens,
        build_cpu_seconds=build_cpu_seconds,
        save_seconds=save_seconds,
        open_seconds=open_seconds,
        draft_p50_ms=percentile(sealed.milliseconds, 50),
        draft_p99_ms=percentile(sealed.milliseconds, 99),
        draft_p999_ms=percentile(sealed.milliseconds, 99.9),
        tail_draft_p50_ms=percentile(full.milliseconds, 50),
        tail_draft_p99_ms=percentile(full.milliseconds, 99),
        tail_draft_p999_ms=percentile(full.milliseconds, 99.9),
        mean_width=sealed.mean_width,
        long_draft_p50_ms=percentile(long.milliseconds, 50),
        long_draft_p99_ms=percentile(long.milliseconds, 99),
        step_observed_p99_ms=percentile(steps, 99),
        prompt_matchable_ms=prompt,
        answer_added_p99_ms=percentile(added, 99),
    )


@dataclass(frozen=True, slots=True)
class _Drafts:
    milliseconds: list[float]
    mean_width: float


def _cpu_milliseconds(action: Callable[[], object]) -> float:
    """CPU time of this thread: what other programs do does not count."""
    started = time.thread_time_ns()
    action()
    return (time.thread_time_ns() - started) / 1e6


def _draft_times(trie: Trie, contexts: Sequence[RequestView]) -> _Drafts:
    drafter = TrieDrafter(trie, None)
    for context in contexts[:20]:  # what a first draft sets up is not measured
        drafter.draft(context, _LIMITS)
    times: list[float] = []
    widths: list[int] = []
    for context in contexts:
        times.append(
            _cpu_milliseconds(lambda c=context: widths.append(drafter.draft(c, _LIMITS).width))  # type: ignore[misc]
        )
    return _Drafts(times, sum(widths) / len(widths))


def _contexts(
    texts: Sequence[IntArray], chance: random.Random, count: int, length: int
) -> list[RequestView]:
    """Conversations that stop at random places of texts that the Trie has not seen."""
    contexts = []
    for _ in range(count):
        sequence = chance.choice(texts)
        end = chance.randrange(length, len(sequence))
        view = RequestView()
        view.append(sequence[end - length : end], TokenSource.PROMPT)
        contexts.append(view)
    return contexts


def _long_draft_times(trie: Trie, texts: Sequence[IntArray]) -> _Drafts:
    """Drafts behind a long prompt that grows by a step's tokens, the tail full."""
    text = np.resize(np.concatenate(texts), _LONG_PROMPT + _NUM_LONG_DRAFTS * _STEP_LENGTH)
    contexts = []
    for end in range(_LONG_PROMPT, len(text), _STEP_LENGTH):
        view = RequestView()
        view.append(text[:end], TokenSource.PROMPT)
        contexts.append(view)
    return _draft_times(trie, contexts)


def _fill_tail(trie: Trie, texts: Sequence[IntArray]) -> list[float]:
    """Add answers until one more would have to be sorted in; the times of adding one."""
    times = []
    text = np.concatenate(texts)
    start = 0
    while trie.statistics().tail_length + _ANSWER_LENGTH + 1 <= MAX_TAIL_LENGTH:
        answer = np.take(text, range(start, start + _ANSWER_LENGTH), mode="wrap")
        times.append(_cpu_milliseconds(lambda ids=answer: trie.add(ids)))  # type: ignore[misc]
        start += _ANSWER_LENGTH
    return times


def _matchable_times(texts: Sequence[IntArray], chance: random.Random) -> tuple[list[float], float]:
    """Milliseconds to take in a step's tokens; and a long prompt's, until a search finds them.

    A prompt is said twice, so that the search has something to find.
    """
    text = np.resize(np.concatenate(texts)[: _LONG_PROMPT // 2], _LONG_PROMPT)
    view = RequestView()

    def search() -> None:
        found = view.candidates(_LIMITS.max_depth)
        assert found.match_lengths.max(initial=0) > 0, "what was said twice is found"

    def take_prompt_in() -> None:
        view.append(text, TokenSource.PROMPT)
        search()

    prompt = _cpu_milliseconds(take_prompt_in)
    steps = []
    for _ in range(_NUM_DRAFTS):
        ids = [int(text[chance.randrange(len(text))])] * _STEP_LENGTH
        steps.append(_cpu_milliseconds(lambda t=ids: view.append(t, TokenSource.OUTPUT)))  # type: ignore[misc]
        search()  # there is nothing else to be done before they match
        view.truncate(_LONG_PROMPT)
    return steps, prompt


def _save_and_open(segment: Segment) -> tuple[float, float]:
    """Seconds to write the segment as the app does, and to have a Trie of it again."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cache = SegmentCache(Path(folder) / "segments.db", "bench")
        started = time.perf_counter()
        cache.save(1, segment.to_bytes())
        saved = time.perf_counter()
        data = cache.load(1)
        if data is None:
            raise BenchError("The Trie could not be saved: is there room in the temporary folder?")
        Trie.from_segment(Segment.from_bytes(data))
        return saved - started, time.perf_counter() - saved


def _load_tokenizer(options: BenchOptions, report: Report) -> Any:
    from lookahead.loader import load_tokenizer  # only now: it brings torch in

    settings = options.settings
    return load_tokenizer(settings.model, report, may_download=not settings.offline)


def _report(measured: Sequence[TrieMeasurement]) -> SuiteReport:
    rows = []
    figures = []
    for one in measured:
        cells = [f"{one.num_tokens:,}"]
        for field, _, digits, unit, target in _FIELDS:
            value = getattr(one, field)
            cells.append(format_number(value, digits))
            figures.append(
                Figure(
                    f"trie.{one.num_tokens}.{field}",
                    value,
                    unit,
                    target if one.num_tokens == _TARGET_SIZE else None,
                    is_at_most=True,
                )
            )
        rows.append(tuple(cells))
    columns = ("tokens", *(title for _, title, _, _, _ in _FIELDS))
    return SuiteReport(
        suite="trie",
        tables=[Table("The Trie as it grows", columns, tuple(rows))],
        figures=figures,
        rows=[asdict(one) for one in measured],
        notes=[
            f"Drafts of up to {_LIMITS.max_width} nodes behind {_CONTEXT_LENGTH} tokens of text "
            "the Trie has not seen, in CPU time of the thread. "
            f"Tail full: {MAX_TAIL_LENGTH:,} words unsorted, the most there can be; so it is "
            f"behind the 8k prompt, {_LONG_PROMPT:,} tokens of the same text. Matchable: taken in "
            "and found by a search of the conversation."
        ],
        draw=lambda folder: draw_trie_chart([asdict(one) for one in measured], folder),
    )
