"""What a decode step costs by its width, and so what a replay's tokens per step would be worth.

A curve is measured in the real decode loop with drafts of fixed shapes; what was measured once is
kept in the cache folder. Where nothing was measured, a set recorded on one machine stands in for
the embedded model, and says so. Called by the replay suite.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.bench.replay import ReplayResult
from lookahead.candidates import IntArray
from lookahead.config import DecodingConfig
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.events import StepDone
from lookahead.request_view import RequestView

if TYPE_CHECKING:
    import torch

    from lookahead import LoadedModel

__all__ = [
    "FLAT",
    "RECORDED_CURVES",
    "CostCurve",
    "known_curve",
    "measure_curve",
    "typical_parents",
]

CONTEXT_LENGTH = 256
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
_NUM_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class CostCurve:
    """T(width): milliseconds of a decode step, drafting not counted.

    Args:
        name: stable; figures carry it.
        title: for people.
        source: where and how the numbers were found, a sentence.
        milliseconds: by width, one row included; between two widths the line is straight.
    """

    name: str
    title: str
    source: str
    milliseconds: Mapping[int, float]

    def at(self, width: int) -> float:
        """Milliseconds of a step of this width; NaN for one wider than was measured."""
        below = max((known for known in self.milliseconds if known <= width), default=None)
        above = min((known for known in self.milliseconds if known >= width), default=None)
        if below is None or above is None:
            return math.nan
        start, end = self.milliseconds[below], self.milliseconds[above]
        return (
            start if above == below else start + (end - start) * (width - below) / (above - below)
        )

    def speedup(self, result: ReplayResult) -> float | None:
        """Decode speed over plain decoding in the same mode, CPU time of drafting included.

        None where a step was wider than the curve goes, or there was no step.
        """
        widths: Counter[int] = result.widths
        total = sum(steps * self.at(width) for width, steps in widths.items())
        total += result.num_steps * result.drafting_milliseconds
        if not result.num_steps or math.isnan(total):
            return None
        return result.num_plain_steps * self.at(1) / total


FLAT = CostCurve(
    "flat",
    "flat, GPU-like",
    "Assumed, not measured: a step waits for the weights to be read (16 GB at 0.8 TB/s, 20 ms), "
    "whatever its width; 64 rows add a tenth for attention and larger products.",
    {1: 20.0, 64: 22.0},
)

_MACHINE = (
    "Recorded before weights were packed: AMD EPYC (Zen 4, AVX-512, bf16), 2 cores with other "
    "work, torch 2.13, the embedded model, context 256, fastest of 20 steps. --measure-costs "
    "measures this machine."
)
RECORDED_CURVES = (
    CostCurve(
        "cpu-fp32",
        "CPU fp32, flexible",
        _MACHINE,
        {1: 60.6, 2: 107.3, 4: 98.6, 8: 110.5, 16: 118.9, 32: 164.0, 64: 242.8},
    ),
    CostCurve(
        "cpu-bf16-strict",
        "CPU bf16, strict",
        _MACHINE,
        {1: 53.0, 2: 56.5, 4: 66.6, 8: 78.0, 16: 114.2, 32: 186.6},
    ),
)


def known_curve(
    recorded: CostCurve,
    facts: Mapping[str, str],
    fingerprints: Sequence[str],
    *,
    is_embedded: bool,
) -> CostCurve | None:
    """The curve measured here, where there is one; else the recorded one, if it is of this model.

    Args:
        fingerprints: of the model on this machine, in the dtype of the curve, the best first: it
            may have been loaded in other ways.
        is_embedded: whether the model is the embedded one, with which the curves were recorded.
    """
    stand_in = recorded if is_embedded else None
    names = [_fact_name(recorded, fingerprint) for fingerprint in fingerprints]
    try:
        measured = json.loads(next(facts[name] for name in names if name in facts))
        points = {int(width): float(value) for width, value in measured.items()}
    except (StopIteration, ValueError, TypeError, AttributeError):  # unknown, or damaged
        return stand_in
    if 1 not in points or not all(0 < value < math.inf for value in points.values()):
        return stand_in
    return _measured(recorded, points)


def measure_curve(
    model: "LoadedModel",
    recorded: CostCurve,
    facts: MutableMapping[str, str],
    *,
    strict: bool,
    num_rounds: int = _NUM_ROUNDS,
) -> CostCurve:
    """Time steps of every width in turns, in the real loop; the fastest are kept in `facts`.

    The fastest of some, since other programs only ever slow a step down.

    Args:
        recorded: gives name and title.
        strict: rows of the model's class and attention node by node; widths above are left out.

    Raises:
        UnsupportedModeError: strict mode is not possible with this model here.
    """
    row_class = model.row_class(strict)
    widest = max(row_class, default=max(WIDTHS))
    widths = [width for width in WIDTHS if width <= widest]
    seconds: dict[int, list[float]] = {width: [] for width in widths}
    for step in _timed_steps(model, widths, strict=strict, num_rounds=num_rounds):
        seconds[step.width].append(step.seconds)
    points = {width: 1000 * min(values) for width, values in seconds.items()}
    facts[_fact_name(recorded, model.fingerprint)] = json.dumps(points)
    return _measured(recorded, points)


def _timed_steps(
    model: "LoadedModel", widths: Sequence[int], *, strict: bool, num_rounds: int
) -> list[StepDone]:
    """Steps of one generation whose drafts have the widths in turns."""
    import torch

    import lookahead

    length = min(CONTEXT_LENGTH, model.context_length // 2)
    prompt = [(7919 * at) % model.vocab_size for at in range(1, length + 1)]
    forbidden = sorted(model.end_token_ids | {0})
    indexes = torch.tensor(forbidden, device=model.device)

    def forbid(_: Sequence[int], logits: "torch.Tensor") -> "torch.Tensor":
        return logits.index_fill(0, indexes, -math.inf)

    num_steps = len(widths) * num_rounds
    events = lookahead.generate(
        model,
        prompt,
        drafter=_FixedShapes(widths, num_steps, forbidden[0]),
        decoding=DecodingConfig(
            max_new_tokens=model.context_length,
            strict=strict,
            max_rows=max(widths),
            adaptive=False,
        ),
        process_logits=forbid,
    )
    steps: list[StepDone] = []
    for event in events:
        if isinstance(event, StepDone):
            steps.append(event)
        if len(steps) == num_steps:
            break
    return steps


class _FixedShapes:
    """Drafts trees of given widths in turns, of a token that is never chosen."""

    reads_rows = True  # what our own drafter costs

    def __init__(self, widths: Sequence[int], num_steps: int, token_id: int) -> None:
        self._shapes = [typical_parents(widths[step % len(widths)]) for step in range(num_steps)]
        self._token_id = token_id

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """The next shape."""
        parents = self._shapes.pop(0)
        num_drafted = len(parents) - 1
        return DraftTree(
            token_ids=(int(request.token_ids[-1]), *[self._token_id] * num_drafted),
            parents=parents,
            sources=(TokenSource.MODEL, *[TokenSource.RECYCLED] * num_drafted),
            probabilities=(1.0,) * len(parents),
            positions=(-1,) * len(parents),
        )

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """There is nothing to learn."""


def typical_parents(width: int) -> tuple[int, ...]:
    """A draft's usual shape: half of it one deep branch, the rest single tokens beside that."""
    depth = min(width // 2, DecodingConfig().max_draft_depth)
    spine = list(range(-1, depth))  # node `n` is the child of `n - 1`
    beside = [node % max(1, depth) for node in range(width - len(spine))]
    return (*spine, *sorted(beside, reverse=True))  # depth first, as drafters lay trees out


def _measured(recorded: CostCurve, points: Mapping[int, float]) -> CostCurve:
    source = f"Measured on this machine, context {CONTEXT_LENGTH}, fastest steps."
    return CostCurve(recorded.name, recorded.title, source, points)


def _fact_name(curve: CostCurve, fingerprint: str) -> str:
    return f"step_cost:{curve.name}:{fingerprint}"
