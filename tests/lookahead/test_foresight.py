"""Foresight: tokens that no evidence names are drafted where their noise is large."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookahead.candidates import IntArray
from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.foresight import Bystanders, Foresight
from lookahead.noise import gumbel_noise
from lookahead.request_view import RequestView
from tests.lookahead.weighing import reweigh

CONVERSATION = np.arange(3, 60)
NOTHING = (np.empty(0, np.int64), np.empty(0))


def nearly(said: dict[int, float]) -> tuple[IntArray, NDArray[np.float64]]:
    return np.array(list(said), np.int64), np.array(list(said.values()), np.float64)


def noise(seed: int, position: int, token_id: int) -> float:
    return float(gumbel_noise(seed, position, np.array([token_id], np.uint64))[0])


def test_what_occurs_often_or_was_nearly_said_stands_by_with_more_weight() -> None:
    bystanders = Bystanders.of(np.array([7, 8, 7, 7]), nearly({9: 40.0, 8: 0.1}))
    weights = dict(zip(bystanders.token_ids.tolist(), bystanders.weights.tolist(), strict=True))
    assert weights[9] > weights[7] > weights[8] > 0
    assert sum(weights.values()) == pytest.approx(1.0)
    later = Bystanders.of(np.array([7, *range(8, 40), 6]), NOTHING)
    assert later.token_ids[0] == 6
    assert later.token_ids[-1] == 7
    many = Bystanders.of(np.arange(5_000), nearly({4_000: 3.0}))
    assert len(many.token_ids) == 256
    assert many.token_ids[0] == 4_000


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=80),
    st.dictionaries(st.integers(20, 60), st.floats(0.1, 50.0), max_size=20),
)
def test_a_bystander_weighs_what_its_times_and_its_lateness_say(
    conversation: list[int], said: dict[int, float]
) -> None:
    bystanders = Bystanders.of(np.array(conversation, np.int32), nearly(said))
    latest_first = conversation[::-1]
    expected = {
        token_id: (conversation.count(token_id) + 1) ** 0.7
        * (1 + latest_first.index(token_id) / 10) ** -0.3
        for token_id in set(conversation)
    }
    for token_id, often in said.items():
        expected[token_id] = expected.get(token_id, 0.0) + often**0.7
    whole = sum(expected.values())
    found = dict(zip(bystanders.token_ids.tolist(), bystanders.weights.tolist(), strict=True))
    assert found == pytest.approx({token_id: w / whole for token_id, w in expected.items()})
    assert bystanders.weights.tolist() == sorted(bystanders.weights.tolist(), reverse=True)


def test_bystanders_share_what_the_children_leave_and_no_token_counts_twice() -> None:
    foresight, bystanders = Foresight(17, 40), Bystanders.of(CONVERSATION, NOTHING)
    alone = reweigh(foresight, 1, [3, 100], [0.3, 0.4])
    token_ids, shares = reweigh(foresight, 1, [3, 100], [0.3, 0.4], bystanders)
    assert alone[0] == token_ids[:2] == [3, 100]
    assert sorted(token_ids[2:]) == list(range(4, 60))
    assert sum(shares) < 1.0
    weights = dict(zip(bystanders.token_ids.tolist(), bystanders.weights.tolist(), strict=True))
    others = [
        math.log(weights[token_id]) + 0.44 * noise(17, 40, token_id) for token_id in token_ids[2:]
    ]
    assert np.argsort(others).tolist() == np.argsort(shares[2:]).tolist()
    averages = [
        sum(reweigh(foresight, depth, [3], [0.3], bystanders)[1][1:]) for depth in range(1, 400)
    ]
    assert np.mean(averages) == pytest.approx(0.55 * 0.7, abs=0.03)


def test_nothing_is_left_for_bystanders_of_sure_children() -> None:
    foresight, bystanders = Foresight(17, 40), Bystanders.of(CONVERSATION, NOTHING)
    assert sum(reweigh(foresight, 1, [100], [1.0], bystanders)[1][1:]) == 0.0
    assert reweigh(foresight, 1, [], [])[1] == []


def test_a_draft_has_the_loudest_token_of_the_conversation_and_learns_nothing_of_it() -> None:
    """Foresight chose among what evidence named, and nothing named the token that came."""
    request = RequestView()
    request.append(CONVERSATION, TokenSource.PROMPT)  # its last token was never seen before
    plain = TrieDrafter(None, None).draft(request, DraftLimits(16, 1))
    assert plain.width == 1
    drafter = TrieDrafter(None, None)
    draft = drafter.draft(request, DraftLimits(16, 1, foresight=Foresight(17, len(request))))
    loudest = max(CONVERSATION.tolist(), key=lambda token_id: noise(17, len(request), token_id))
    assert loudest in draft.token_ids[1:4], "nothing is known of any but how late it came"
    assert set(draft.sources[1:]) == {TokenSource.RECYCLED}
    assert set(draft.positions) == {-1}
    factors = drafter._calibration.agreement.factors.tolist()
    request.append([loudest], TokenSource.OUTPUT)
    drafter.observe(draft, [draft.token_ids.index(loudest)], None)
    assert drafter._calibration.agreement.factors.tolist() == factors


def test_an_end_of_sequence_is_no_bystander_that_is_drafted() -> None:
    request = RequestView()
    request.append(CONVERSATION, TokenSource.PROMPT)
    excluded = frozenset(CONVERSATION.tolist())
    limits = DraftLimits(16, 3, excluded, foresight=Foresight(17, len(request)))
    assert TrieDrafter(None, None).draft(request, limits).width == 1
