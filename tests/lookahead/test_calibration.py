"""Calibration: shares that begin as priors and end as what was observed, and survive storage."""

from itertools import pairwise

import numpy as np
import pytest

from lookahead.agreement import OWN, TOKEN
from lookahead.blob import pack_arrays
from lookahead.calibration import HEADER, Calibration, CalibrationFormatError
from tests.lookahead.reference_drafter import Expectation


def prior_of_match(is_own: bool, match_length: int, num_seen: int, num_distinct: int) -> float:
    calibration = Calibration()
    return calibration.shares[calibration.match_cell(is_own, match_length, num_seen, num_distinct)]


def test_longer_matches_are_believed_more_and_never_fully() -> None:
    for is_own in (True, False):
        shares = [prior_of_match(is_own, length, 1, 1) for length in range(1, 33)]
        assert all(0 < shorter <= longer < 1 for shorter, longer in pairwise(shares))
        assert shares[0] < shares[4] < shares[-1] == prior_of_match(is_own, 99, 1, 1)


def test_agreement_is_believed_more_than_one_sighting() -> None:
    assert prior_of_match(True, 3, 5, 1) > prior_of_match(True, 3, 1, 1)
    assert prior_of_match(True, 3, 5, 5) < prior_of_match(True, 3, 5, 1)
    assert prior_of_match(True, 3, 500, 1) == prior_of_match(True, 3, 17, 1)


def test_different_evidence_never_shares_a_cell() -> None:
    calibration = Calibration()
    matches = {
        calibration.match_cell(is_own, length, num_seen, num_distinct)
        for is_own in (True, False)
        for length in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
        for num_seen in (1, 2, 3, 5, 9)
        for num_distinct in (1, 2, 3)
    }
    assert len(matches) == 2 * 10 * 5 * 3
    rows = [calibration.pair_cell(length) for length in (0, 2)]
    rows += [calibration.token_cell(has_matches=m, has_pair=p) for m, p in ((0, 0), (1, 0), (1, 1))]
    rows += [calibration.recent_cell(depth) for depth in range(3)]
    cells = matches | {
        first + rank for first in rows for rank in range(24 if first >= rows[-3] else 16)
    }
    assert len(cells) == len(calibration.shares)


def expect(calibration: Calibration) -> Expectation:
    """Two sightings of 5, one of 6; then a row that says 5 again, and 7."""
    expectation = Expectation(calibration)
    cell = calibration.match_cell(True, 2, 3, 2)
    expectation.take_matches({5: [0, 1], 6: [2]}, 3, cell, OWN)
    first_cell = calibration.token_cell(has_matches=True, has_pair=False)
    expectation.take_row([5, 7], first_cell, {7}, row_length=8, kind=TOKEN)
    return expectation


def test_a_token_that_several_name_gets_a_share_from_each_and_siblings_sum_to_one_at_most() -> None:
    calibration = Calibration()
    matched = calibration.shares[calibration.match_cell(True, 2, 3, 2)]
    first_cell = calibration.token_cell(has_matches=True, has_pair=False)
    left = 1 - matched
    expectation = expect(calibration)
    assert expectation.probabilities == pytest.approx(
        {
            5: matched * 2 / 3 + left * calibration.shares[first_cell],
            6: matched / 3,
            7: left * calibration.shares[first_cell + 1 + 8],
        }
    )
    assert sum(expectation.probabilities.values()) + expectation.left == pytest.approx(1)
    calibration.shares = [0.999] * len(calibration.shares)
    assert sum(expect(calibration).probabilities.values()) <= 1


def test_shares_become_what_was_observed() -> None:
    calibration = Calibration()
    random = np.random.default_rng(1)
    for token_id in random.choice([5, 6, 7, 9], 8_000, p=[0.5, 0.2, 0.1, 0.2]).tolist():
        expect(calibration).learn(token_id)
    found = expect(calibration)
    weighed = dict(zip(found.probabilities, found.weighed(), strict=True))
    for token_id, probability in ((5, 0.5), (6, 0.2), (7, 0.1)):
        assert found.probabilities[token_id] == pytest.approx(probability, abs=0.05)
        assert weighed[token_id] == pytest.approx(probability, abs=0.05)
    assert found.left == pytest.approx(0.2, abs=0.05)


def test_what_stopped_being_right_is_believed_less_within_some_hundred_sightings() -> None:
    calibration = Calibration()
    for _ in range(20_000):
        calibration.learn(expect(calibration).turns, 5)
    for _ in range(3_000):
        calibration.learn(expect(calibration).turns, 9)
    assert expect(calibration).probabilities[5] < 0.5


def test_stored_bytes_bring_back_the_same_calibration_which_goes_on_learning() -> None:
    calibration = Calibration()
    expect(calibration).learn(7)
    again = Calibration.from_bytes(calibration.to_bytes())
    assert again.shares == pytest.approx(calibration.shares)
    assert again.agreement.factors == pytest.approx(calibration.agreement.factors)
    assert again.agreement.factors != Calibration().agreement.factors
    for each in (calibration, again):
        expect(each).learn(6)
    assert again.shares == pytest.approx(calibration.shares)
    assert again.agreement.factors == pytest.approx(calibration.agreement.factors)


def test_bytes_of_versions_that_knew_no_agreement_are_read() -> None:
    asked = np.full(len(Calibration().shares), 4.0)
    again = Calibration.from_bytes(pack_arrays(HEADER, {"asked": asked, "right": asked / 2}))
    assert again.shares == pytest.approx(np.full_like(asked, 0.5))
    assert again.agreement.factors == Calibration().agreement.factors


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_what_is_always_or_never_right_stays_short_of_certain_and_is_read_again(
    right: float,
) -> None:
    """A cell that was right ten million times was refused at the next start, with all others."""
    calibration = Calibration()
    for _ in range(2_000):
        calibration._count(0, asked=1_001.0, right=1_001.0 * right)
    assert 0.0 < calibration.shares[0] < 1.0
    assert Calibration.from_bytes(calibration.to_bytes()).shares == pytest.approx(
        calibration.shares, rel=1e-12
    )


def test_counts_at_the_edge_are_believed() -> None:
    """As earlier versions wrote them, which did not stop short of never and always."""
    asked = np.full(len(Calibration().shares), 2.0)
    for right, share in ((0.0, 0.0), (2.0, 1.0)):
        blob = pack_arrays(HEADER, {"asked": asked, "right": np.full_like(asked, right)})
        shares = Calibration.from_bytes(blob).shares
        assert shares == pytest.approx(np.full_like(asked, share), abs=1e-5)
        assert all(0.0 < each < 1.0 for each in shares)


def test_damaged_or_foreign_bytes_are_refused() -> None:
    whole = Calibration().to_bytes()
    size = len(Calibration().shares)
    asked, right = np.full(size, 2.0), np.full(size, 1.0)
    num_factors = len(Calibration().agreement.factors)
    ones = np.ones(num_factors)
    for arrays in (
        {},
        {"asked": asked},
        {"asked": asked[1:], "right": right[1:]},
        {"asked": asked.astype(np.float32), "right": right.astype(np.float32)},
        {"asked": right, "right": asked},
        {"asked": np.full(size, np.inf), "right": right},
        {"asked": asked, "right": np.full(size, np.nan)},
        {"asked": asked, "right": right, "foretold": asked},
        {"asked": asked, "right": right, "foretold": asked, "came": right},
        {"asked": asked, "right": right, "foretold": np.zeros(num_factors), "came": ones},
        {"asked": asked, "right": right, "foretold": ones, "came": -ones},
        {"asked": asked, "right": right, "foretold": ones, "came": np.inf * ones},
    ):
        with pytest.raises(CalibrationFormatError):
            Calibration.from_bytes(pack_arrays(HEADER, arrays))
    for blob in (b"", whole[:-1], whole[:-60] + bytes(60)):
        with pytest.raises(CalibrationFormatError):
            Calibration.from_bytes(blob)
