"""Token Recycling: what the model held likely behind each token, unrolled into a fixed tree.

"Turning Trash into Treasure: Accelerating Inference of Large Language Models with Token Recycling",
arXiv 2408.08696, §3: an adjacency matrix of the top 8 next tokens; a static tree, here the
published one of 80 drafted tokens in six layers; the rows of a verified tree overwrite the matrix,
and of a token that occurs twice the one further down the tree stays. The matrix lives on from
request to request.

What differs: a narrower tree is made of the nodes with most nodes below them, those that the
published shape itself holds likeliest; a token without a row drafts nothing, where the publication
drafts id 0. Prompt rows are recycled if they are given, which the published loop does not do.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.protocol import NoHistory
from lookahead.drafters.tree_builder import ROOT, TreeBuilder
from lookahead.request_view import RequestView
from lookahead.successors import SuccessorTable

__all__ = ["TokenRecyclingDrafter"]

# Children of each node, layer by layer; a node's children are its likeliest successors.
SHAPE = (
    (8,),
    (8, 4, 3, 2, 1, 1, 1, 1),
    (8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0),
    (5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0),
    (3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0),
    (2, 0, 0, 1, 0, 0, 0, 0),
)


class TokenRecyclingDrafter(NoHistory):
    """The static tree read off a matrix `[vocab_size, 8]`."""

    reads_rows = True

    def __init__(self, vocab_size: int) -> None:
        self._matrix = SuccessorTable(vocab_size)

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        tree = TreeBuilder(request, limits)
        token_ids: dict[tuple[int, ...], int] = {(): int(request.token_ids[-1])}
        nodes: dict[tuple[int, ...], int] = {(): ROOT}
        successors: dict[int, list[int]] = {}
        for ranks in static_tree()[: max(0, limits.max_width - 1)]:
            parent = nodes.get(ranks[:-1])
            if parent is None:
                continue
            before = token_ids[ranks[:-1]]
            if before not in successors:
                successors[before] = self._matrix.successors(before)
            following = successors[before]
            if ranks[-1] >= len(following):
                continue
            token_id = following[ranks[-1]]
            node = tree.add(parent, token_id, TokenSource.RECYCLED)
            if node is not None:
                token_ids[ranks], nodes[ranks] = token_id, node
        return tree.build()

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`."""
        if top_ids is not None:
            rows = np.argsort(draft.depths, kind="stable")
            self._matrix.update(np.array(draft.token_ids)[rows], top_ids[rows])

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        """See `Learner`."""
        if top_ids is not None:
            self._matrix.update(token_ids, top_ids)


@cache
def static_tree() -> tuple[tuple[int, ...], ...]:
    """The nodes of the shape as successor ranks from the root, most nodes below them first."""
    nodes: list[tuple[int, ...]] = []
    layer: list[tuple[int, ...]] = [()]
    for counts in SHAPE:
        layer = [
            (*ranks, rank)
            for ranks, count in zip(layer, counts, strict=True)
            for rank in range(count)
        ]
        nodes += layer
    num_below = {
        node: sum(other[: len(node)] == node for other in nodes) for node in nodes
    }  # itself included, so that a parent precedes its children
    return tuple(sorted(nodes, key=lambda node: (-num_below[node], len(node) + sum(node))))
