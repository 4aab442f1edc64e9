"""Token Recycling: the static tree and the matrix behind it."""

from collections import Counter

from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.token_recycling import TokenRecyclingDrafter, static_tree
from tests.lookahead.drafters.streams import LIMITS, paths, request_of, top_ids_of

VOCAB_SIZE = 12


def test_the_static_tree_is_the_published_one() -> None:
    shape = static_tree()
    assert Counter(map(len, shape)) == {1: 8, 2: 21, 3: 25, 4: 15, 5: 8, 6: 3}
    assert {(7, 0), (1, 3), (2, 2), (0, 0, 7), (5, 0, 0), (3, 0, 0, 0)} <= set(shape)
    assert {(0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0), (1, 0, 0, 0, 0)} <= set(shape)
    assert all(node[:-1] in shape[:at] for at, node in enumerate(shape) if len(node) > 1)


def test_narrow_trees_take_the_nodes_with_most_below_them() -> None:
    assert static_tree()[:7] == ((0,), (0, 0), (0, 0, 0), (1,), (2,), (0, 1), (0, 0, 0, 0))


def test_the_matrix_is_unrolled_into_the_tree() -> None:
    drafter = TokenRecyclingDrafter(VOCAB_SIZE)
    drafter.observe_prompt([1, 2, 3], top_ids_of([2, 3, 4], [5, 6], [7]))
    tree = drafter.draft(request_of([1]), LIMITS)
    assert tree.token_ids == (1, 2, 5, 6, 3, 7, 4)
    assert tree.parents == (-1, 0, 1, 1, 0, 4, 0)
    assert tree.sources[1:] == (TokenSource.RECYCLED,) * 6
    narrow = drafter.draft(request_of([1]), DraftLimits(max_width=5, max_depth=12))
    assert paths(narrow) == {(2,), (2, 5), (3,)}, "5 has no row, so that its place stays empty"


def test_verified_rows_overwrite_the_matrix_and_the_deeper_of_two_stays() -> None:
    drafter = TokenRecyclingDrafter(VOCAB_SIZE)
    drafter.observe_prompt([1, 2], top_ids_of([2, 1], [2]))
    draft = drafter.draft(request_of([1]), LIMITS)
    assert draft.token_ids[:3] == (1, 2, 2)
    rows = [[node] for node in range(draft.width)]
    drafter.observe(draft, [], top_ids_of(*rows))
    deepest = max(range(draft.width), key=lambda node: (draft.depths[node], node))
    assert draft.token_ids[deepest] == 2
    assert drafter.draft(request_of([2]), LIMITS).token_ids[1] == deepest


def test_id_0_without_a_row_is_not_drafted_and_with_one_is() -> None:
    drafter = TokenRecyclingDrafter(VOCAB_SIZE)
    assert drafter.draft(request_of([0]), LIMITS).width == 1
    drafter.observe_prompt([0], top_ids_of([0]))
    assert drafter.draft(request_of([0]), LIMITS).token_ids == (0,) * 5


def test_the_matrix_lives_on_when_a_request_begins() -> None:
    drafter = TokenRecyclingDrafter(VOCAB_SIZE)
    drafter.observe_prompt([1], top_ids_of([2]))
    drafter.begin([3])
    assert drafter.draft(request_of([3], [1]), LIMITS).token_ids == (1, 2)
