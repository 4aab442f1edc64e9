"""Near misses: tokens that the model lately thought likely in this answer and did not choose.

What was nearly said is often said a few tokens later. Knows token ids only; lives as long as one
answer. Owned by the drafter, fed from verified rows.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lookahead.calibration import NUM_RECENT
from lookahead.candidates import IntArray

__all__ = ["NearMisses"]

_DECAY = 0.8  # of a weight, a token later: a miss counts for some five tokens
_FORGOTTEN = 0.02  # what is left of a first rank after eighteen tokens
_MAX_NEARLY_SAID = 1_024  # tokens; when there are more, the heavier half stays


class NearMisses:
    """Weights of tokens; the heaviest are likeliest to come."""

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        self._places: dict[int, int] = {}  # in the arrays, of all tokens of this answer
        self._nearly_ids = np.empty(_MAX_NEARLY_SAID, np.int64)
        self._nearly_often = np.empty(_MAX_NEARLY_SAID, np.float64)

    @property
    def nearly_said(self) -> tuple[IntArray, NDArray[np.float64]]:
        """Tokens of this answer, and how often each was nearly said: 1 / rank, added up."""
        count = len(self._places)
        return self._nearly_ids[:count], self._nearly_often[:count]

    def add(self, top_ids: Iterable[int]) -> None:
        """Take in the model's likeliest tokens at one place, likeliest first."""
        weights = {
            token_id: weight * _DECAY
            for token_id, weight in self._weights.items()
            if weight > _FORGOTTEN
        }
        for rank, token_id in enumerate(top_ids, 1):
            weights[token_id] = weights.get(token_id, 0.0) + 1.0 / rank
            self._nearly_often[self._place(token_id)] += 1.0 / rank
        self._weights = weights

    def _place(self, token_id: int) -> int:
        """Of a token in the arrays, where it is put now if it was not there."""
        place = self._places.get(token_id)
        if place is None:
            if len(self._places) == _MAX_NEARLY_SAID:
                self._keep_heavier_half()
            place = self._places[token_id] = len(self._places)
            self._nearly_ids[place], self._nearly_often[place] = token_id, 0.0
        return place

    def _keep_heavier_half(self) -> None:
        heaviest = np.argsort(-self._nearly_often, kind="stable")[: _MAX_NEARLY_SAID // 2]
        self._nearly_ids[: len(heaviest)] = self._nearly_ids[heaviest]
        self._nearly_often[: len(heaviest)] = self._nearly_often[heaviest]
        kept = self._nearly_ids[: len(heaviest)].tolist()
        self._places = {token_id: place for place, token_id in enumerate(kept)}

    def drop(self, token_id: int) -> None:
        """A token was chosen after all."""
        self._weights.pop(token_id, None)

    def heaviest(self) -> list[int]:
        """The likeliest to come, likeliest first."""
        return sorted(self._weights, key=self._weights.__getitem__, reverse=True)[:NUM_RECENT]
