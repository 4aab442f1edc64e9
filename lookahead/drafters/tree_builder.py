"""Builds a draft tree branch by branch, within limits, equal beginnings merged.

Knows no method and no store: the drafters of this package say what to add and in which order.
"""

from collections.abc import Iterable

from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.request_view import RequestView

__all__ = ["ROOT", "TreeBuilder"]

ROOT = 0


class TreeBuilder:
    """A growing tree; nodes are named by the order in which they were added, the root is 0."""

    def __init__(self, request: RequestView, limits: DraftLimits) -> None:
        """Raises ValueError for an empty request."""
        if not len(request):
            raise ValueError("There is nothing to continue: the request is empty.")
        self.limits = limits
        self._token_ids = [int(request.token_ids[-1])]
        self._parents = [-1]
        self._depths = [0]
        self._sources = [TokenSource.MODEL]
        self._positions = [-1]
        self._probabilities: list[float | None] = [1.0]
        self._children: list[dict[int, int]] = [{}]

    @property
    def width(self) -> int:
        """Nodes so far, root included."""
        return len(self._token_ids)

    @property
    def is_full(self) -> bool:
        """Whether the width is used up."""
        return self.width >= self.limits.max_width

    def add(
        self,
        parent: int,
        token_id: int,
        source: TokenSource,
        *,
        position: int = -1,
        probability: float | None = None,
    ) -> int | None:
        """The child of `parent` that carries `token_id`, new unless it is there already.

        `probability` is that of reaching it, None where the method estimates none. Returns None
        where the limits forbid it.
        """
        child = self._children[parent].get(token_id)
        if child is not None:
            return child
        depth = self._depths[parent] + 1
        is_excluded = token_id in self.limits.excluded_ids
        if self.is_full or depth > self.limits.max_depth or is_excluded:
            return None
        child = self._children[parent][token_id] = len(self._token_ids)
        self._token_ids.append(token_id)
        self._parents.append(parent)
        self._depths.append(depth)
        self._sources.append(source)
        self._positions.append(position)
        self._probabilities.append(probability)
        self._children.append({})
        return child

    def add_branch(self, token_ids: Iterable[int], source: TokenSource) -> None:
        """One branch from the root on, cut at the first token that the limits forbid."""
        parent = ROOT
        for token_id in token_ids:
            node = self.add(parent, token_id, source)
            if node is None:
                break
            parent = node

    def cite(self, parent: int, request: RequestView, position: int) -> int | None:
        """`add` the request's own token at `position`, with its source."""
        source = request.source_at(position)
        return self.add(
            parent,
            int(request.token_ids[position]),
            source,
            position=-1 if source is TokenSource.DOCUMENT else position,
        )

    def quote(self, request: RequestView, positions: Iterable[int]) -> None:
        """The request's own tokens at `positions` as one branch from the root on."""
        parent = ROOT
        for position in positions:
            node = self.cite(parent, request, position)
            if node is None:
                break
            parent = node

    def build(self, match_length: int = 0) -> DraftTree:
        """The tree in depth-first order, likeliest child first, equals as they were added.

        Where no probability was estimated, the children share their parent's evenly.
        """
        probabilities: list[float] = []
        order: list[int] = []
        new_parents: list[int] = []
        stack: list[tuple[int, int, float]] = [(ROOT, -1, 1.0)]
        while stack:
            node, parent, probability = stack.pop()
            children = [
                (share if (share := self._probabilities[child]) is not None else even, child)
                for even in (probability / max(1, len(self._children[node])),)
                for child in self._children[node].values()
            ]
            children.sort(key=lambda item: (item[0], -item[1]))
            stack.extend((child, len(order), share) for share, child in children)
            order.append(node)
            new_parents.append(parent)
            probabilities.append(probability)
        return DraftTree(
            token_ids=tuple(self._token_ids[node] for node in order),
            parents=tuple(new_parents),
            sources=tuple(self._sources[node] for node in order),
            probabilities=tuple(probabilities),
            positions=tuple(self._positions[node] for node in order),
            match_length=match_length,
        )
