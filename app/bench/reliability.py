"""Reliability: what drafts said of their tokens' chances against what came.

Of every node that was reached, each child was given a probability; counted by tenths of it. Knows
draft trees and numbers. Filled by the replay, shown in its report and chart.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from lookahead.draft import DraftTree

__all__ = ["NUM_BINS", "Reliability"]

NUM_BINS = 10


def _zeros() -> list[float]:
    return [0.0] * NUM_BINS


@dataclass(slots=True)
class Reliability:
    """Children of reached nodes by the tenth of their probability: how many, the sum of what was
    said of them, how many came.
    """

    counts: list[float] = field(default_factory=_zeros)
    predicted: list[float] = field(default_factory=_zeros)
    accepted: list[float] = field(default_factory=_zeros)

    def observe(self, draft: DraftTree, accepted_nodes: Collection[int]) -> None:
        """Count the children of the root and of every accepted node."""
        reached = {0, *accepted_nodes}
        for node, parent in enumerate(draft.parents):
            if parent in reached and draft.probabilities[parent] > 0:
                share = draft.probabilities[node] / draft.probabilities[parent]
                at = min(NUM_BINS - 1, int(share * NUM_BINS))
                self.counts[at] += 1
                self.predicted[at] += share
                self.accepted[at] += node in reached

    def __add__(self, other: "Reliability") -> "Reliability":
        """Both together."""
        return Reliability(
            [a + b for a, b in zip(self.counts, other.counts, strict=True)],
            [a + b for a, b in zip(self.predicted, other.predicted, strict=True)],
            [a + b for a, b in zip(self.accepted, other.accepted, strict=True)],
        )

    def points(self) -> list[tuple[float, float, int]]:
        """Mean predicted, share accepted and count of each tenth that has any."""
        return [
            (predicted / count, accepted / count, int(count))
            for predicted, accepted, count in zip(
                self.predicted, self.accepted, self.counts, strict=True
            )
            if count
        ]

    def largest_error(self, min_count: int) -> float | None:
        """Of the tenths with so many samples, the largest difference; None where there is none."""
        errors = [abs(said - came) for said, came, count in self.points() if count >= min_count]
        return max(errors, default=None)
