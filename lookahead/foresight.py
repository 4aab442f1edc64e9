"""Sampling with foresight: the noise of positions to come is known before their logits are.

The token that will be chosen is the one whose log-probability and noise are largest together, so a
drafted token with much noise is likelier than its prior says, and one with little is not worth a
row. With much noise even a token that no evidence names is: those of the conversation, and those
that the model nearly said, stand by. Knows a seed and probabilities; no logits, no tensors. Lent to
a drafter with its limits; what it says changes no text.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import IntArray
from lookahead.noise import position_keys

__all__ = ["NO_NOISE", "Bystanders", "Foresight", "Noise", "strength_at"]

# How much of a token's noise to believe, in [0, 1). 0: its prior says all; near 1: the prior is the
# model's own probability and the noise decides. The likeliest value at 6,570 places of answers
# sampled at temperature 0.8 (docs/lab-log.md); so are those below.
STRENGTH = 0.44
_BYSTANDERS_SHARE = 0.55  # of what the evidence leaves
_POWER = 0.7  # what is said twice as often is likelier by this power of 2
_FADING = 0.3  # what was said twice as long ago is less likely by this power of 2
_RECENT = 10  # tokens back, within which time tells little
_MEASURED_TEMPERATURE = 0.8
_MAX_BYSTANDERS = 256  # the heaviest; more cost time at every node
_LOOKED_BACK = 2048  # tokens of the conversation


def strength_at(temperature: float) -> float:
    """How much of the noise to believe at a temperature.

    It was measured at 0.8 alone. Below, it falls linearly to nothing, as the noise decides less and
    less beside logits divided by less and less; above, it stays.
    """
    return STRENGTH * min(1.0, temperature / _MEASURED_TEMPERATURE)


class Noise(NamedTuple):
    """What is known of the noise to come, as numbers.

    Attributes:
        keys: of each depth, from that of the root's children on; none: nothing is known.
        strength: see `STRENGTH`.
        unknown: what the noise of a token is worth on average.
        bystander_ids: tokens that may come though no evidence names them.
        bystander_weights: their shares of what the evidence leaves.
    """

    keys: NDArray[np.uint64]
    strength: float
    unknown: float
    bystander_ids: IntArray
    bystander_weights: NDArray[np.float64]


NO_NOISE = Noise(np.empty(0, np.uint64), 0.0, 1.0, np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True, slots=True)
class Bystanders:
    """Tokens that may come though no evidence names them.

    Args:
        token_ids: int64 [n].
        weights: float64 [n], 1 together: which are likelier.
    """

    token_ids: IntArray
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, conversation: IntArray, nearly_said: tuple[IntArray, NDArray[np.float64]]) -> Self:
        """By how often each occurs, and how long ago it last did; the heaviest, heaviest first.

        Args:
            conversation: its tokens so far.
            nearly_said: tokens, and how often each; where the model thought it second 1/2, and so
                on.
        """
        from lookahead.bystanding import weigh  # only now: the page need not wait for numba

        token_ids, weights = weigh(
            *(conversation[-_LOOKED_BACK:], *nearly_said),
            power=_POWER,
            fading=_FADING,
            recent=float(_RECENT),
            limit=_MAX_BYSTANDERS,
        )
        return cls(token_ids, weights / weights.sum())


class Foresight:
    """The noise behind one prefix.

    Args:
        seed: of the noise.
        position: where the first drafted token would stand.
        strength: see `STRENGTH`.
    """

    def __init__(self, seed: int, position: int, strength: float = STRENGTH) -> None:
        self.seed = seed
        self.position = position
        self.strength = strength
        self.unknown = math.gamma(1.0 - strength)  # what the noise of a token is worth on average

    def noise(self, num_depths: int, bystanders: Bystanders) -> Noise:
        """For so many depths, what compiled code needs to weigh a node's children by their noise.

        A child counts p·exp(strength·noise), as if the prior's logarithm were off by as much again
        as the noise is not believed; what the children leave counts as noise does on average.
        """
        return Noise(
            position_keys(self.seed, self.position, num_depths),
            self.strength,
            self.unknown,
            bystanders.token_ids,
            _BYSTANDERS_SHARE * bystanders.weights,
        )
