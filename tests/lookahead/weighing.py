"""The slow truth about the last word on a node's children: plain formulas over lists."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from lookahead.agreement import EDGES, FIRST_CELLS, MOST, Agreement
from lookahead.foresight import Bystanders, Foresight
from lookahead.noise import gumbel_noise

NO_BYSTANDERS = Bystanders(np.empty(0, np.int64), np.empty(0))


def weigh(agreement: Agreement, shares: Sequence[float], kinds: Sequence[int]) -> list[float]:
    """The probabilities of a node's children, 1 at most together.

    Args:
        shares: added up from all kinds of evidence; they sum to 1 at most.
        kinds: who named each: `OWN | PAIR`.
    """
    weighed = [
        share * agreement.factors[FIRST_CELLS[named] + bisect_right(EDGES, share)]
        for share, named in zip(shares, kinds, strict=True)
    ]
    total = sum(weighed)
    return [share * MOST / total for share in weighed] if total > MOST else weighed


def reweigh(
    foresight: Foresight,
    depth: int,
    token_ids: Sequence[int],
    probabilities: Sequence[float],
    bystanders: Bystanders = NO_BYSTANDERS,
) -> tuple[list[int], list[float]]:
    """The probabilities of a node's children, given their noise: see `Foresight.noise`.

    Args:
        depth: of the children, 1 below the root.
        token_ids, probabilities: of the children, each given that the node is reached; they sum
            to 1 at most, and so do the new ones.
        bystanders: get some of what the children leave.

    Returns:
        children and bystanders that are none, and their probabilities.
    """
    known = foresight.noise(depth, bystanders)
    left = max(0.0, 1.0 - sum(probabilities))
    ids, shares = np.array(token_ids, np.int64), np.array(probabilities, np.float64)
    is_other = ~np.isin(bystanders.token_ids, ids)
    others = left * known.bystander_weights[is_other]
    ids = np.concatenate([ids, bystanders.token_ids[is_other]])
    shares = np.concatenate([shares, others])
    noise = gumbel_noise(foresight.seed, foresight.position + depth - 1, ids.astype(np.uint64))
    weights = shares * np.exp(foresight.strength * noise)
    total = float(weights.sum()) + (left - float(others.sum())) * known.unknown
    return ids.tolist(), (weights / total if total > 0.0 else shares).tolist()
