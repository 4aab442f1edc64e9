"""An engine that two arms race on: scripted, and it writes down which arm was asked for what.

Used by the tests of comparisons.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.services import AnswerOptions, ChatService
from app.services.engine import GenerationRequest
from lookahead.draft import DraftTree, TokenSource
from lookahead.events import Event, Finished, FinishReason, GenerationStats, PrefillDone, StepDone
from tests.app.asking import WAIT
from tests.app.scripted_engine import ScriptedEngine, ScriptedSession

OPTIONS = AnswerOptions(temperature=0.0, max_new_tokens=64, seed=5)
TEXT = "It is Paris, of course."


@dataclass
class RacingEngine(ScriptedEngine):
    """A token a step plainly and four with lookahead; writes down which arm was asked for what.

    Args:
        lookahead_answer: another text than plain's; None: the same.
        seconds: of a step of the plain arm and of the other.
        digests: of the logits behind the token of an index.
        failing: the arm whose third forward fails.
        reasons: why the plain arm ends, and why the other.
    """

    lookahead_answer: str | None = None
    seconds: tuple[float, float] = (0.5, 0.75)
    digests: Callable[[bool, int], bytes] = lambda is_plain, index: b"%d" % index
    failing: str = ""
    reasons: tuple[FinishReason, FinishReason] = (FinishReason.END, FinishReason.END)
    divergence: Any = None
    forwards: list[str] = field(default_factory=list)
    sessions: list[ScriptedSession] = field(default_factory=list)
    judged: list[tuple[Sequence[int], Sequence[int]]] = field(default_factory=list)

    def new_session(self, model: Any) -> Any:
        self.sessions.append(session := ScriptedSession())
        return session

    def find_divergence(
        self, model: Any, prompt_ids: Any, plain: Sequence[int], drafted: Sequence[int], **_: Any
    ) -> Any:
        self.judged.append((plain, drafted))
        return self.divergence

    def generate(self, model: Any, request: GenerationRequest) -> Iterator[Event]:
        if request.take_digest is None:
            yield from super().generate(model, request)
            return
        self.requests.append(request)
        is_plain = request.trie is None
        text = self.answer if is_plain else (self.lookahead_answer or self.answer)
        ids = list(text.encode())[: request.decoding.max_new_tokens]
        stats = GenerationStats(mode=model.mode, num_prefill_chunks=1)
        emitted = self._forward(is_plain, ids, 0, 1, request)
        stats.num_tokens = 1
        yield PrefillDone(tuple(emitted), 0, len(request.prompt_ids), 1, 0.25)
        reason = self.reasons[0 if is_plain else 1]
        while len(emitted) < len(ids):
            if self.gate is not None:
                self.gate.acquire(timeout=30)
            if request.is_cancelled():
                reason = FinishReason.CANCELLED
                break
            fresh = self._forward(is_plain, ids, len(emitted), 1 if is_plain else 4, request)
            emitted += fresh
            step = self._racing_step(fresh, is_plain)
            stats.count_step(step)
            yield step
        stats.num_tokens = len(emitted)
        yield Finished(tuple(emitted), reason, stats)

    def _forward(
        self, is_plain: bool, ids: list[int], at: int, count: int, request: GenerationRequest
    ) -> list[int]:
        name = "plain" if is_plain else "lookahead"
        self.forwards.append(name)
        if name == self.failing and self.forwards.count(name) == 3:
            raise RuntimeError("the forward failed")
        fresh = ids[at : at + count]
        assert request.take_digest is not None
        for index in range(at, at + len(fresh)):
            request.take_digest(self.digests(is_plain, index))
        return fresh

    def _racing_step(self, fresh: list[int], is_plain: bool) -> StepDone:
        accepted = fresh[:-1]
        draft = DraftTree(
            token_ids=(7, *accepted),
            parents=tuple(range(-1, len(accepted))),
            sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * len(accepted)),
            probabilities=(1.0, *[0.5] * len(accepted)),
            positions=(-1, *[0] * len(accepted)),
            match_length=2,
        )
        return StepDone(
            token_ids=tuple(fresh),
            accepted_length=len(accepted),
            accepted_nodes=tuple(range(1, len(accepted) + 1)),
            width=draft.width,
            rows=16,
            draft=draft,
            match_length=2,
            seconds=self.seconds[0 if is_plain else 1],
            draft_seconds=0.0,
        )


def compared(service: ChatService, prompt: str = "Which city?", **options: Any) -> Any:
    job = service.compare(prompt, AnswerOptions(**{"seed": 5, "temperature": 0.0, **options}))
    return job.wait_until_over(WAIT)
