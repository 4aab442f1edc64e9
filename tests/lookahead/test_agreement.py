"""Agreement: shares are worth what came of their like, by who named the token."""

import numpy as np
import pytest

from lookahead.agreement import HISTORY, OWN, PAIR, RECENT, TOKEN, Agreement
from tests.lookahead.weighing import weigh


def test_a_token_that_several_kinds_name_is_believed_more_than_a_lone_ones_same_share() -> None:
    agreement = Agreement()
    for strongest in (OWN, HISTORY, PAIR, TOKEN):
        alone, agreed = weigh(agreement, [0.15, 0.15], [strongest, strongest | RECENT])
        assert 0.0 < alone < agreed


def test_siblings_get_no_more_than_there_is_and_keep_their_proportions() -> None:
    agreement = Agreement()
    agreement.factors = [1.5] * len(agreement.factors)
    assert weigh(agreement, [0.2, 0.4], [OWN, TOKEN]) == pytest.approx([0.3, 0.6])
    crowded = weigh(agreement, [0.5, 0.4, 0.1], [OWN, TOKEN, RECENT])
    assert sum(crowded) == pytest.approx(0.999)
    assert crowded[0] / crowded[2] == pytest.approx(5.0)
    assert weigh(agreement, [], []) == []


@pytest.mark.parametrize("kinds", [OWN, HISTORY | TOKEN, PAIR | TOKEN | RECENT, RECENT])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6])
def test_a_share_becomes_what_came_of_its_like_and_of_no_others(kinds: int, share: float) -> None:
    agreement = Agreement()
    random = np.random.default_rng(1)
    other = OWN | HISTORY if kinds != OWN else PAIR
    before = weigh(agreement, [share], [other])
    for came in (random.random(20_000) < share * 1.3).tolist():
        agreement.learn([share], [kinds], 0 if came else None)
    assert weigh(agreement, [share], [kinds])[0] == pytest.approx(share * 1.3, rel=0.1)
    assert weigh(agreement, [share], [other]) == before


def test_only_the_child_that_came_is_credited() -> None:
    agreement = Agreement()
    for _ in range(500):
        agreement.learn([0.3, 0.3], [OWN, TOKEN], 1)
    first, second = weigh(agreement, [0.3, 0.3], [OWN, TOKEN])
    assert first < 0.1 < 0.6 < second


def test_what_stopped_coming_is_believed_less_within_some_thousand_sightings() -> None:
    agreement = Agreement()
    for _ in range(50_000):
        agreement.learn([0.5], [PAIR], 0)
    for _ in range(6_000):
        agreement.learn([0.5], [PAIR], None)
    assert 0.0 < weigh(agreement, [0.5], [PAIR])[0] < 0.3


def test_every_share_and_every_set_of_kinds_has_a_factor() -> None:
    agreement = Agreement()
    shares = [0.0, 0.03, 0.1, 0.5, 0.80, 0.95, 1.0]
    for kinds in range(1, 32):
        for share in shares:
            assert 0.0 <= weigh(agreement, [share], [kinds])[0] < 1.0
            agreement.learn([share], [kinds], 0)
    assert len(agreement.factors) == len(Agreement().factors)
