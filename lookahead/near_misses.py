"""Near misses: tokens that the model lately thought likely in this answer and did not choose.

What was nearly said is often said a few tokens later. Knows token ids only; lives as long as one
answer. Owned by the drafter, fed from verified rows.
"""

from collections.abc import Iterable

from lookahead.calibration import NUM_RECENT

__all__ = ["NearMisses"]

_DECAY = 0.8  # of a weight, a token later: a miss counts for some five tokens
_FORGOTTEN = 0.02
_MAX_NEARLY_SAID = 1_024  # tokens; when there are more, the heavier half stays


class NearMisses:
    """Weights of tokens; the heaviest are likeliest to come."""

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        self.nearly_said: dict[int, float] = {}  # all of this answer, by 1 / rank

    def add(self, top_ids: Iterable[int]) -> None:
        """Take in the model's likeliest tokens at one place, likeliest first."""
        weights = {
            token_id: weight * _DECAY
            for token_id, weight in self._weights.items()
            if weight > _FORGOTTEN
        }
        for rank, token_id in enumerate(top_ids, 1):
            weights[token_id] = weights.get(token_id, 0.0) + 1.0 / rank
            self.nearly_said[token_id] = self.nearly_said.get(token_id, 0.0) + 1.0 / rank
        self._weights = weights
        if len(self.nearly_said) > _MAX_NEARLY_SAID:
            heaviest = sorted(self.nearly_said.items(), key=lambda item: -item[1])
            self.nearly_said = dict(heaviest[: _MAX_NEARLY_SAID // 2])

    def drop(self, token_id: int) -> None:
        """A token was chosen after all."""
        self._weights.pop(token_id, None)

    def heaviest(self) -> list[int]:
        """The likeliest to come, likeliest first."""
        return sorted(self._weights, key=self._weights.__getitem__, reverse=True)[:NUM_RECENT]
