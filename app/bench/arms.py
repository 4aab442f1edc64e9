"""An arm: one way to answer a prompt, and what it took. The benchmark runs several side by side.

Times are measured here, the same way for all: from the call to the first tokens, from those to the
last ones, and the whole call. Knows no model and no library; called by the live suites.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.bench.prompt_sets import BenchPrompt
from lookahead.events import Event, Finished, PrefillDone, StepDone

__all__ = [
    "Answering",
    "Arm",
    "ArmResult",
    "BenchRequest",
    "Clock",
    "SteppedArm",
    "Stopwatch",
    "TokenWatch",
    "finish",
    "watch_events",
]

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """A prompt made ready: its ids, and the seed where it is sampled."""

    prompt: BenchPrompt
    prompt_ids: tuple[int, ...]
    seed: int = 0


@dataclass(slots=True)
class ArmResult:
    """One answer of one arm; lengths in tokens, times in seconds.

    Args:
        token_ids: as emitted, end of sequence excluded.
        first_length: tokens that came with the first forward: no decode step made them.
        prefill_seconds: to the first tokens. `decode_seconds`: from there to the last ones.
        total_seconds: the whole call, with what is done after the last token.
        accepted_lengths: decode steps by the drafted tokens that each accepted.
        num_rows: rows of all decode steps, padding included; `num_nodes` without it. 0: unknown.
        draft_seconds: of the decode steps, drafting and learning from rows.
        remember_seconds: making history of the answer, after the call; None: nothing is kept.
        known_length: tokens of the Trie that was drafted from.
    """

    token_ids: tuple[int, ...] = ()
    first_length: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    total_seconds: float = 0.0
    accepted_lengths: Counter[int] = field(default_factory=Counter)
    num_nodes: int = 0
    num_rows: int = 0
    drafted_by_source: Counter[str] = field(default_factory=Counter)
    accepted_by_source: Counter[str] = field(default_factory=Counter)
    draft_seconds: float = 0.0
    remember_seconds: float | None = None
    known_length: int = 0
    reused_length: int = 0
    prefilled_length: int = 0

    @property
    def num_steps(self) -> int:
        """Decode steps, the first forward not counted."""
        return self.accepted_lengths.total()

    @property
    def num_decoded(self) -> int:
        """Tokens that decode steps emitted."""
        return len(self.token_ids) - self.first_length

    @property
    def decode_rate(self) -> float | None:
        """Tokens per second of decode steps; None where they emitted nothing."""
        if self.num_decoded < 1 or self.decode_seconds <= 0:
            return None
        return self.num_decoded / self.decode_seconds

    @property
    def total_rate(self) -> float | None:
        """Tokens per second of the whole call; None where there is no token."""
        if not self.token_ids or self.total_seconds <= 0:
            return None
        return len(self.token_ids) / self.total_seconds


class Arm(Protocol):
    """One way to answer prompts. `name` is stable: figures carry it; `title` is for people."""

    name: str
    title: str

    def run(self, request: BenchRequest) -> ArmResult:
        """Answer, and measure."""
        ...


Answering = Generator[int, None, ArmResult]
"""An answer in the making: after each forward the tokens so far, at the end the result."""


class SteppedArm(Arm, Protocol):
    """An arm that can be stopped between two forwards."""

    def answer(self, request: BenchRequest) -> Answering:
        """Answer, a forward at a time; only the time of its own forwards is measured."""
        ...


def finish(answering: Answering) -> ArmResult:
    """Go on to the end."""
    while True:
        try:
            next(answering)
        except StopIteration as ended:
            result: ArmResult = ended.value
            return result


class Stopwatch:
    """A clock that stands still but within `with`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = 0.0
        self._since: float | None = None

    def __call__(self) -> float:
        running = 0.0 if self._since is None else self._clock() - self._since
        return self._seconds + running

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *_: object) -> None:
        self._seconds, self._since = self(), None


class TokenWatch:
    """Notes when the tokens of one answer come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock()
        self._first: float | None = None
        self._last = self._started
        self._token_ids: list[int] = []
        self._first_length = 0
        self._accepted_lengths: Counter[int] = Counter()

    def take(self, token_ids: Sequence[int], accepted_length: int | None = None) -> None:
        """The tokens of one forward are there.

        Args:
            accepted_length: how many of them were drafted; None: all but one.
        """
        self._last = self._clock()
        if self._first is None:
            self._first = self._last
            self._first_length = len(token_ids)
        else:
            accepted = len(token_ids) - 1 if accepted_length is None else accepted_length
            self._accepted_lengths[max(0, accepted)] += 1
        self._token_ids += token_ids

    def result(self, end_token_ids: Iterable[int] = ()) -> ArmResult:
        """The call is over; what stands behind an end of sequence is cut off with it."""
        ended = self._clock()
        ids = self._token_ids
        ends = frozenset(end_token_ids)
        length = next((at for at, token_id in enumerate(ids) if token_id in ends), len(ids))
        first = self._last if self._first is None else self._first
        return ArmResult(
            token_ids=tuple(ids[:length]),
            first_length=min(length, self._first_length),
            prefill_seconds=first - self._started,
            decode_seconds=self._last - first,
            total_seconds=ended - self._started,
            accepted_lengths=self._accepted_lengths,
        )


def watch_events(generate: Callable[[], Iterable[Event]], clock: Clock) -> Answering:
    """Run one generation of our engine and measure it."""
    stopwatch = Stopwatch(clock)
    watch = TokenWatch(stopwatch)
    num_nodes = num_rows = num_tokens = 0
    drafted: Counter[str] = Counter()
    finished: Finished | None = None
    events = iter(generate())
    while True:
        with stopwatch:
            event = next(events, None)
            match event:
                case PrefillDone():
                    watch.take(event.token_ids)
                case StepDone():
                    watch.take(event.token_ids, event.accepted_length)
        match event:
            case None:
                break
            case PrefillDone():
                num_tokens = len(event.token_ids)
                yield num_tokens
            case StepDone():
                num_tokens += len(event.token_ids)
                num_nodes += event.width
                num_rows += event.rows
                drafted.update(source.value for source in event.draft.sources[1:])
                yield num_tokens
            case Finished():
                finished = event
    assert finished is not None, "a generation that nobody cancels finishes"
    result = watch.result()
    stats = finished.stats
    result.token_ids = finished.token_ids
    result.num_nodes, result.num_rows = num_nodes, num_rows
    result.drafted_by_source = drafted
    for source, count in stats.accepted_by_source.items():
        result.accepted_by_source[source.value] += count
    result.draft_seconds = stats.draft_seconds
    result.reused_length = stats.reused_length
    result.prefilled_length = stats.prefilled_length
    return result
