"""Two answers that should be equal and are not: a numerical tie, or a bug?

Flexible mode computes a row beside other rows, so its logits carry rounding noise, and where the
two best tokens are closer than that noise either may win. Anything wider is a bug. Greedy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lookahead.loaded_model import LoadedModel

__all__ = ["Divergence", "find_divergence", "first_difference"]

_NUM_ROWS = 8


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two greedy answers part.

    Args:
        index: of the first token that differs, counted in the answer.
        gap: of the two best logits there.
        noise: largest difference of a logit there between one row and eight.
    """

    index: int
    gap: float
    noise: float

    @property
    def is_tie(self) -> bool:
        """Whether rounding explains it: both choices moved by the noise at most."""
        return self.gap <= 2 * self.noise


def first_difference(expected: Sequence[int], found: Sequence[int]) -> int | None:
    """Index of the first token that differs; None where both are equal."""
    if tuple(expected) == tuple(found):
        return None
    shared = zip(expected, found, strict=False)
    return next(
        (at for at, (one, other) in enumerate(shared) if one != other),
        min(len(expected), len(found)),
    )


def find_divergence(
    model: "LoadedModel",
    prompt_ids: Sequence[int],
    plain: Sequence[int],
    drafted: Sequence[int],
    *,
    repetition_penalty: float = 1.0,
) -> Divergence | None:
    """The first difference between two answers to one prompt; None where they are equal.

    Args:
        repetition_penalty: with which both were chosen, and gap and noise are measured.
    """
    from lookahead.kv_cache import KVCache  # only now: they bring torch in
    from lookahead.sampling import in_float64, penalized

    index = first_difference(plain, drafted)
    if index is None:
        return None
    committed = [*prompt_ids, *plain[:index]]
    cache = KVCache(model.adapter.num_layers, len(committed) + _NUM_ROWS)
    model.adapter.prefill(committed[:-1], cache, 0)
    row = model.adapter.verify(committed[-1:], [-1], cache)[0]
    cache.truncate(len(committed) - 1)
    chain = [committed[-1]] * _NUM_ROWS
    beside = model.adapter.verify(chain, range(-1, _NUM_ROWS - 1), cache)[0]
    seen = np.unique(committed)
    one, other = (
        penalized(in_float64(logits), seen, repetition_penalty) for logits in (row, beside)
    )
    second, best = np.partition(one, -2)[-2:].tolist()
    return Divergence(index, best - second, float(np.abs(one - other).max()))
