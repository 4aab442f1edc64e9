"""The plan that puts every branch where plain decoding would have put it."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lookahead.path_attention import PathAttention

pytestmark = pytest.mark.tiny

forests = st.lists(st.integers(0, 10**6), max_size=24).map(
    lambda draws: [-1, *[draw % (node + 2) - 1 for node, draw in enumerate(draws)]]
)


@given(forests)
def test_each_node_is_run_once_with_its_own_path_in_the_slots(parents: list[int]) -> None:
    """Any order of nodes, parents first: not only the depth-first order that drafters give."""
    slots = list(range(len(parents)))
    run: list[int] = []
    for branch in PathAttention().plan(parents, 10).branches:
        for at, node in enumerate(branch.placed_nodes, branch.placed_depth):
            slots[at] = node
        for depth, node in enumerate(branch.nodes, branch.depth):
            path = [node]
            while parents[path[-1]] >= 0:
                path.append(parents[path[-1]])
            assert slots[: depth + 1] == path[::-1]
            run.append(node)
    assert run == list(range(len(parents)))


def test_a_chain_moves_nothing() -> None:
    (branch,) = PathAttention().plan([-1, 0, 1, 2], 10).branches
    assert branch.nodes == (0, 1, 2, 3)
    assert not branch.placed_nodes


def test_a_second_branch_is_placed_in_one_go() -> None:
    _, second = PathAttention().plan([-1, 0, 1, 0, 3], 10).branches
    assert second.placed_nodes == (3, 4)
    assert second.placed_depth == 1
