"""Requests by hand and drafts read back, for the tests of the drafters."""

from collections.abc import Sequence

import numpy as np

from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters import Learner
from lookahead.request_view import RequestView
from tests.lookahead.lookups import path_to

LIMITS = DraftLimits(max_width=16, max_depth=12)


def request_of(prompt: Sequence[int], output: Sequence[int] = ()) -> RequestView:
    """A request as the decode loop holds it."""
    request = RequestView()
    request.append(prompt, TokenSource.PROMPT)
    request.append(output, TokenSource.OUTPUT)
    return request


def top_ids_of(*rows: Sequence[int]) -> np.ndarray:
    """[n, 8] the likeliest next tokens of n rows, -1 where none is given."""
    return np.array([[*row, *[-1] * (8 - len(row))] for row in rows], np.int32)


def drafted(drafter: Learner, prompt: Sequence[int], output: Sequence[int] = ()) -> list[int]:
    """What is drafted on the first branch behind prompt and output, within LIMITS."""
    return first_branch(drafter.draft(request_of(prompt, output), LIMITS))


def first_branch(tree: DraftTree) -> list[int]:
    """Drafted tokens from the root along the likeliest child."""
    branch = [0]
    for node in range(1, tree.width):
        if tree.parents[node] == branch[-1]:
            branch.append(node)
    return [tree.token_ids[node] for node in branch[1:]]


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    """Drafted tokens from the root to each node, root excluded."""
    return {
        tuple(tree.token_ids[step] for step in path_to(tree, node)[1:])
        for node in range(1, tree.width)
    }
