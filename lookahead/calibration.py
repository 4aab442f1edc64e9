"""Calibration: how far to believe what a store saw after a match.

Knows numbers only. The drafter asks it at every node of a tree; the fixed priors here stand behind
the same interface as anything learned from acceptance.
"""

from typing import Protocol

from lookahead.candidates import MAX_MATCH_LENGTH

__all__ = ["Calibration", "FixedPriors"]


class Calibration(Protocol):
    """Turns evidence into probabilities."""

    def confidence(
        self, is_own: bool, match_length: int, num_seen: int, num_distinct: int
    ) -> float:
        """Probability that the next token is among those seen after the match.

        Args:
            is_own: seen in this conversation; otherwise in history or documents.
            match_length: tokens that agree, drafted ones included.
            num_seen: how often the match was seen to continue.
            num_distinct: with how many different tokens.
        """

    def rank_share(self, rank: int) -> float:
        """Probability of a token's recycled successor of this rank; all ranks sum to 1 at most."""


class FixedPriors:
    """Escape in the manner of PPM's method C, with the odds of a lone sighting set by its length.

    Seen n times with d different continuations, the odds that the next token is among them are
    n/d times the odds of a match that long seen once. Replayed on prompts and answers in words,
    mathematics and code, lone and repeated sightings agree on those odds at every match length.
    """

    def __init__(self) -> None:
        lengths = range(MAX_MATCH_LENGTH + 1)
        self._own_odds: list[float] = [0.30 * float(length) ** 1.2 for length in lengths]
        self._other_odds: list[float] = [0.20 * float(length) ** 1.2 for length in lengths]
        self._rank_shares = (0.36, 0.13, 0.08, 0.05, 0.04, 0.03, 0.03, 0.02)

    def confidence(
        self, is_own: bool, match_length: int, num_seen: int, num_distinct: int
    ) -> float:
        """See `Calibration`."""
        odds = self._own_odds if is_own else self._other_odds
        weight = num_seen * odds[min(match_length, MAX_MATCH_LENGTH)]
        return weight / (weight + num_distinct)

    def rank_share(self, rank: int) -> float:
        """See `Calibration`."""
        return self._rank_shares[rank]
