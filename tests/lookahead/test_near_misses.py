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


def test_what_was_nearly_said_is_bounded_and_keeps_the_heaviest() -> None:
    """It is gone through before every sampled draft."""
    misses = NearMisses()
    for token_id in range(5_000):
        misses.add([7, token_id + 100])
        token_ids, often = misses.nearly_said
        assert len(token_ids) <= 1_024
        assert dict(zip(token_ids.tolist(), often.tolist(), strict=True))[7] > token_id
    assert len(set(token_ids.tolist())) == len(token_ids) > 512
