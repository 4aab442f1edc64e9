"""Layout: a grown tree in the order in which it is verified, and where its tokens stand.

Compiled, arrays only. Knows what grew and from which places; makes nothing up. Called by the
drafter, which makes a draft of it.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.candidates import IntArray
from lookahead.draft import SOURCE_CODES, TokenSource
from lookahead.evidence import Evidence
from lookahead.growth import NUM_NODES, Growth

__all__ = ["Layout", "lay_out"]

FROZEN = 0xE947D882  # what is compiled in from other files: see tests/lookahead/test_frozen.py
_HISTORY = SOURCE_CODES[TokenSource.HISTORY]
_DOCUMENT = SOURCE_CODES[TokenSource.DOCUMENT]
_RECYCLED = SOURCE_CODES[TokenSource.RECYCLED]
_MODEL = SOURCE_CODES[TokenSource.MODEL]


class Layout(NamedTuple):
    """What `DraftTree` says of each node, sources by `SOURCE_CODES`."""

    token_ids: IntArray
    parents: IntArray
    source_codes: IntArray
    probabilities: NDArray[np.float64]
    positions: IntArray


@njit(cache=True)
def lay_out(tree: Growth, evidence: Evidence, request_codes: NDArray[np.uint8]) -> Layout:
    """The tree depth first, likeliest child first: a node's children were taken in that order.

    Args:
        request_codes: [length of the request] the source of each of its tokens.
    """
    count = tree.counts[NUM_NODES]
    layout = Layout(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.float64),
        np.empty(count, np.int64),
    )
    order = _depth_first(tree, count)
    index_of = np.empty(count, np.int64)
    for index in range(count):
        number = order[index]
        index_of[number] = index
        node = tree.nodes[number]
        branch = tree.branches[node.branch]
        layout.token_ids[index] = branch.token_id
        layout.parents[index] = -1 if branch.parent < 0 else index_of[branch.parent]
        layout.probabilities[index] = branch.probability
        source, position = _origin(branch.first_place, node.depth, evidence, request_codes)
        layout.source_codes[index] = source
        layout.positions[index] = position
    return layout


@njit(cache=True)
def _depth_first(tree: Growth, count: int) -> IntArray:
    """Numbers of the nodes, each before its children, of these the first taken first."""
    first_children = np.full(count, -1)
    next_siblings = np.full(count, -1)
    for node in range(count - 1, 0, -1):
        parent = tree.branches[tree.nodes[node].branch].parent
        next_siblings[node] = first_children[parent]
        first_children[parent] = node
    order = np.empty(count, np.int64)
    node = 0
    for index in range(count):
        order[index] = node
        if first_children[node] >= 0:
            node = first_children[node]
            continue
        while node > 0 and next_siblings[node] < 0:
            node = tree.branches[tree.nodes[node].branch].parent
        node = next_siblings[node]
    return order


@njit(cache=True)
def _origin(
    place: int, depth: int, evidence: Evidence, request_codes: NDArray[np.uint8]
) -> tuple[int, int]:
    """Source of a node's token and the latest place where it was seen on its path."""
    if depth == 0:
        return _MODEL, -1
    if place < 0:
        return _RECYCLED, -1
    start = evidence.positions[place]
    if not evidence.is_own[place]:
        source = _DOCUMENT if evidence.is_document[place] else _HISTORY
        return source, start + depth - 1
    position = start + (depth - 1) % (evidence.wraps_at - start)
    source = request_codes[position]
    return source, -2 - position if source == _DOCUMENT else position  # `quoted_position`
