"""Sampling with foresight: the noise of positions to come is known before their logits are.

The token that will be chosen is the one whose log-probability and noise are largest together, so a
drafted token with much noise is likelier than its prior says, and one with little is not worth a
row. Knows a seed and probabilities; no logits, no tensors. Lent to a drafter with its limits; what
it says changes no text.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.noise import position_key, token_uniform

__all__ = ["NO_NOISE", "Foresight", "Noise", "strength_at"]

# How much of a token's noise to believe, in [0, 1). 0: its prior says all; near 1: the prior is the
# model's own probability and the noise decides. The likeliest value at 1,620 places of answers
# sampled at temperature 0.8 (docs/lab-log.md).
STRENGTH = 0.4
_MEASURED_TEMPERATURE = 0.8


def strength_at(temperature: float) -> float:
    """How much of the noise to believe at a temperature.

    It was measured at 0.8 alone. Below, it falls linearly to nothing, as the noise decides less and
    less beside logits divided by less and less; above, it stays.
    """
    return STRENGTH * min(1.0, temperature / _MEASURED_TEMPERATURE)


class Noise(NamedTuple):
    """What compiled code needs to do as `Foresight.reweigh` does.

    Attributes:
        keys: of each depth, from that of the root's children on; none: nothing is known.
        strength: see `STRENGTH`.
        unknown: what the noise of a token is worth on average.
        bystander_ids: tokens that may come though no evidence names them.
        bystander_weights: of what the evidence leaves.
    """

    keys: NDArray[np.uint64]
    strength: float
    unknown: float
    bystander_ids: NDArray[np.int64] = np.empty(0, np.int64)
    bystander_weights: NDArray[np.float64] = np.empty(0)


NO_NOISE = Noise(np.empty(0, np.uint64), 0.0, 1.0)


class Foresight:
    """The noise behind one prefix.

    Args:
        seed: of the noise.
        position: where the first drafted token would stand.
        strength: see `STRENGTH`.
    """

    def __init__(self, seed: int, position: int, strength: float = STRENGTH) -> None:
        self._seed = seed
        self._position = position
        self._strength = strength
        self._unknown = math.gamma(1.0 - strength)  # what the noise of a token is worth on average
        self._keys: list[int] = []  # of each depth

    def noise(self, num_depths: int) -> Noise:
        """The same for so many depths, as numbers."""
        self._know(num_depths)
        keys = np.array(self._keys[:num_depths], np.uint64)
        return Noise(keys, self._strength, self._unknown)

    def _know(self, num_depths: int) -> None:
        while len(self._keys) < num_depths:
            self._keys.append(position_key(self._seed, self._position + len(self._keys)))

    def reweigh(
        self, depth: int, token_ids: Sequence[int], probabilities: Sequence[float]
    ) -> list[float]:
        """The probabilities of a node's children, given their noise.

        A child counts p·exp(strength·noise), as if the prior's logarithm were off by as much again
        as the noise is not believed; what the children leave counts as noise does on average.

        Args:
            depth: of the children, 1 below the root.
            token_ids, probabilities: of the children, each given that the node is reached; they sum
                to 1 at most, and so do the new ones.
        """
        self._know(depth)
        key, power = self._keys[depth - 1], -self._strength
        weights = [
            probability * (-math.log(token_uniform(key, token_id))) ** power
            for token_id, probability in zip(token_ids, probabilities, strict=True)
        ]
        total = sum(weights) + max(0.0, 1.0 - sum(probabilities)) * self._unknown
        return [weight / total for weight in weights] if total > 0.0 else list(probabilities)
