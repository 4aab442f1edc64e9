"""The draft tree: subtrees of it, in its own order."""

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


def test_the_likeliest_nodes_are_a_tree_in_the_order_of_the_whole() -> None:
    pruned = TREE.likeliest(5)
    assert pruned.token_ids == (9, 1, 2, 5, 6), "of equal nodes the earlier ones"
    assert pruned.parents == (-1, 0, 1, 0, 3)
    assert pruned.probabilities == (1.0, 0.6, 0.4, 0.4, 0.4)
    assert pruned.positions == (-1, 11, 12, 15, -1)
    assert pruned.sources[-1] is TokenSource.RECYCLED
    assert pruned.match_length == 3


def test_of_equal_nodes_the_earlier_one_is_kept() -> None:
    assert TREE.likeliest(4).token_ids == (9, 1, 2, 5)
    assert TREE.likeliest(3).token_ids == (9, 1, 2)


def test_no_width_leaves_out_the_root_and_none_adds_to_the_tree() -> None:
    assert TREE.likeliest(0).token_ids == TREE.likeliest(1).token_ids == (9,)
    assert TREE.likeliest(7) == TREE.likeliest(99) == TREE
