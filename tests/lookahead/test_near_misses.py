"""Near misses: what was nearly said, the latest and likeliest first."""

from lookahead.calibration import NUM_RECENT
from lookahead.near_misses import NearMisses


def test_the_likeliest_and_latest_come_first() -> None:
    misses = NearMisses()
    misses.add([1, 2, 3])
    assert misses.heaviest() == [1, 2, 3]
    misses.add([3, 4])
    assert misses.heaviest()[:2] == [3, 1]


def test_what_was_chosen_is_no_miss_until_it_is_likely_again() -> None:
    misses = NearMisses()
    misses.add([1, 2])
    misses.drop(1)
    misses.drop(7)
    assert misses.heaviest() == [2]
    misses.add([1])
    assert misses.heaviest() == [1, 2]


def test_old_misses_are_forgotten_and_only_so_many_are_kept() -> None:
    misses = NearMisses()
    misses.add([1])
    for _ in range(40):
        misses.add([2])
    assert misses.heaviest() == [2]
    misses.add(range(100, 200))
    assert len(misses.heaviest()) == NUM_RECENT
