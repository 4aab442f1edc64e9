"""The numbers behind the tables: medians of pairs with bootstrap intervals, and exact loops.

Knows numbers and token ids; no model, no clock. Called by the suites and by the replay.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Estimate", "estimate_median", "loop_length", "percentile"]

_NUM_RESAMPLES = 2_000
_SEED = 20_260_401
_SHORTEST_LOOP = 16  # tokens of a repeating end, below which it is no loop


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median over prompts.

    Args:
        value: the median; NaN where there is nothing to take it of.
        low: lower end of its bootstrap interval, of 95 % where nothing else is said.
        high: the upper one.
        count: how many values it is of.
    """

    value: float
    low: float
    high: float
    count: int


def estimate_median(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median and its interval: percentile bootstrap (Efron 1979), the same every time."""
    if not values:
        return Estimate(math.nan, math.nan, math.nan, 0)
    sample = np.asarray(values, np.float64)
    chosen = np.random.default_rng(_SEED).integers(len(sample), size=(_NUM_RESAMPLES, len(sample)))
    medians = np.median(sample[chosen], axis=1)
    beside = 100 * (1 - confidence) / 2
    low, high = np.percentile(medians, (beside, 100 - beside))
    return Estimate(float(np.median(sample)), float(low), float(high), len(sample))


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of the values do not exceed; NaN of none."""
    return float(np.percentile(np.asarray(values, np.float64), percent)) if values else math.nan


def loop_length(token_ids: Sequence[int]) -> int:
    """Tokens at the end of an answer that do nothing but repeat; 0: it does not loop.

    The end loops where its last 16 tokens or more, and at least two whole periods, have a period.
    The longest such end counts, its first period left out: that was said for the first time.
    """
    ids = np.asarray(token_ids)
    longest = 0
    for period in range(1, len(ids) // 2 + 1):
        differs = np.flatnonzero(ids[period:] != ids[:-period])
        repeated = len(ids) - period - (int(differs[-1]) + 1 if len(differs) else 0)
        if repeated >= period and repeated + period >= _SHORTEST_LOOP:
            longest = max(longest, repeated)
    return longest
