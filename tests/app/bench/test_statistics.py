"""Medians, intervals and loops on data made by hand."""

import math
import random

import pytest

from app.bench.measurements import rolling_median
from app.bench.statistics import estimate_median, loop_length, percentile


def test_the_interval_covers_the_middle_of_the_values() -> None:
    estimate = estimate_median([1.0, 1.1, 1.2, 1.3, 9.0])
    assert (estimate.value, estimate.count) == (1.2, 5)
    assert 1.0 <= estimate.low <= 1.2 <= estimate.high <= 9.0
    assert estimate == estimate_median([1.0, 1.1, 1.2, 1.3, 9.0])


def test_an_interval_of_95_percent_holds_the_truth_19_times_in_20() -> None:
    """Loosely: of 200 samples around 2.0, between 88 and 99 percent hold it."""
    chance = random.Random(3)
    held = 0
    for _ in range(200):
        estimate = estimate_median([chance.gauss(2.0, 0.5) for _ in range(31)])
        held += estimate.low <= 2.0 <= estimate.high
    assert 176 <= held <= 198


def test_more_values_make_the_interval_smaller() -> None:
    chance = random.Random(5)
    values = [chance.gauss(1.0, 0.2) for _ in range(400)]
    few, many = estimate_median(values[:20]), estimate_median(values)
    assert many.high - many.low < (few.high - few.low) / 2


def test_of_nothing_there_is_no_number() -> None:
    estimate = estimate_median([])
    assert all(map(math.isnan, (estimate.value, estimate.low, estimate.high)))
    assert math.isnan(percentile([], 99))


def test_percentiles_interpolate() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([4.0, 1.0, 3.0, 2.0], 100) == 4.0


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], 0),
        ([7], 0),
        (list(range(60)), 0),
        ([7] * 15, 0),  # too short
        ([7] * 16, 15),
        ([*range(10), *[7] * 20], 19),
        ([1, 2, 3] * 10, 27),
        ([9, 9, *[1, 2, 3] * 10, 1], 28),  # the last period may be cut
        ([*[1, 2, 3] * 10, 4], 0),  # it ended before the end
        ([*range(20), *range(20)], 20),
        ([*range(50, 80), *range(20), *range(10)], 0),  # not two whole periods
        ([0] * 40, 39),  # token 0 is an ordinary token
    ],
)
def test_loops_are_found_at_the_end_and_only_there(ids: list[int], expected: int) -> None:
    assert loop_length(ids) == expected


def test_a_rolling_median_looks_back() -> None:
    assert rolling_median([1.0, 9.0, 2.0, 3.0, 8.0], 3) == [1.0, 1.0, 2.0, 3.0, 3.0]
