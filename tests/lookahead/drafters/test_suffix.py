"""Suffix decoding: scores and trees worked out by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.suffix import MIN_PROBABILITY, SuffixDrafter
from tests.lookahead.drafters.streams import LIMITS, drafted, paths, request_of


def remembering(*answers: list[int]) -> SuffixDrafter:
    drafter = SuffixDrafter()
    for answer in answers:
        drafter.begin([])
        drafter.remember(answer)
    return drafter


def test_as_many_tokens_are_drafted_as_match() -> None:
    tree = SuffixDrafter().draft(request_of([1, 2, 3, 4, 5, 6, 9, 1, 2, 3]), LIMITS)
    assert tree.token_ids == (3, 4, 5, 6)
    assert tree.parents == (-1, 0, 1, 2)
    assert tree.positions == (-1, 3, 4, 5)
    # 1 2 3 occurs twice and goes on once
    assert tree.probabilities == (1.0, 0.5, 0.5, 0.5)
    assert tree.match_length == 3


def test_the_likeliest_nodes_are_taken_on_any_branch() -> None:
    history = [[7, 8, 1, 2, 3], [7, 8, 1, 2, 4], [7, 8, 1, 2, 3], [7, 8, 5]]
    tree = remembering(*history).draft(request_of([9], [7, 8]), LIMITS)
    # 7 8 in the answers: 5 times, one of them now; two tokens: 1 (3/5), then 2 (3/5)
    assert tree.token_ids == (8, 1, 2)
    assert tree.probabilities == pytest.approx((1.0, 0.6, 0.6))
    assert tree.sources[1:] == (TokenSource.HISTORY,) * 2
    tree = remembering(*history).draft(request_of([9], [7, 8, 1, 2]), LIMITS)
    # 7 8 1 2: 4 times, one of them now: 3 (2/4), 4 (1/4)
    assert tree.token_ids == (2, 3, 4)
    assert tree.parents == (-1, 0, 0)
    assert tree.probabilities == pytest.approx((1.0, 0.5, 0.25))
    assert tree.match_length == 4


def test_the_best_score_wins_over_a_longer_match() -> None:
    # 5 1 2: six continuations, all different; 2: mostly followed by 7
    history = [[5, 1, 2, 10 + at] for at in range(12)] + [[3, 2, 7, 8]] * 60
    tree = remembering(*history).draft(request_of([9], [5, 1, 2]), LIMITS)
    assert tree.match_length == 1
    assert tree.token_ids == (2, 7)
    assert tree.probabilities[1] == pytest.approx(60 / 73)


def test_own_context_and_answers_are_scored_apart_and_own_leads_where_equal() -> None:
    drafter = remembering([1, 3])
    assert drafted(drafter, [1, 2, 9], [1]) == [2], "own 1/2, answers 1/2"
    drafter = remembering([1, 3], [1, 3])
    assert drafted(drafter, [1, 2, 9], [1]) == [3], "own 1/2, answers 2/3"


def test_what_is_said_counts_among_the_answers_at_once() -> None:
    tree = remembering([1, 2]).draft(request_of([9], [1, 2, 1]), LIMITS)
    assert tree.probabilities[1] == pytest.approx(2 / 3)
    assert (tree.sources[1], tree.positions[1]) == (TokenSource.OUTPUT, 2)


def test_what_is_unlikelier_than_one_in_ten_is_not_drafted() -> None:
    assert drafted(remembering(*[[1, 2 + at] for at in range(9)]), [99], [1]) == [10]
    assert drafted(remembering(*[[1, 2 + at] for at in range(10)]), [99], [1]) == []


def test_the_probability_of_a_path_is_what_counts_and_not_its_last_step() -> None:
    history = [[5, 6, 7, 8, 1, 20 + at] for at in range(4)] + [[5, 6, 7, 8, 2, 3]] * 7
    tree = remembering(*history).draft(request_of([9], [5, 6, 7, 8]), LIMITS)
    # 12 times, one of them now: 2 3 (7/12), 1 (4/12), 1 20 (1/12)
    assert paths(tree) == {(2,), (2, 3), (1,)}
    assert tree.probabilities[1:] == pytest.approx((7 / 12, 7 / 12, 4 / 12))


def test_excluded_tokens_leave_room_for_others() -> None:
    request = request_of([1, 2, 3, 9, 1, 2, 3, 9, 1, 2, 4, 9, 1, 2])
    tree = SuffixDrafter().draft(request, DraftLimits(16, 12, frozenset({3})))
    # 9 1 2: three times, one of them now: 3 and 4 once each
    assert paths(tree) == {(4,), (4, 9), (4, 9, 1)}
    assert tree.probabilities[1] == pytest.approx(1 / 3)


def score_by_counting(
    token_ids: list[int], context: list[int], width: int, depth: int
) -> tuple[Fraction, int]:
    """Best score and match length by counting substrings, longest match of equals."""

    def occurrences(path: list[int]) -> int:
        ends = range(len(path), len(token_ids) + 1)
        return sum(token_ids[end - len(path) : end] == path for end in ends)

    best = (Fraction(0), 0)
    for length in range(1, len(context) + 1):
        suffix = context[-length:]
        if not occurrences(suffix):
            break
        probabilities = [Fraction(1)]
        layer = [(suffix, Fraction(1))]
        for _ in range(depth):
            layer = [
                ([*path, token], share)
                for path, reached in layer
                for token in set(token_ids)
                for share in [reached * occurrences([*path, token]) / occurrences(path)]
                if share and float(share) >= MIN_PROBABILITY
            ]
            probabilities += [share for _, share in layer]
        taken = sorted(probabilities[1:], reverse=True)[: min(length, width - 1)]
        best = max(best, (sum(taken, Fraction(0)), length))
    return best


@given(st.lists(st.integers(0, 2), min_size=2, max_size=24), st.integers(1, 6), st.integers(1, 4))
def test_scores_are_those_of_counted_substrings(tokens: list[int], width: int, depth: int) -> None:
    tree = SuffixDrafter().draft(request_of(tokens), DraftLimits(width, depth))
    score, length = score_by_counting(tokens, tokens, width, depth)
    assert sum(tree.probabilities[1:]) == pytest.approx(float(score))
    assert tree.match_length == (length if score else 0)
