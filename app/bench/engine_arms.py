"""The arms of our own engine: plain, with a Trie that is empty, grows or was warmed, any drafter.

What outlives a prompt in an arm is what its title says, and nothing else: each arm has its own
Trie, its own `Learned`, and a fresh session for every prompt. One rule for the times of
all: what a drafter begins with at the prompt is prefill, drafting and learning from rows belong to
the decode steps, and what makes history of a finished answer, sealing with it, is apart.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.bench.arms import (
    Answering,
    Arm,
    ArmResult,
    BenchRequest,
    Clock,
    finish,
    watch_events,
)
from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.drafter import Drafter
from lookahead.events import Event
from lookahead.learned import Learned
from lookahead.step_costs import StepCosts
from lookahead.trie import Trie

if TYPE_CHECKING:
    from lookahead import LoadedModel, Session

__all__ = [
    "ColdArm",
    "DrafterArm",
    "EngineRunner",
    "HistoryArm",
    "PlainArm",
    "Runner",
    "WarmedArm",
    "rehearse",
    "warm",
]


# Published methods fix what they draft; wider ones were measured to be slower here.
_PUBLISHED_ROWS = 16


class Runner(Protocol):
    """Starts one generation; scripted in tests."""

    @property
    def vocab_size(self) -> int:
        """Number of logits."""
        ...

    @property
    def clock(self) -> Clock:
        """Gives seconds."""
        ...

    def generate(
        self,
        request: BenchRequest,
        *,
        trie: Trie | None = None,
        learned: Learned | None = None,
        drafter: Drafter | None = None,
        session: "Session | None" = None,
        is_one_row: bool = False,
    ) -> Iterator[Event]:
        """The events of one answer, nothing added to the Trie; `session` None: in a fresh one."""
        ...


@dataclass(frozen=True, slots=True)
class EngineRunner:
    """The real one.

    Args:
        temperature: 0: greedy; else sampled with the request's seed.
    """

    model: "LoadedModel"
    max_new_tokens: int
    strict: bool
    temperature: float = 0.0
    clock: Clock = time.perf_counter

    @property
    def vocab_size(self) -> int:
        """Number of logits."""
        return self.model.vocab_size

    def generate(
        self,
        request: BenchRequest,
        *,
        trie: Trie | None = None,
        learned: Learned | None = None,
        drafter: Drafter | None = None,
        session: "Session | None" = None,
        is_one_row: bool = False,
    ) -> Iterator[Event]:
        """See `Runner`."""
        import lookahead

        return lookahead.generate(
            self.model,
            request.prompt_ids,
            trie=trie,
            learned=learned,
            drafter=drafter,
            session=session,
            decoding=DecodingConfig(
                max_new_tokens=self.max_new_tokens,
                strict=self.strict and not is_one_row,
                max_rows=None if drafter is None else _PUBLISHED_ROWS,
                adaptive=drafter is None,
            ),
            sampling=SamplingConfig(temperature=self.temperature, seed=request.seed),
            observe=False,  # what is remembered is measured apart
        )


class _EngineArm(ABC):
    """Answers a forward at a time."""

    @abstractmethod
    def answer(self, request: BenchRequest) -> Answering:
        """See `SteppedArm`."""

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`."""
        return finish(self.answer(request))


class PlainArm(_EngineArm):
    """Our loop with nothing drafted: in the mode measured, or one row a forward."""

    def __init__(self, runner: Runner, *, is_one_row: bool = False) -> None:
        self._runner = runner
        self._is_one_row = is_one_row
        self.name = "plain-one-row" if is_one_row else "plain"
        self.title = "ours, plain, one row" if is_one_row else "ours, plain"

    def answer(self, request: BenchRequest) -> Answering:
        """See `SteppedArm`."""
        return (
            yield from watch_events(
                lambda: self._runner.generate(request, is_one_row=self._is_one_row),
                self._runner.clock,
            )
        )


class ColdArm(_EngineArm):
    """Nothing is known but the prompt and the machine: no Trie, no successors, step costs."""

    name = "cold"
    title = "lookahead, cold"

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._step_costs = StepCosts()

    def answer(self, request: BenchRequest) -> Answering:
        """See `SteppedArm`."""
        trie, learned = Trie(), Learned.empty(self._runner.vocab_size)
        learned.step_costs = self._step_costs
        return (
            yield from watch_events(
                lambda: self._runner.generate(request, trie=trie, learned=learned),
                self._runner.clock,
            )
        )


class HistoryArm(_EngineArm):
    """Earlier prompts of the run and their answers are history."""

    name = "history"
    title = "lookahead, with history"

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._trie = Trie()
        self._learned = Learned.empty(runner.vocab_size)

    def answer(self, request: BenchRequest) -> Answering:
        """See `SteppedArm`."""
        known_length = self._trie.statistics().num_tokens
        result = yield from watch_events(
            lambda: self._runner.generate(request, trie=self._trie, learned=self._learned),
            self._runner.clock,
        )
        result.known_length = known_length

        result.remember_seconds = _seconds(
            self._runner.clock, lambda: _remember(self._trie, request, result)
        )
        return result


class WarmedArm(_EngineArm):
    """Every prompt meets the same Trie and successors, and leaves only step costs behind."""

    def __init__(
        self,
        runner: Runner,
        trie: Trie,
        learned: Learned,
        *,
        name: str = "warmed",
        title: str = "lookahead, warmed",
    ) -> None:
        self._runner = runner
        self._trie = trie
        self._learned = learned
        self.name = name
        self.title = title

    def answer(self, request: BenchRequest) -> Answering:
        """See `SteppedArm`."""
        learned = self._learned.copy()
        learned.step_costs = self._learned.step_costs
        result = yield from watch_events(
            lambda: self._runner.generate(request, trie=self._trie, learned=learned),
            self._runner.clock,
        )
        result.known_length = self._trie.statistics().num_tokens
        return result


class DrafterArm(_EngineArm):
    """A drafter by its name, kept for the whole run: it has whatever history its method keeps."""

    def __init__(self, runner: Runner, drafter_name: str) -> None:
        from lookahead import drafters

        self._runner = runner
        self._drafter = drafters.make(drafter_name, vocab_size=runner.vocab_size)
        self.name = f"drafter-{drafter_name}"
        self.title = f"drafter {drafter_name}"

    def answer(self, request: BenchRequest) -> Answering:
        """See `SteppedArm`."""

        def generate() -> Iterator[Event]:
            self._drafter.begin(request.prompt_ids)
            self._drafter.observe_prompt(request.prompt_ids, None)
            yield from self._runner.generate(request, drafter=self._drafter)

        result = yield from watch_events(generate, self._runner.clock)
        ids = [*request.prompt_ids, *result.token_ids]
        result.remember_seconds = _seconds(self._runner.clock, lambda: self._drafter.remember(ids))
        return result


def _remember(trie: Trie, request: BenchRequest, result: ArmResult) -> None:
    """An answer becomes history, sorted as soon as a tail is too long to be scanned."""
    trie.add([*request.prompt_ids, *result.token_ids])
    if trie.needs_sealing:
        trie.seal()


def _seconds(clock: Clock, action: Callable[[], None]) -> float:
    started = clock()
    action()
    return clock() - started


def warm(
    runner: Runner,
    requests: Iterable[BenchRequest],
    report: Callable[[BenchRequest], None],
    may_go_on: Callable[[], bool] = lambda: True,
) -> tuple[Trie, Learned]:
    """A Trie with the model's own answers to these requests, sealed, and what was learned.

    Args:
        may_go_on: asked before each.
    """
    trie, learned = Trie(), Learned.empty(runner.vocab_size)
    for request in requests:
        if not may_go_on():
            break
        report(request)
        answering = watch_events(
            lambda r=request: runner.generate(r, trie=trie, learned=learned),  # type: ignore[misc]
            runner.clock,
        )
        result = finish(answering)
        _remember(trie, request, result)
    trie.seal()
    return trie, learned


def rehearse(arms: Sequence[Arm], request: BenchRequest, report: Callable[[str], None]) -> None:
    """Answer once with each arm: what a first call sets up is not measured.

    Args:
        arms: with stores that are thrown away.
        request: one that is not measured.
    """
    for arm in arms:
        report(f"Warming up: {arm.title}")
        arm.run(request)
