"""What a decode step takes here: milliseconds by rows, nodes, leaves and context.

Knows numbers only: no model, no clock. Kept per model, device and threads with the rest of what was
learned; the draft policy asks it before every step and tells it after. There is no measuring pause:
a prior gives the shape of the curve, the first real step its scale, the later ones both.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lookahead.blob import BlobFormatError, pack_arrays, unpack_arrays

__all__ = ["CostPrior", "StepCostFormatError", "StepCosts", "StepCurve", "StepShapes"]

FloatArray = NDArray[np.float64]

HEADER = "step costs 1"
_KNOTS = (1, 2, 4, 8, 16, 32, 64)  # rows; between two the cost is straight
_PER_CONTEXT = 1000.0  # tokens of context are counted in thousands

_UNIT = 50.0  # milliseconds of a one-row step before anything was seen: a guess
_UNIT_SPREAD = 10.0  # and how wrong it may be, in its own size: the first step decides
# How wrong the shape of a curve may be. Two tables of the same machine, measured at different
# loads, differ by 0.15 of a one-row step from one knot to the next; node and context costs by half.
_KNOT_SPREAD = 0.15
_OTHER_SPREAD = 0.5
# Steps of one shape in a row, on a machine with other work: 8 % around their median, the load
# itself drifting by about 6 % from one step to the next. A curve is forgotten over 1,000 steps.
_NOISE = 0.08
_LOAD_DRIFT = 2.0
_FORGETTING = 0.001
_LEAST_MILLISECONDS = 1e-3  # of a step
_OUTLIER = 3.0  # standard deviations; a step further off counts as one that far


class StepCostFormatError(BlobFormatError):
    """The bytes are damaged or of another version. Start with nothing learned."""


@dataclass(frozen=True, slots=True)
class CostPrior:
    """The shape of a cost curve before a step was seen; a step over one row is 1.

    Args:
        rows: at 1, 2, 4, 8, 16, 32 and 64 rows.
        context: a thousand tokens of context, for the whole step.
        row_context: the same, for each further row.
        node, leaf, node_context: strict attention, which runs a node apart from others: a node,
            rearranging for a branch, and a node's share per thousand tokens of context.
    """

    rows: tuple[float, ...]
    context: float = 0.05
    row_context: float = 0.004
    node: float = 0.0
    leaf: float = 0.0
    node_context: float = 0.0

    @classmethod
    def of(
        cls, *, is_cpu: bool, is_wide: bool = False, is_packed: bool = False, attention: str = ""
    ) -> "CostPrior":
        """Measured with the embedded model on a CPU (docs/lab-log.md); flat is a GPU's reading.

        Args:
            is_wide: weights of four bytes and more, whose products over rows a CPU is slow at.
            is_packed: weights are laid out for the CPU's kernels.
            attention: of strict mode, "path" or "cascade"; empty: flexible mode.
        """
        rows = {
            (True, False, False): (1.0, 1.05, 1.1, 1.2, 1.4, 1.9, 2.8),
            (True, False, True): (1.0, 1.0, 1.0, 1.05, 1.25, 1.7, 2.6),
            (True, True, False): (1.0, 1.5, 1.6, 1.9, 2.15, 2.8, 4.2),
            (True, True, True): (1.0, 1.05, 1.05, 1.15, 1.45, 2.2, 3.6),
        }.get((is_cpu, is_wide, is_packed), (1.0, 1.0, 1.01, 1.02, 1.03, 1.05, 1.10))
        if not attention:
            return cls(rows)
        if attention == "cascade":
            return cls(rows, row_context=0.0, node=0.006, leaf=0.002, node_context=0.015)
        return cls(rows, row_context=0.0, node=0.02, leaf=0.01, node_context=0.06)

    def as_array(self) -> FloatArray:
        """In the order of the features."""
        others = (self.context, self.row_context, self.node, self.leaf, self.node_context)
        return np.array((*self.rows, *others), np.float64)


@dataclass(frozen=True, slots=True)
class StepShapes:
    """Shapes of steps, one an entry: rows with padding, nodes with the root, and leaves."""

    rows: Sequence[int]
    nodes: Sequence[int]
    leaves: Sequence[int]

    def features(self, context_length: int) -> FloatArray:
        """[shapes, features] what each is charged for."""
        hats = [_hat(count) for count in self.rows]
        context = context_length / _PER_CONTEXT
        others = [
            (context, (rows - 1) * context, nodes - 1, leaves - 1, nodes * context)
            for rows, nodes, leaves in zip(self.rows, self.nodes, self.leaves, strict=True)
        ]
        return np.array([(*hat, *other) for hat, other in zip(hats, others, strict=True)])


@cache
def _hat(rows: int) -> tuple[float, ...]:
    """Weights with which the knots around a row count give its cost."""
    right = min(max(bisect_left(_KNOTS, rows), 1), len(_KNOTS) - 1)
    share = (rows - _KNOTS[right - 1]) / (_KNOTS[right] - _KNOTS[right - 1])
    hat = [0.0] * len(_KNOTS)
    hat[right - 1], hat[right] = 1 - share, share
    return tuple(hat)


class StepCurve:
    """One mode's costs: a linear model of the features, followed by a Kalman filter.

    What slows the whole machine down moves all costs together, and fast; the shape of the curve
    moves slowly, and what is learned at one row count tells of those beside it.
    """

    def __init__(self, mean: FloatArray, covariance: FloatArray, drift: FloatArray) -> None:
        self.mean = mean  # [features] milliseconds
        self.covariance = covariance  # [features, features]
        self._drift = drift  # [features, features] of the shape, for a one-row step of 1 ms
        self._started: set[int] = set()

    @classmethod
    def from_prior(cls, prior: CostPrior) -> Self:
        """Nothing seen yet."""
        mean = _UNIT * prior.as_array()
        drift = _shape_spread(prior)
        covariance = _UNIT**2 * drift + _UNIT_SPREAD**2 * np.outer(mean, mean)
        return cls(mean, covariance, drift)

    @classmethod
    def resumed(cls, prior: CostPrior, mean: FloatArray, covariance: FloatArray) -> Self:
        """What was learned before goes on."""
        return cls(mean, covariance, _shape_spread(prior))

    def milliseconds(self, shapes: StepShapes, context_length: int) -> FloatArray:
        """[shapes] what each would take; never less than a smaller one given before it."""
        costs = shapes.features(context_length) @ self.mean
        floor = max(float(costs[0]), _LEAST_MILLISECONDS)
        return np.maximum.accumulate(np.maximum(costs, floor))

    def observe(
        self, rows: int, nodes: int, leaves: int, context_length: int, milliseconds: float
    ) -> None:
        """Learn from a step that took so long; not from the first of so many rows.

        The first one since the program started sets kernels up.
        """
        if rows not in self._started:
            self._started.add(rows)
            return
        shape = StepShapes((rows,), (nodes,), (leaves,)).features(context_length)[0]
        unit = max(float(self.mean[0]), _LEAST_MILLISECONDS)
        drift = _LOAD_DRIFT**2 * np.outer(self.mean, self.mean) + unit**2 * self._drift
        prior = (1 - _FORGETTING) * self.covariance + _FORGETTING * drift
        expected = float(shape @ self.mean)
        weighted = prior @ shape
        noise = _NOISE * max(expected, milliseconds, _LEAST_MILLISECONDS)
        variance = max(float(shape @ weighted), 0.0) + noise**2  # rounding may leave less than none
        limit = _OUTLIER * variance**0.5
        surprise = min(max(milliseconds - expected, -limit), limit)
        self.mean = self.mean + weighted * (surprise / variance)
        self.covariance = prior - np.outer(weighted, weighted) / variance


def _shape_spread(prior: CostPrior) -> FloatArray:
    """[features, features] how far a shape may be from its prior.

    Costs at the knots wander from one to the next, so that neighbours are wrong together.
    """
    values = prior.as_array()
    steps = np.arange(len(_KNOTS), dtype=np.float64)
    spread = np.zeros((len(values), len(values)))
    scale = values[: len(_KNOTS)]
    walk = np.minimum.outer(steps, steps)
    spread[: len(_KNOTS), : len(_KNOTS)] = _KNOT_SPREAD**2 * walk * np.outer(scale, scale)
    others = np.arange(len(_KNOTS), len(values))
    spread[others, others] = (_OTHER_SPREAD * values[others]) ** 2
    return spread


class StepCosts:
    """The curves of one model on one machine, by mode."""

    def __init__(self) -> None:
        self._curves: dict[str, StepCurve] = {}
        self._known: dict[str, tuple[FloatArray, FloatArray]] = {}  # read, not asked for yet

    def curve(self, mode: str, prior: CostPrior) -> StepCurve:
        """The costs of a way to verify; `prior` where nothing was learned of it yet."""
        if mode not in self._curves:
            known = self._known.pop(mode, None)
            self._curves[mode] = (
                StepCurve.resumed(prior, *known) if known else StepCurve.from_prior(prior)
            )
        return self._curves[mode]

    def to_bytes(self) -> bytes:
        """Serialize."""
        learned = {name: (curve.mean, curve.covariance) for name, curve in self._curves.items()}
        arrays: dict[str, NDArray[np.generic]] = {}
        for mode, (mean, covariance) in {**self._known, **learned}.items():
            arrays[f"{mode} mean"] = mean
            arrays[f"{mode} covariance"] = covariance
        return pack_arrays(HEADER, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Read what `to_bytes` wrote. Raises StepCostFormatError for anything else."""
        size = len(_KNOTS) + 5
        costs = cls()
        try:
            arrays = unpack_arrays(HEADER, blob)
            for name in arrays:
                mode, kind = name.rsplit(" ", 1)
                if kind != "mean":
                    continue
                mean = np.asarray(arrays[name], np.float64)
                covariance = np.asarray(arrays[f"{mode} covariance"], np.float64)
                if mean.shape != (size,) or covariance.shape != (size, size):
                    raise BlobFormatError("These step costs have another number of features.")
                if not (np.isfinite(mean).all() and np.isfinite(covariance).all() and mean[0] > 0):
                    raise BlobFormatError("These step costs are no numbers of milliseconds.")
                spread = covariance.diagonal()
                if not ((spread >= 0).all() and (spread[: len(_KNOTS)] > 0).all()):
                    raise BlobFormatError("These step costs are surer than they can be.")
                costs._known[mode] = (mean, covariance)
        except (BlobFormatError, KeyError, ValueError) as error:
            raise StepCostFormatError(f"{error} Start with nothing learned.") from error
        return costs
