"""Agreement: what a token's share is really worth, by how many kinds of evidence name it.

Shares of kinds that name the same token are added, and agreement is worth more than that, a lone
kind often less. So the last word on every share is a *factor*, counted by who named the token and
how large the share is; it begins with a prior and moves with what came. Knows numbers only; kept by
the calibration, asked by the drafter.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EDGES",
    "FIRST_CELLS",
    "HISTORY",
    "MOST",
    "OWN",
    "PAIR",
    "RECENT",
    "TOKEN",
    "Agreement",
]

OWN, HISTORY, PAIR, TOKEN, RECENT = (1 << kind for kind in range(5))  # strongest first

EDGES = (0.03, 0.10, 0.20, 0.35, 0.50, 0.65, 0.80, 0.92)  # between classes of shares
_NUM_CLASSES = len(EDGES) + 1
_PRIOR_WEIGHT = 30.0  # tokens foretold that a prior counts as
_MAX_FORETOLD = 1_000.0  # above it counts are halved: what was long ago weighs less
MOST = 0.999  # of a node, given to its children together; a copy of 31 tokens ends at 0.97
_LEAST_FACTOR = 1e-3

# By class of share; what half of the recorded answers say (docs/lab-log.md). Rows: strongest kind
# that names the token, and whether it does alone, with one other, with more.
_PRIORS = (
    (0.63, 0.65, 0.81, 0.87, 1.08, 1.06, 1.07, 1.03, 1.00),  # the conversation
    (1.12, 1.03, 1.06, 1.11, 1.13, 1.13, 1.03, 1.03, 1.01),
    (1.84, 1.57, 1.26, 1.06, 0.99, 1.00, 0.98, 1.01, 1.01),
    (0.69, 0.50, 0.54, 0.52, 0.59, 0.63, 0.87, 0.94, 0.97),  # history, documents
    (1.65, 1.31, 0.94, 1.03, 1.11, 0.98, 1.06, 0.92, 1.01),
    (2.23, 1.48, 1.29, 1.12, 1.23, 1.21, 1.13, 1.06, 1.03),
    (0.96, 0.63, 0.60, 0.84, 1.05, 0.99, 1.00, 1.00, 1.00),  # successors of two tokens
    (1.18, 1.13, 1.10, 1.14, 1.04, 1.02, 1.15, 1.00, 1.00),
    (2.27, 1.25, 1.32, 1.05, 0.98, 1.08, 1.00, 1.00, 1.00),
    (0.85, 0.79, 0.82, 0.98, 0.96, 1.00, 1.00, 1.00, 1.00),  # successors of one
    (2.69, 1.42, 1.28, 1.56, 1.17, 1.00, 1.00, 1.00, 1.00),
    (0.97, 0.68, 0.98, 1.00, 1.00, 1.00, 1.00, 1.00, 1.00),  # near misses
)
_NUM_GROUPS = len(_PRIORS)
_GROUPS_FROM = (0, 3, 6, 9, 11)  # the first group of each kind


def _group(kinds: int) -> int:
    strongest = (kinds & -kinds).bit_length() - 1
    first = _GROUPS_FROM[strongest]
    last = (*_GROUPS_FROM, _NUM_GROUPS)[strongest + 1] - 1
    return min(first + kinds.bit_count() - 1, last)


FIRST_CELLS = [
    0,
    *(_group(kinds) * _NUM_CLASSES for kinds in range(1, 32)),
]  # first cell by set of kinds


class Agreement:
    """Factors of shares, learned by counting.

    Attributes:
        factors: [groups * classes] by cell, float64; compiled code reads them where they stand.
    """

    def __init__(self) -> None:
        self.factors = array("d", [factor for row in _PRIORS for factor in row])
        self._foretold = [_PRIOR_WEIGHT] * len(self.factors)
        self._came = [_PRIOR_WEIGHT * factor for factor in self.factors]

    def learn(self, shares: Sequence[float], kinds: Sequence[int], came_at: int | None) -> None:
        """Count which of a node's children came: the one at an index, or none of them."""
        touched = set()
        for at, (share, named) in enumerate(zip(shares, kinds, strict=True)):
            cell = FIRST_CELLS[named] + bisect_right(EDGES, share)
            self._foretold[cell] += share
            self._came[cell] += at == came_at
            touched.add(cell)
        for cell in touched:
            if self._foretold[cell] > _MAX_FORETOLD:
                self._foretold[cell] /= 2
                self._came[cell] /= 2
            self.factors[cell] = max(_LEAST_FACTOR, self._came[cell] / self._foretold[cell])

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What to store, by name."""
        return {"foretold": np.array(self._foretold), "came": np.array(self._came)}

    @classmethod
    def from_arrays(cls, foretold: NDArray[np.float64], came: NDArray[np.float64]) -> Self:
        """From what `arrays` gave. Raises ValueError for anything else."""
        agreement = cls()
        counts = np.array([foretold, came])
        if counts.shape != (2, len(agreement.factors)) or counts.dtype != np.float64:
            raise ValueError("These are no counts of agreement of ours.")
        if not ((counts[0] > 0) & (counts[1] >= 0) & np.isfinite(counts).all(axis=0)).all():
            raise ValueError("These counts of agreement are not possible.")
        agreement._foretold, agreement._came = counts.tolist()
        agreement.factors = array("d", np.maximum(_LEAST_FACTOR, counts[1] / counts[0]))
        return agreement
