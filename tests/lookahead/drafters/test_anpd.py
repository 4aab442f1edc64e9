"""ANPD: predictions of the n-gram module, worked out by hand."""

from lookahead.draft import TokenSource
from lookahead.drafters.anpd import ANPDDrafter
from tests.lookahead.drafters.streams import LIMITS, drafted, request_of


def test_six_tokens_are_predicted_each_behind_the_one_before() -> None:
    tree = ANPDDrafter().draft(request_of([1, 2, 3], [1]), LIMITS)
    assert tree.token_ids == (1, 2, 3, 1, 2, 3, 1)
    assert tree.parents == (-1, 0, 1, 2, 3, 4, 5)
    assert tree.positions == (-1, 1, 2, 3, 1, 2, 3)
    assert tree.sources[1:4] == (TokenSource.PROMPT, TokenSource.PROMPT, TokenSource.OUTPUT)
    assert tree.match_length == 1


def test_four_tokens_of_context_are_asked_before_three() -> None:
    #          0 1 2 3 4 → 8          9 2 3 4 → 7
    prompt = [0, 1, 2, 3, 4, 8, 9, 2, 3, 4, 7]
    tree = ANPDDrafter().draft(request_of(prompt, [1, 2, 3, 4]), LIMITS)
    assert tree.token_ids[1] == 8
    assert tree.match_length == 4, "N − 1"
    assert drafted(ANPDDrafter(), prompt, [6, 2, 3, 4])[0] == 7, "1 in 2 each: the latest"


def test_the_most_frequent_next_token_wins_and_of_equals_the_latest() -> None:
    assert drafted(ANPDDrafter(), [1, 2, 1, 2, 1, 3, 0], [1])[0] == 2
    assert drafted(ANPDDrafter(), [1, 2, 1, 3, 0], [1])[0] == 3


def test_what_is_said_refreshes_the_module_while_decoding() -> None:
    drafter = ANPDDrafter()
    drafter.begin([1, 2, 0])
    assert drafted(drafter, [1, 2, 0], [1])[0] == 2
    assert drafted(drafter, [1, 2, 0], [1, 3, 1])[0] == 3


def test_an_unknown_token_predicts_nothing() -> None:
    assert drafted(ANPDDrafter(), [1, 2, 3]) == []
