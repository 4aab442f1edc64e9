"""LLMA: what is copied from references, worked out by hand."""

from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.llma import LLMADrafter
from tests.lookahead.drafters.streams import LIMITS, drafted, request_of


def test_the_answer_goes_on_as_the_first_reference_with_the_longest_match_does() -> None:
    #         7 → 1      6 7 → 3          6 7 → 5
    prompt = [7, 1, 2, 6, 7, 3, 4, 6, 7, 5]
    tree = LLMADrafter().draft(request_of(prompt, [6, 7]), LIMITS)
    assert tree.token_ids == (7, 3, 4, 6, 7, 5)
    assert tree.parents == (-1, 0, 1, 2, 3, 4)
    assert tree.sources == (TokenSource.MODEL, *[TokenSource.PROMPT] * 5)
    assert tree.positions == (-1, 5, 6, 7, 8, 9)
    assert tree.match_length == 2


def test_five_tokens_are_compared_at_most() -> None:
    prompt = [1, 2, 3, 4, 5, 8, 0, 1, 2, 3, 4, 5, 9]
    assert drafted(LLMADrafter(), prompt, [0, 1, 2, 3, 4, 5])[0] == 8


def test_only_the_answer_is_matched_and_it_is_no_reference() -> None:
    assert drafted(LLMADrafter(), [5, 6, 7, 5]) == [], "nothing said yet"
    assert drafted(LLMADrafter(), [9], [1, 2, 1]) == [], "prompt lookup would copy 2"
    assert drafted(LLMADrafter(), [3, 1, 4, 2, 1, 5], [2, 6, 1]) == [4, 2, 1, 5]


def test_nineteen_tokens_are_copied_at_most() -> None:
    tree = LLMADrafter().draft(request_of(list(range(30)), [0]), DraftLimits(64, 64))
    assert tree.token_ids == tuple(range(20))


def test_a_remembered_answer_is_a_reference_and_the_latest_one_comes_first() -> None:
    drafter = LLMADrafter()
    for prompt, answer in (([8], [1, 2, 3]), ([9], [1, 4, 5])):
        drafter.begin(prompt)
        drafter.remember([*prompt, *answer])
    tree = drafter.draft(request_of([7], [1]), LIMITS)
    assert tree.token_ids == (1, 4, 5), "up to the border"
    assert tree.sources[1:] == (TokenSource.HISTORY,) * 2
    assert drafted(drafter, [7], [8]) == [], "the prompt of before is no reference"
    assert drafted(drafter, [1, 6], [1]) == [6], "the prompt is the first reference"


def test_a_reference_that_ends_with_the_match_has_nothing_to_copy() -> None:
    drafter = LLMADrafter()
    drafter.remember([1, 2])
    assert drafted(drafter, [2], [2]) == []
