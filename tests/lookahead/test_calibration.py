"""The fixed priors: probabilities that grow with the evidence."""

from itertools import pairwise

import pytest

from lookahead.calibration import FixedPriors
from lookahead.successors import NUM_SUCCESSORS

PRIORS = FixedPriors()


def test_longer_matches_are_believed_more_and_never_fully() -> None:
    for is_own in (True, False):
        confidences = [PRIORS.confidence(is_own, length, 1, 1) for length in range(1, 33)]
        assert all(0 < shorter < longer < 1 for shorter, longer in pairwise(confidences))
        assert PRIORS.confidence(is_own, 99, 1, 1) == confidences[-1]


def test_agreement_is_believed_more_than_one_sighting_and_disagreement_less() -> None:
    once = PRIORS.confidence(True, 3, 1, 1)
    assert PRIORS.confidence(True, 3, 5, 5) == pytest.approx(once)
    assert PRIORS.confidence(True, 3, 5, 1) > once


def test_the_conversation_itself_is_believed_more_than_anything_else() -> None:
    assert PRIORS.confidence(True, 3, 2, 1) > PRIORS.confidence(False, 3, 2, 1)


def test_recycled_shares_fall_with_rank_and_leave_something() -> None:
    shares = [PRIORS.rank_share(rank) for rank in range(NUM_SUCCESSORS)]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) < 1
