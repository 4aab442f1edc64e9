"""Prompt lookup: the drafts that transformers' own candidate generator would make."""

from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.prompt_lookup import PromptLookupDrafter
from tests.lookahead.drafters.streams import LIMITS, drafted, request_of


def test_the_leftmost_occurrence_of_the_longest_ngram_is_copied() -> None:
    #               leftmost 7   leftmost 6 7   again 6 7
    prompt = [7, 1, 2, 6, 7, 3, 4, 6, 7, 5, 5, 6, 7]
    tree = PromptLookupDrafter().draft(request_of(prompt), LIMITS)
    assert tree.token_ids == (7, 3, 4, 6, 7, 5, 5, 6, 7)
    assert tree.parents == (-1, 0, 1, 2, 3, 4, 5, 6, 7)
    assert tree.positions == (-1, 5, 6, 7, 8, 9, 10, 11, 12)
    assert tree.match_length == 2


def test_one_token_is_enough_where_two_are_unknown() -> None:
    assert drafted(PromptLookupDrafter(), [7, 1, 2, 3, 7]) == [1, 2, 3, 7]


def test_ten_tokens_are_copied_at_most() -> None:
    assert drafted(PromptLookupDrafter(), [*range(20), 0]) == list(range(1, 11))


def test_the_ngram_of_the_original_is_three_tokens() -> None:
    prompt = [2, 3, 9, 1, 2, 3, 8, 1, 2, 3]
    assert drafted(PromptLookupDrafter(), prompt)[0] == 9
    assert drafted(PromptLookupDrafter(max_ngram_length=3), prompt)[0] == 8


def test_the_copy_ends_before_an_end_of_sequence_and_no_other_place_is_tried() -> None:
    request = request_of([1, 2, 5, 3, 1, 2, 4, 1, 2])
    assert PromptLookupDrafter().draft(request, DraftLimits(16, 12, frozenset({3}))).token_ids == (
        *(2, 5),
    )
    assert PromptLookupDrafter().draft(request, DraftLimits(16, 12, frozenset({5}))).width == 1


def test_own_output_is_copied_from_as_well() -> None:
    tree = PromptLookupDrafter().draft(request_of([9, 1], [2, 3, 4, 2, 3]), LIMITS)
    assert tree.token_ids == (3, 4, 2, 3)
    assert tree.sources == (TokenSource.MODEL, *[TokenSource.OUTPUT] * 3)


def test_nothing_repeated_drafts_nothing() -> None:
    assert drafted(PromptLookupDrafter(), [1, 2, 3]) == []
    assert drafted(PromptLookupDrafter(), [1]) == []
    assert drafted(PromptLookupDrafter(), [0, 0]) == [0]
