"""A clock that only a script moves, a runner whose generations take scripted time, and a workload
that gives it to the suites as they are.
"""

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from app.bench.arms import BenchRequest
from app.bench.prompt_sets import BenchPrompt, PromptSet
from app.bench.workload import Workload
from app.prompting import Prompt, Turn
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import Drafter
from lookahead.events import Event, Finished, FinishReason, GenerationStats, PrefillDone, StepDone
from lookahead.learned import Learned
from lookahead.trie import Trie

ANSWER_LENGTH = 12


class ScriptedClock:
    """Seconds that pass when the script says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class ScriptedRunner:
    """Answers every prompt with the same kind of ids; drafting accepts one token a step.

    Args:
        slowdown: factor on the time of a drafted step.
        wrong_at: (prompt id, index): where drafting gets a token wrong.
        noise: largest share by which an answer's time is off by chance, drawn with `seed`.
    """

    def __init__(
        self,
        *,
        slowdown: float = 1.0,
        wrong_at: tuple[str, int] | None = None,
        noise: float = 0.05,
        seed: int = 1,
    ) -> None:
        self.clock = ScriptedClock()
        self.vocab_size = 64
        self.calls: list[tuple[str, Trie | None]] = []
        self._slowdown = slowdown
        self._wrong_at = wrong_at
        self._noise = noise
        self._chance = random.Random(seed)

    def generate(
        self,
        request: BenchRequest,
        *,
        trie: Trie | None = None,
        learned: Learned | None = None,
        drafter: Drafter | None = None,
        session: Any = None,
        is_one_row: bool = False,
    ) -> Iterator[Event]:
        self.calls.append((request.prompt.id, trie))
        drafts = trie is not None or drafter is not None
        ids = [3 + (sum(request.prompt_ids) + at * at) % 50 for at in range(ANSWER_LENGTH)]
        if drafts and self._wrong_at is not None and request.prompt.id == self._wrong_at[0]:
            ids[self._wrong_at[1]] = 63
        per_step = 2 if drafts else 1
        seconds = 0.1 * (self._slowdown if drafts else 1.0)
        seconds *= 1 + self._noise * self._chance.uniform(-1, 1)
        stats = GenerationStats(num_tokens=len(ids))
        self.clock.advance(0.5)
        yield PrefillDone(tuple(ids[:1]), 0, len(request.prompt_ids), 1, 0.5)
        for start in range(1, len(ids), per_step):
            self.clock.advance(seconds)
            tokens = tuple(ids[start : start + per_step])
            step = _step(tokens, per_step, seconds)
            stats.count_step(step)
            yield step
        self.clock.advance(0.01)
        yield Finished(tuple(ids), FinishReason.LENGTH, stats)


def _step(tokens: tuple[int, ...], width: int, seconds: float) -> StepDone:
    drafted = width - 1
    draft = DraftTree(
        token_ids=(1, *tokens[:drafted])[:width] if drafted else (1,),
        parents=tuple(range(-1, drafted)),
        sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * drafted),
        probabilities=(1.0,) * width,
        positions=(-1,) * width,
    )
    return StepDone(
        token_ids=tokens,
        accepted_length=drafted,
        accepted_nodes=tuple(range(1, width)),
        width=width,
        rows=max(2, width),
        draft=draft,
        match_length=drafted,
        seconds=seconds,
        draft_seconds=seconds / 10 if drafted else 0.0,
    )


def scripted_requests(count: int) -> list[BenchRequest]:
    """Prompts that go round three categories."""
    return [
        BenchRequest(
            BenchPrompt(
                f"p{at}", ("coding", "rag", "qa")[at % 3], ("Question " + "?" * at, "Again.")
            ),
            (5, 6, 7 + at),
            seed=at,
        )
        for at in range(count)
    ]


class ScriptedBuilder:
    """Ids are lengths: one for each question, the ids of each answer between."""

    def build_chat(self, turns: Sequence[Turn]) -> Prompt:
        ids: list[int] = []
        for turn in turns:
            ids += [len(turn.text), *(turn.answer_ids or ())]
        return Prompt(tuple(ids), 0)


class ScriptedSession:
    """Keeps nothing."""

    def close(self) -> None:
        pass


class ScriptedWorkload(Workload):
    """What a suite starts from, without a model: every generation is the runner's."""

    def __init__(
        self, runner: ScriptedRunner, num_prompts: int, *, dtype: str = "bfloat16"
    ) -> None:
        model: Any = SimpleNamespace(
            name="scripted",
            dtype=f"torch.{dtype}",
            vocab_size=runner.vocab_size,
            end_token_ids=frozenset({2}),
            tokenizer=None,
            mode_reason="It is scripted.",
        )
        builder: Any = ScriptedBuilder()
        asked = tuple(request.prompt for request in scripted_requests(num_prompts))
        other = tuple(BenchPrompt(f"w{at}", "qa", (f"Warm {'!' * at}",)) for at in range(3))
        super().__init__(
            model, builder, True, PromptSet("asked", "0", asked), PromptSet("other", "1", other)
        )
        self.scripted = runner

    def runner(self, max_new_tokens: int, temperature: float = 0.0) -> Any:
        return self.scripted

    def new_session(self) -> Any:
        return ScriptedSession()

    def describe(self) -> dict[str, Any]:
        return {"model": "scripted", "dtype": self.dtype_name, "mode": "strict"}
