"""The hierarchical trie: retrieval, elimination and pruning, worked out by hand."""

from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.hierarchical_trie import MAX_OUTPUT_NODES, HierarchicalTrieDrafter
from tests.lookahead.drafters.streams import LIMITS, drafted, first_branch, paths, request_of

PROMPT, HISTORY = TokenSource.PROMPT, TokenSource.HISTORY


def remembering(*answers: list[int]) -> HierarchicalTrieDrafter:
    drafter = HierarchicalTrieDrafter()
    for answer in answers:
        drafter.begin([])
        drafter.remember(answer)
    return drafter


def test_equal_beginnings_are_one_branch_and_the_most_frequent_comes_first() -> None:
    drafter = remembering([1, 2, 3, 4], [1, 2, 5, 6], [1, 2, 5, 7])
    tree = drafter.draft(request_of([9], [1]), LIMITS)
    assert tree.token_ids == (1, 2, 5, 6, 7, 3, 4)
    assert tree.parents == (-1, 0, 1, 2, 2, 1, 5)
    assert tree.sources[1:] == (HISTORY,) * 6
    assert tree.match_length == 1


def test_two_tokens_are_asked_first_and_one_where_they_yield_too_little() -> None:
    long = list(range(20, 34))
    drafter = remembering([8, 0, *long], [7, 0, 3])
    tree = drafter.draft(request_of([9], [8, 0]), LIMITS)
    assert first_branch(tree) == long[:12]
    assert (tree.match_length, tree.width) == (2, 13)
    tree = drafter.draft(request_of([9], [7, 0]), DraftLimits(64, 12))
    assert tree.match_length == 1
    assert paths(tree) == {(3,), *(tuple(long[:length]) for length in range(1, 13))}


def test_branches_are_twelve_tokens_long_behind_either_match() -> None:
    tree = remembering(list(range(40))).draft(request_of([50], [3]), DraftLimits(64, 64))
    assert first_branch(tree) == list(range(4, 16))
    tree = remembering(list(range(40))).draft(request_of([50], [3, 4]), DraftLimits(64, 64))
    assert first_branch(tree) == list(range(5, 17))


def test_a_prompt_outweighs_any_number_of_outputs() -> None:
    drafter = remembering(*[[1, 2]] * 5)
    tree = drafter.draft(request_of([1, 3, 4, 9], [1]), LIMITS)
    assert tree.token_ids == (1, 3, 4, 9, 2)
    assert tree.sources[1:] == (PROMPT, PROMPT, PROMPT, HISTORY)


def test_half_of_a_full_draft_is_kept_for_outputs() -> None:
    drafter = remembering([1, 7, 8])
    request = request_of([1, 2, 3, 4, 5, 6, 9], [1])
    tree = drafter.draft(request, DraftLimits(max_width=6, max_depth=12))
    assert paths(tree) == {(2,), (2, 3), (2, 3, 4), (7,), (7, 8)}
    tree = drafter.draft(request, DraftLimits(max_width=3, max_depth=12))
    assert paths(tree) == {(2,), (7,)}


def test_the_answer_can_be_drafted_from_once_a_whole_branch_is_there() -> None:
    answer = [1, *range(20, 32)]
    assert drafted(HierarchicalTrieDrafter(), [9], [*answer[:-1], 1]) == []
    tree = HierarchicalTrieDrafter().draft(request_of([9], [*answer, 33, 1]), LIMITS)
    assert first_branch(tree) == answer[1:]
    assert set(tree.sources[1:]) == {TokenSource.OUTPUT}


def test_prompt_branches_are_eliminated_when_their_request_ends() -> None:
    drafter = remembering([1, 2, 3])
    drafter.begin([1, 2, 4, 1, 5])
    assert paths(drafter.draft(request_of([1, 2, 4, 1, 5], [1]), LIMITS)) >= {(2, 4), (5,)}
    drafter.begin([9])
    tree = drafter.draft(request_of([9], [1]), LIMITS)
    assert tree.token_ids == (1, 2, 3)
    assert tree.sources[1:] == (HISTORY,) * 2


def test_pruning_halves_counts_and_drops_what_was_seen_once() -> None:
    drafter = HierarchicalTrieDrafter()
    often = [0, 1, 2]
    for _ in range(3):
        drafter.remember(often)
    for branch in range(MAX_OUTPUT_NODES):
        drafter.remember([0, 3 + branch])
    drafter.remember(list(range(2_000, 3_022)))
    before = drafter.draft(request_of([9_999], [0]), DraftLimits(64, 12))
    assert before.width == 64
    drafter.remember([5_000, 5_001, 5_002, 5_003])  # now 1,024 tries have changed
    assert drafted(drafter, [9_999], [0]) == [1, 2]
    assert drafted(drafter, [9_999], [2_000])[:2] == [2_001, 2_002], "small tries are left alone"
    for _ in range(2):
        drafter.remember([0, 9])
    assert drafted(drafter, [9_999], [0]) == [9], "2 to 1.5"
