"""The arms of our own engine: plain, with a Trie that is empty, grows or was warmed, any drafter.

What outlives a prompt in an arm is what its title says, and nothing else: each arm has its own
Trie, its own recycled successors, and a fresh session for every prompt.
"""

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.bench.arms import ArmResult, BenchRequest, Clock, watch_events
from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.drafter import Drafter
from lookahead.events import Event
from lookahead.successors import SuccessorTable
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
    "warm",
]


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
        successors: SuccessorTable | None = None,
        drafter: Drafter | None = None,
        session: "Session | None" = None,
        is_one_row: bool = False,
        observe: bool = True,
    ) -> Iterator[Event]:
        """The events of one answer; `session` None: in a fresh one."""
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
        successors: SuccessorTable | None = None,
        drafter: Drafter | None = None,
        session: "Session | None" = None,
        is_one_row: bool = False,
        observe: bool = True,
    ) -> Iterator[Event]:
        """See `Runner`."""
        import lookahead

        return lookahead.generate(
            self.model,
            request.prompt_ids,
            trie=trie,
            successors=successors,
            drafter=drafter,
            session=session,
            decoding=DecodingConfig(
                max_new_tokens=self.max_new_tokens, strict=self.strict and not is_one_row
            ),
            sampling=SamplingConfig(temperature=self.temperature, seed=request.seed),
            observe=observe,
        )


class PlainArm:
    """Our loop with nothing drafted: in the mode measured, or one row a forward."""

    def __init__(self, runner: Runner, *, is_one_row: bool = False) -> None:
        self._runner = runner
        self._is_one_row = is_one_row
        self.name = "plain-one-row" if is_one_row else "plain"
        self.title = "ours, plain, one row" if is_one_row else "ours, plain"

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`."""
        return watch_events(
            lambda: self._runner.generate(request, is_one_row=self._is_one_row),
            self._runner.clock,
        )


class ColdArm:
    """Nothing is known but the prompt: an empty Trie and no successors for every prompt."""

    name = "cold"
    title = "lookahead, cold"

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`."""
        trie, successors = Trie(), SuccessorTable(self._runner.vocab_size)
        return watch_events(
            lambda: self._runner.generate(request, trie=trie, successors=successors),
            self._runner.clock,
        )


class HistoryArm:
    """Earlier prompts of the run and their answers are history."""

    name = "history"
    title = "lookahead, with history"

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._trie = Trie()
        self._successors = SuccessorTable(runner.vocab_size)

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`. Sealing, which the app does while nothing is asked, is not measured."""
        if self._trie.needs_sealing:
            self._trie.seal()
        return watch_events(
            lambda: self._runner.generate(request, trie=self._trie, successors=self._successors),
            self._runner.clock,
        )


class WarmedArm:
    """Every prompt meets the same Trie and successors, and leaves nothing behind."""

    def __init__(
        self,
        runner: Runner,
        trie: Trie,
        successors: SuccessorTable,
        *,
        name: str = "warmed",
        title: str = "lookahead, warmed",
    ) -> None:
        self._runner = runner
        self._trie = trie
        self._successors = successors
        self.name = name
        self.title = title

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`."""
        successors = copy.deepcopy(self._successors)
        return watch_events(
            lambda: self._runner.generate(
                request, trie=self._trie, successors=successors, observe=False
            ),
            self._runner.clock,
        )


class DrafterArm:
    """A drafter by its name, kept for the whole run: it has whatever history its method keeps."""

    def __init__(self, runner: Runner, drafter_name: str) -> None:
        from lookahead import drafters

        self._runner = runner
        self._drafter = drafters.make(drafter_name, vocab_size=runner.vocab_size)
        self.name = f"drafter-{drafter_name}"
        self.title = f"drafter {drafter_name}"

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`. What the drafter does at the prompt counts as prefill."""

        def generate() -> Iterator[Event]:
            self._drafter.begin(request.prompt_ids)
            self._drafter.observe_prompt(request.prompt_ids, None)
            yield from self._runner.generate(request, drafter=self._drafter)

        result = watch_events(generate, self._runner.clock)
        self._drafter.remember([*request.prompt_ids, *result.token_ids])
        return result


def warm(
    runner: Runner, requests: Iterable[BenchRequest], report: Callable[[BenchRequest], None]
) -> tuple[Trie, SuccessorTable]:
    """A Trie with the model's own answers to these requests, sealed, and what was recycled."""
    trie, successors = Trie(), SuccessorTable(runner.vocab_size)
    for request in requests:
        report(request)
        for _ in runner.generate(request, trie=trie, successors=successors):
            pass
    trie.seal()
    return trie, successors
