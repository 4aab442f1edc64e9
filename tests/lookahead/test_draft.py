"""The draft tree: subtrees of it, in its own order."""

from dataclasses import replace

import pytest

from lookahead.draft import DraftTree, TokenSource

#          9
#        /   \
#       1     5
#      / \     \
#     2   4     6
#     |
#     3
TREE = DraftTree(
    token_ids=(9, 1, 2, 3, 4, 5, 6),
    parents=(-1, 0, 1, 2, 1, 0, 5),
    sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * 5, TokenSource.RECYCLED),
    probabilities=(1.0, 0.6, 0.4, 0.3, 0.2, 0.4, 0.4),
    positions=(-1, 11, 12, 13, 14, 15, -1),
    match_length=3,
)


def test_a_subtree_keeps_order_and_all_that_is_known_of_its_nodes() -> None:
    pruned = TREE.subtree([0, 1, 2, 5, 6])
    assert pruned.token_ids == (9, 1, 2, 5, 6)
    assert pruned.parents == (-1, 0, 1, 0, 3)
    assert pruned.probabilities == (1.0, 0.6, 0.4, 0.4, 0.4)
    assert pruned.positions == (-1, 11, 12, 15, -1)
    assert pruned.sources[-1] is TokenSource.RECYCLED
    assert pruned.match_length == 3


def test_a_subtree_may_be_the_root_alone_or_the_whole() -> None:
    assert TREE.subtree([0]).token_ids == (9,)
    assert TREE.subtree(range(7)) == TREE


def test_ids_of_another_vocabulary_are_left_out_with_what_stands_behind_them() -> None:
    assert TREE.within(10) is TREE
    ids = (9, 50, 2, 3, 4, 5, -6)
    assert replace(TREE, token_ids=ids).within(50).token_ids == (9, 5)


def test_a_node_whose_parent_is_left_out_has_no_place_in_a_subtree() -> None:
    with pytest.raises(KeyError):
        TREE.subtree([0, 2])
