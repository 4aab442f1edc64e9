"""Runs arms side by side in a balanced order, and compares their texts.

Prompt by prompt, since the library's own `generate()` cannot be stopped between two forwards; arms
that can are run forward by forward where small differences count.

Whatever slows the machine for a while then slows all arms alike, and no arm is always the first to
touch a prompt. Knows arms and answers; no model, no statistics. Called by the live suites.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.bench.arms import Arm, ArmResult, BenchRequest, SteppedArm
from app.bench.statistics import loop_length
from lookahead.divergence import first_difference

__all__ = [
    "Comparison",
    "Difference",
    "Row",
    "Verdict",
    "answer_in_turns",
    "answer_whole",
    "arm_order",
    "run_interleaved",
]

ArmT = TypeVar("ArmT", bound=Arm)

_SEED = 7

# What a difference between two answers means: "tie", "bug", or why it cannot be told.
Verdict = Callable[[BenchRequest, Sequence[int], Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an arm's answer parts from the answer that it is compared with.

    Args:
        index: of the first token that differs, counted in the answer.
        expected: the token there of the arm compared with, -1: it had ended. `found`: this arm's.
        verdict: `tie`, `bug`, `difference` or `not compared bit for bit`.
        is_failure: whether the run fails for it.
    """

    prompt_id: str
    arm: str
    compared_with: str
    index: int
    expected: int
    found: int
    verdict: str
    is_failure: bool

    def __str__(self) -> str:
        return (
            f"{self.arm} differs from {self.compared_with} at prompt {self.prompt_id}, "
            f"token {self.index} ({self.found} instead of {self.expected}): {self.verdict}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which arm the others' texts are held against, and what a difference means.

    Args:
        reference: name of the arm compared with.
        arms: names of those compared; None: all.
        must_match: names of arms whose difference may fail the run; of others it is reported.
        judge: gives the verdict of a difference that may fail the run; `tie` does not.
    """

    reference: str
    must_match: frozenset[str]
    judge: Verdict = lambda _request, _expected, _found: "difference"
    arms: frozenset[str] | None = None

    def check(self, request: BenchRequest, results: Mapping[str, ArmResult]) -> list[Difference]:
        """The differences at one prompt."""
        differences = []
        expected = results[self.reference].token_ids
        for name, result in results.items():
            found = result.token_ids
            index = first_difference(expected, found)
            if index is None or (self.arms is not None and name not in self.arms):
                continue
            is_bound = name in self.must_match
            verdict = "another text"
            if is_bound:
                verdict = self.judge(request, expected, found)
            differences.append(
                Difference(
                    prompt_id=request.prompt.id,
                    arm=name,
                    compared_with=self.reference,
                    index=index,
                    expected=expected[index] if index < len(expected) else -1,
                    found=found[index] if index < len(found) else -1,
                    verdict=verdict,
                    is_failure=is_bound and verdict in ("bug", "difference"),
                )
            )
        return differences


@dataclass(slots=True)
class Row:
    """One answer of one arm, as statistics and JSON want it.

    Args:
        prompt_sha256: of the prompt's ids: pairs are made of answers to the same prompt only.
        turn: which turn of the conversation, from 0.
        position: the arm's place in the order in which the arms ran at this prompt.
    """

    prompt_id: str
    category: str
    turn: int
    arm: str
    position: int
    prompt_length: int
    result: ArmResult
    loop_length: int = 0
    difference: Difference | None = field(default=None)
    prompt_sha256: str = ""

    @classmethod
    def of(
        cls,
        request: BenchRequest,
        arm: str,
        position: int,
        result: ArmResult,
        *,
        turn: int = 0,
        difference: Difference | None = None,
    ) -> "Row":
        """The row of one answer to this request."""
        return cls(
            *(request.prompt.id, request.prompt.category, turn, arm, position),
            prompt_length=len(request.prompt_ids),
            result=result,
            loop_length=loop_length(result.token_ids),
            difference=difference,
            prompt_sha256=_digest(request.prompt_ids),
        )

    @property
    def is_looping(self) -> bool:
        """Whether the answer ends in an exact loop."""
        return self.loop_length > 0

    def as_json(self) -> dict[str, Any]:
        """Plain values; of the text a hash only."""
        result = self.result
        return {
            "prompt_id": self.prompt_id,
            "category": self.category,
            "turn": self.turn,
            "arm": self.arm,
            "position": self.position,
            "prompt_length": self.prompt_length,
            "num_tokens": len(result.token_ids),
            "first_length": result.first_length,
            "prefill_seconds": result.prefill_seconds,
            "decode_seconds": result.decode_seconds,
            "total_seconds": result.total_seconds,
            "num_steps": result.num_steps,
            "accepted_lengths": {str(k): n for k, n in sorted(result.accepted_lengths.items())},
            "num_nodes": result.num_nodes,
            "num_rows": result.num_rows,
            "drafted_by_source": dict(result.drafted_by_source),
            "accepted_by_source": dict(result.accepted_by_source),
            "draft_seconds": result.draft_seconds,
            "remember_seconds": result.remember_seconds,
            "known_length": result.known_length,
            "reused_length": result.reused_length,
            "prefilled_length": result.prefilled_length,
            "loop_length": self.loop_length,
            "prompt_sha256": self.prompt_sha256,
            "text_sha256": _digest(result.token_ids),
            "decode_rate": result.decode_rate,
            "differs_at": None if self.difference is None else self.difference.index,
        }


def _digest(token_ids: Sequence[int]) -> str:
    return hashlib.sha256(repr(tuple(token_ids)).encode()).hexdigest()[:16]


def arm_order(arms: Sequence[ArmT], index: int) -> list[ArmT]:
    """The order of the arms at one prompt: by chance, always the same, and balanced.

    In each block of as many prompts as there are arms, each arm stands at each place once.
    """
    block, place = divmod(index, len(arms))
    chance = random.Random(_SEED + block)
    mixed = list(arms)
    chance.shuffle(mixed)
    start = chance.sample(range(len(arms)), len(arms))[place]
    return [*mixed[start:], *mixed[:start]]


def answer_whole(arms: Sequence[Arm], request: BenchRequest) -> dict[str, ArmResult]:
    """One arm after the other, each to the end of its answer."""
    return {arm.name: arm.run(request) for arm in arms}


def answer_in_turns(arms: Sequence[SteppedArm], request: BenchRequest) -> dict[str, ArmResult]:
    """Forward by forward: next is the arm with the fewest tokens, of equal ones the first.

    What slows the machine down for a tenth of a second then slows all of them.
    """
    going = {arm.name: arm.answer(request) for arm in arms}
    lengths = dict.fromkeys(going, 0)
    results: dict[str, ArmResult] = {}
    while going:
        name = min(going, key=lengths.__getitem__)
        try:
            lengths[name] = next(going[name])
        except StopIteration as ended:
            results[name] = ended.value
            del going[name]
    return results


def run_interleaved(
    requests: Sequence[BenchRequest],
    arms: Sequence[ArmT],
    comparisons: Sequence[Comparison],
    *,
    answer: Callable[[Sequence[ArmT], BenchRequest], dict[str, ArmResult]],
    on_prompt: Callable[[int, list[Row]], None],
    may_go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Answer every request with every arm; `on_prompt` gets the rows of each, once all are in.

    Args:
        answer: how they take their turns: `answer_whole` or `answer_in_turns`.
        on_prompt: told the prompt's index and its rows, in the order of `arms`.
        may_go_on: asked before each prompt.
    """
    for index, request in enumerate(requests):
        if not may_go_on():
            return
        order = arm_order(arms, index)
        done = answer(order, request)
        results = {arm.name: done[arm.name] for arm in arms}
        differences = [d for comparison in comparisons for d in comparison.check(request, results)]
        found = {difference.arm: difference for difference in differences}
        positions = {arm.name: position for position, arm in enumerate(order)}
        rows = [
            Row.of(request, name, positions[name], result, difference=found.get(name))
            for name, result in results.items()
        ]
        on_prompt(index, rows)
