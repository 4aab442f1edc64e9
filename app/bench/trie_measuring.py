"""What one Trie costs: memory, building, drafting, adding, saving and opening.

Drafting is measured at two moments: when all is merged, and when nothing has been merged yet and
the tail is full, which is as bad as it gets. Times are CPU time, so that other programs do not
count; those that wait for a disk are given by the clock on the wall, too. Knows token ids only.
Called by the suite `trie`.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from app.bench.errors import BenchError
from app.bench.statistics import percentile
from lookahead.candidates import MAX_MATCH_LENGTH, IntArray
from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.request_view import RequestView
from lookahead.segment import Segment
from lookahead.trie import MAX_SEGMENTS, MAX_TAIL_LENGTH, Trie
from storage import Database, NewSequence, SegmentCache

__all__ = ["CONTEXT_LENGTH", "LIMITS", "LONG_PROMPT_LENGTH", "TrieMeasurement", "measure_trie"]

CONTEXT_LENGTH = 512
LONG_PROMPT_LENGTH = 8_192
LIMITS = DraftLimits(max_width=32, max_depth=15)
NUM_DRAFTS = 3_000
NUM_LONG_DRAFTS = 300
NUM_TURNS = 100
TURN_LENGTH = 1_000
STEP_LENGTH = 4
ANSWER_LENGTH = 256
SEED = 5


@dataclass(frozen=True, slots=True)
class TrieMeasurement:
    """One size. `unmerged_*`: as many segments as there can be, and the tail full.

    Args:
        candidates_*: the Trie's part in a draft; the rest is the request's own tokens and growing
            the tree.
        bytes_per_token: when all is merged; `merging_bytes_per_token`: at the end of a merge of
            everything, both the old and the new segments there.
        merge_pause_ms: the longest piece of a merge, between two looks at whether somebody waits.
        turn_saved_wall_p50_ms, open_wall_seconds: by the clock on the wall.
    """

    num_tokens: int
    num_distinct_tokens: int
    bytes_per_token: float
    unmerged_bytes_per_token: float
    merging_bytes_per_token: float
    build_cpu_seconds: float
    merge_pause_ms: float
    candidates_p50_ms: float
    candidates_p99_ms: float
    draft_p50_ms: float
    draft_p99_ms: float
    draft_p999_ms: float
    unmerged_num_segments: int
    unmerged_candidates_p50_ms: float
    unmerged_candidates_p99_ms: float
    unmerged_draft_p50_ms: float
    unmerged_draft_p99_ms: float
    unmerged_draft_p999_ms: float
    mean_width: float
    long_draft_p50_ms: float
    long_draft_p99_ms: float
    step_observed_p99_ms: float
    prompt_matchable_ms: float
    answer_added_p99_ms: float
    turn_saved_p50_ms: float
    turn_saved_p99_ms: float
    turn_saved_wall_p50_ms: float
    save_seconds: float
    open_seconds: float
    open_wall_seconds: float


def measure_trie(
    sequences: Sequence[IntArray],
    held_out: Sequence[IntArray],
    report: Callable[[str], None] = lambda _: None,
) -> TrieMeasurement:
    """Build a Trie of these sequences and measure it.

    Args:
        held_out: two sequences or more, longer ones than a context: the even ones are drafted
            behind, the odd ones are the answers that are added.
        report: told what is being done, since a large Trie takes minutes.
    """
    TrieDrafter.prepare()
    chance = random.Random(SEED)
    drafted_behind = held_out[::2]
    contexts = _contexts(drafted_behind, chance)
    trie = Trie()
    report("sorting")
    build_seconds = _cpu_seconds(lambda: _fill(trie, sequences))
    added = _fill_tail(trie, held_out[1::2])
    unmerged = trie.statistics()
    report("drafting, nothing merged")
    unmerged_candidates = _candidate_times(trie, contexts)
    unmerged_drafts = _draft_times(trie, contexts)
    long = _draft_times(trie, _long_contexts(drafted_behind))
    peak_bytes = _merging_bytes(trie)
    pauses: list[float] = []
    report("merging")
    build_seconds += _cpu_seconds(lambda: pauses.extend(_merge(trie)))
    statistics = trie.statistics()
    report("drafting")
    candidates = _candidate_times(trie, contexts)
    drafts = _draft_times(trie, contexts)
    steps, prompt = _matchable_times(drafted_behind, chance)
    report("saving and opening")
    turns, wall_turns = _turn_times(drafted_behind)
    save_seconds, open_seconds, open_wall_seconds = _save_and_open(trie)
    return TrieMeasurement(
        num_tokens=sum(map(len, sequences)),
        num_distinct_tokens=_num_distinct(sequences),
        bytes_per_token=statistics.num_bytes / statistics.num_tokens,
        unmerged_bytes_per_token=unmerged.num_bytes / unmerged.num_tokens,
        merging_bytes_per_token=peak_bytes / statistics.num_tokens,
        build_cpu_seconds=build_seconds,
        merge_pause_ms=max(pauses, default=0.0),
        candidates_p50_ms=percentile(candidates, 50),
        candidates_p99_ms=percentile(candidates, 99),
        draft_p50_ms=percentile(drafts.milliseconds, 50),
        draft_p99_ms=percentile(drafts.milliseconds, 99),
        draft_p999_ms=percentile(drafts.milliseconds, 99.9),
        unmerged_num_segments=unmerged.num_segments,
        unmerged_candidates_p50_ms=percentile(unmerged_candidates, 50),
        unmerged_candidates_p99_ms=percentile(unmerged_candidates, 99),
        unmerged_draft_p50_ms=percentile(unmerged_drafts.milliseconds, 50),
        unmerged_draft_p99_ms=percentile(unmerged_drafts.milliseconds, 99),
        unmerged_draft_p999_ms=percentile(unmerged_drafts.milliseconds, 99.9),
        mean_width=drafts.mean_width,
        long_draft_p50_ms=percentile(long.milliseconds, 50),
        long_draft_p99_ms=percentile(long.milliseconds, 99),
        step_observed_p99_ms=percentile(steps, 99),
        prompt_matchable_ms=prompt,
        answer_added_p99_ms=percentile(added, 99),
        turn_saved_p50_ms=percentile(turns, 50),
        turn_saved_p99_ms=percentile(turns, 99),
        turn_saved_wall_p50_ms=percentile(wall_turns, 50),
        save_seconds=save_seconds,
        open_seconds=open_seconds,
        open_wall_seconds=open_wall_seconds,
    )


@dataclass(frozen=True, slots=True)
class _Drafts:
    milliseconds: list[float]
    mean_width: float


def _cpu_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def _cpu_milliseconds(action: Callable[[], object]) -> float:
    """CPU time of this thread: what other programs do does not count."""
    started = time.thread_time_ns()
    action()
    return (time.thread_time_ns() - started) / 1e6


def _fill(trie: Trie, sequences: Sequence[IntArray]) -> None:
    """Add everything in as many equal parts as there can be segments."""
    ends = np.cumsum([len(sequence) for sequence in sequences])
    parts = np.searchsorted(ends, ends[-1] * np.arange(1, MAX_SEGMENTS) // MAX_SEGMENTS)
    borders = [0, *parts.tolist(), len(sequences)]
    for begin, end in pairwise(borders):
        trie.add_many((None, TokenSource.DOCUMENT, one) for one in sequences[begin:end])
        trie.seal()


def _merge(trie: Trie) -> Iterable[float]:
    """Merge to the end; the milliseconds of each piece."""
    trie.seal()
    is_more = trie.needs_merging
    while is_more:
        started = time.thread_time()
        is_more = trie.merge()
        yield (time.thread_time() - started) * 1e3


def _merging_bytes(trie: Trie) -> int:
    """Memory where all segments are merged into one and are all still there, by adding up."""
    return trie.statistics().num_bytes + sum(segment.num_bytes for segment in trie.segments)


def _draft_times(trie: Trie, contexts: Sequence[RequestView]) -> _Drafts:
    drafter = TrieDrafter(trie, None)
    widths: list[int] = []

    def draft(context: RequestView) -> None:
        widths.append(drafter.draft(context, LIMITS).width)

    times = _times_of(draft, contexts)
    return _Drafts(times, sum(widths) / len(widths))


def _candidate_times(trie: Trie, contexts: Sequence[RequestView]) -> list[float]:
    snapshot = trie.snapshot
    edges = snapshot.edges_of(())

    def find(context: RequestView) -> None:
        snapshot.candidates(context.token_ids[-MAX_MATCH_LENGTH:], LIMITS.max_depth, edges)

    return _times_of(find, contexts)


def _times_of(
    action: Callable[[RequestView], None], contexts: Sequence[RequestView]
) -> list[float]:
    """Milliseconds for each context; what the first ones set up is not measured."""
    for context in contexts[:20]:
        action(context)
    return [_cpu_milliseconds(lambda one=context: action(one)) for context in contexts]  # type: ignore[misc]


def _contexts(texts: Sequence[IntArray], chance: random.Random) -> list[RequestView]:
    """Conversations that stop at random places of texts that the Trie has not seen."""
    contexts = []
    for _ in range(NUM_DRAFTS):
        sequence = chance.choice(texts)
        end = chance.randrange(CONTEXT_LENGTH, len(sequence))
        view = RequestView()
        view.append(sequence[end - CONTEXT_LENGTH : end], TokenSource.PROMPT)
        contexts.append(view)
    return contexts


def _long_contexts(texts: Sequence[IntArray]) -> list[RequestView]:
    """A long prompt that grows by a step's tokens."""
    text = np.resize(np.concatenate(texts), LONG_PROMPT_LENGTH + NUM_LONG_DRAFTS * STEP_LENGTH)
    contexts = []
    for end in range(LONG_PROMPT_LENGTH, len(text), STEP_LENGTH):
        view = RequestView()
        view.append(text[:end], TokenSource.PROMPT)
        contexts.append(view)
    return contexts


def _fill_tail(trie: Trie, texts: Sequence[IntArray]) -> list[float]:
    """Add answers until one more would have to be sorted in; the times of adding one."""
    times = []
    text = np.concatenate(texts)
    start = 0
    while trie.statistics().tail_length + ANSWER_LENGTH + 1 <= MAX_TAIL_LENGTH:
        answer = np.take(text, range(start, start + ANSWER_LENGTH), mode="wrap")
        times.append(_cpu_milliseconds(lambda ids=answer: trie.add(ids)))  # type: ignore[misc]
        start += ANSWER_LENGTH
    return times


def _matchable_times(texts: Sequence[IntArray], chance: random.Random) -> tuple[list[float], float]:
    """Milliseconds to take in a step's tokens; and a long prompt's, until a search finds them.

    A prompt is said twice, so that the search has something to find.
    """
    text = np.resize(np.concatenate(texts)[: LONG_PROMPT_LENGTH // 2], LONG_PROMPT_LENGTH)
    view = RequestView()

    def search() -> None:
        found = view.candidates(LIMITS.max_depth)
        assert found.match_lengths.max(initial=0) > 0, "what was said twice is found"

    def take_prompt_in() -> None:
        view.append(text, TokenSource.PROMPT)
        search()

    prompt = _cpu_milliseconds(take_prompt_in)
    steps = []
    for _ in range(NUM_DRAFTS):
        ids = [int(text[chance.randrange(len(text))])] * STEP_LENGTH
        steps.append(_cpu_milliseconds(lambda t=ids: view.append(t, TokenSource.OUTPUT)))  # type: ignore[misc]
        search()  # there is nothing else to be done before they match
        view.truncate(LONG_PROMPT_LENGTH)
    return steps, prompt


def _turn_times(texts: Sequence[IntArray]) -> tuple[list[float], list[float]]:
    """Milliseconds to save an answer and its sequence, as the app does: CPU, and on the wall."""
    token_ids = np.resize(np.concatenate(texts), TURN_LENGTH)
    times, wall_times = [], []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Database(Path(folder)) as database,
    ):
        tokenizer_id = database.tokenizers.ensure("bench", "bench")
        conversation = database.conversations.create("bench")
        for _ in range(NUM_TURNS):
            answer = database.messages.start_answer(
                conversation.id, None, tokenizer_id=tokenizer_id
            )

            def save(message_id: int = answer.id) -> None:
                database.messages.finish_answer(
                    message_id,
                    text="text " * TURN_LENGTH,
                    token_ids=token_ids,
                    status="complete",
                    sequence=NewSequence(tokenizer_id, token_ids),
                )

            started = time.perf_counter()
            times.append(_cpu_milliseconds(save))
            wall_times.append((time.perf_counter() - started) * 1e3)
    return times, wall_times


def _save_and_open(trie: Trie) -> tuple[float, float, float]:
    """Seconds to write all segments as the app does, and to have a Trie of them again.

    CPU time of both, and opening on the wall.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cache = SegmentCache(Path(folder) / "segments.db", "bench")

        def save() -> None:
            contents = {str(number): one.to_bytes() for number, one in enumerate(trie.segments)}
            cache.save(1, list(contents), contents)

        def read() -> None:
            for _, data in cache.load(1):
                end_place = segments[-1].log.end_place if segments else 0
                segments.append(Segment.from_bytes(data, end_place))
            opened.append(Trie.from_segments(segments))

        save_seconds = _cpu_seconds(save)
        segments: list[Segment] = []
        opened: list[Trie] = []
        started = time.perf_counter()
        open_seconds = _cpu_seconds(read)
        wall_seconds = time.perf_counter() - started
        if opened[0].sequence_ids != trie.sequence_ids:
            raise BenchError("The Trie could not be saved: is there room in the temporary folder?")
        return save_seconds, open_seconds, wall_seconds


def _num_distinct(sequences: Sequence[IntArray]) -> int:
    seen = np.zeros(1 + max(int(one.max(initial=0)) for one in sequences), np.bool)
    for one in sequences:
        seen[one] = True
    return int(seen.sum())
