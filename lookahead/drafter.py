"""The drafter: what may come next, as one tree of the likeliest branches.

Knows stores of token ids and probabilities; no model, no tensors. The decoding loop asks for a
draft before every verifying forward and tells afterwards what came of it.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Protocol

import numpy as np

from lookahead.calibration import Calibration, FixedPriors
from lookahead.candidates import (
    MATCH_LENGTHS,
    MAX_MATCH_LENGTH,
    Candidates,
    IntArray,
    level_of,
)
from lookahead.draft import DraftTree, TokenSource
from lookahead.request_view import RequestView
from lookahead.successors import SuccessorTable
from lookahead.trie import Trie, TrieSnapshot

__all__ = ["DraftLimits", "Drafter", "TrieDrafter"]

MIN_PROBABILITY = 0.005  # a node less likely than this is not worth a row
MAX_CANDIDATES = 128  # of one store at one match length, the latest ones


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """What a draft must keep to.

    Args:
        max_width: nodes at most, root included.
        max_depth: drafted tokens on one branch at most.
        excluded_ids: never drafted: the ends of sequence.
    """

    max_width: int
    max_depth: int
    excluded_ids: frozenset[int] = frozenset()


class Drafter(Protocol):
    """Proposes tokens; whatever it proposes, the text stays the same."""

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """A tree whose root is the request's last token; the root alone where nothing is known."""

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """Learn from a verified draft.

        Args:
            draft: the tree that was verified.
            accepted_nodes: node indexes accepted, in order, root excluded.
            top_ids: [width, 8] the model's likeliest next tokens at each node; None: not computed.
        """


class _Store:
    """Candidates of one store, their windows read column by column as the tree deepens."""

    def __init__(self, candidates: Candidates, is_own: bool) -> None:
        self.candidates = candidates
        self.is_own = is_own
        self._columns: dict[int, list[int]] = {}

    def column(self, depth: int) -> list[int]:
        """Each candidate's token `depth` tokens after the match; -1: none."""
        if depth not in self._columns:
            self._columns[depth] = self.candidates.windows[:, depth].tolist()
        return self._columns[depth]

    def levels(self) -> list["_Level"]:
        """The candidates by match length, longest first."""
        levels = level_of(self.candidates.match_lengths)
        edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
        return [
            _Level(
                self, MATCH_LENGTHS[levels[begin]], range(begin, min(end, begin + MAX_CANDIDATES))
            )
            for begin, end in pairwise(edges)
            if begin < end
        ]


@dataclass(frozen=True, slots=True)
class _Level:
    """The candidates of one store and match length that agree with a path, latest first."""

    store: _Store
    match_length: int
    members: Sequence[int]

    def following(self, depth: int, token_id: int) -> "_Level":
        """Those whose token at `depth` is `token_id`."""
        column = self.store.column(depth)
        members = [member for member in self.members if column[member] == token_id]
        return _Level(self.store, self.match_length, members)


@dataclass(slots=True)
class _Node:
    """A node of the growing tree; `origin` is the level that saw its token, None if recycled."""

    token_id: int
    probability: float
    depth: int
    parent: "_Node | None" = None
    origin: _Level | None = None
    levels: Sequence[_Level] = ()
    children: list["_Node"] = field(default_factory=list)


class TrieDrafter:
    """Drafts from the request's own tokens, the Trie, and recycled successors.

    At each node the levels that still agree with its path are asked, longest match first; each
    takes its share of what the longer ones left, and the recycled successors get the rest. The tree
    grows by its likeliest node.
    """

    def __init__(
        self,
        trie: Trie | None,
        successors: SuccessorTable | None,
        masked_sequence_ids: Collection[int] = frozenset(),
        calibration: Calibration | None = None,
    ) -> None:
        self._trie = trie
        self._successors = successors
        self._masked_sequence_ids = masked_sequence_ids
        self._calibration = calibration or FixedPriors()
        self._masked: tuple[TrieSnapshot, tuple[IntArray, IntArray]] | None = None

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        if not len(request):
            raise ValueError("There is nothing to continue: the request is empty.")
        snapshot = self._trie.snapshot if self._trie else None
        root = _Node(int(request.token_ids[-1]), 1.0, 0)
        if limits.max_width < 2 or limits.max_depth < 1:
            return DraftTree.root_only(root.token_id)
        stores = [_Store(request.candidates(limits.max_depth), is_own=True)]
        if snapshot is not None:
            stores.append(_Store(self._candidates(snapshot, request, limits), is_own=False))
        levels = [level for store in stores for level in store.levels()]
        root.levels = sorted(levels, key=lambda level: -level.match_length)
        self._grow(root, limits)
        match_length = max(
            (int(store.candidates.match_lengths.max(initial=0)) for store in stores), default=0
        )
        return _lay_out(root, request, snapshot, match_length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. Recycles every verified row; the accepted ones have the last word."""
        if self._successors is None or top_ids is None:
            return
        rows = [*range(draft.width), 0, *accepted_nodes]
        self._successors.update([draft.token_ids[row] for row in rows], top_ids[rows])

    def _candidates(
        self, snapshot: TrieSnapshot, request: RequestView, limits: DraftLimits
    ) -> Candidates:
        if self._masked is None or self._masked[0] is not snapshot:
            self._masked = (snapshot, snapshot.edges_of(self._masked_sequence_ids))
        suffix = request.token_ids[-MAX_MATCH_LENGTH:]
        return snapshot.candidates(suffix, limits.max_depth, self._masked[1])

    def _grow(self, root: _Node, limits: DraftLimits) -> None:
        """Take the likeliest known node into the tree until it is full or nothing is left."""
        ticket = count()  # of equally likely nodes, the one found first
        frontier = [(-1.0, next(ticket), root)]
        width = 0
        while frontier and width < limits.max_width:
            _, _, node = heappop(frontier)
            width += 1
            if node.parent is not None:
                node.parent.children.append(node)
            if node.depth < limits.max_depth:
                for child in self._expand(node, limits.excluded_ids):
                    heappush(frontier, (-child.probability, next(ticket), child))

    def _expand(self, node: _Node, excluded_ids: frozenset[int]) -> list[_Node]:
        """The possible children of a node that are likely enough, likeliest first."""
        if node.parent is not None:
            followed = (
                level.following(node.depth - 1, node.token_id) for level in node.parent.levels
            )
            node.levels = [level for level in followed if level.members]
        remaining = node.probability
        probabilities: dict[int, float] = {}
        origins: dict[int, _Level] = {}
        for level in node.levels:
            column = level.store.column(node.depth)
            counts = Counter([column[member] for member in level.members])
            num_seen = len(level.members) - counts.pop(-1, 0)
            if not num_seen:
                continue
            mass = remaining * self._calibration.confidence(
                level.store.is_own, level.match_length + node.depth, num_seen, len(counts)
            )
            for token_id, num_times in counts.items():
                share = mass * num_times / num_seen
                probabilities[token_id] = probabilities.get(token_id, 0.0) + share
                origins.setdefault(token_id, level)
            remaining -= mass
            if remaining < MIN_PROBABILITY:
                break
        if self._successors is not None:
            for rank, token_id in enumerate(self._successors.successors(node.token_id)):
                share = remaining * self._calibration.rank_share(rank)
                probabilities[token_id] = probabilities.get(token_id, 0.0) + share
        probabilities.pop(-1, None)
        likely = [
            _Node(token_id, probability, node.depth + 1, node, origins.get(token_id))
            for token_id, probability in probabilities.items()
            if probability >= MIN_PROBABILITY and token_id not in excluded_ids
        ]
        return sorted(likely, key=lambda child: -child.probability)


def _lay_out(
    root: _Node, request: RequestView, snapshot: TrieSnapshot | None, match_length: int
) -> DraftTree:
    """The grown tree in depth-first order, likeliest child first."""
    nodes: list[_Node] = []
    parents: list[int] = []
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        stack.extend((child, len(nodes)) for child in reversed(node.children))
        nodes.append(node)
        parents.append(parent)
    origins = [_origin(node, request, snapshot) for node in nodes]
    return DraftTree(
        token_ids=tuple(node.token_id for node in nodes),
        parents=tuple(parents),
        sources=tuple(source for source, _ in origins),
        probabilities=tuple(node.probability for node in nodes),
        positions=tuple(position for _, position in origins),
        match_length=match_length,
    )


def _origin(
    node: _Node, request: RequestView, snapshot: TrieSnapshot | None
) -> tuple[TokenSource, int]:
    """Source of a node's token and the latest place where it was seen on this path."""
    if node.parent is None:
        return TokenSource.MODEL, -1
    if node.origin is None:
        return TokenSource.RECYCLED, -1
    depth = node.depth - 1
    store = node.origin.store
    column = store.column(depth)
    latest = next(member for member in node.origin.members if column[member] == node.token_id)
    position = store.candidates.position(latest, depth)
    if store.is_own:
        source = request.source_at(position)
        return source, -1 if source is TokenSource.DOCUMENT else position
    assert snapshot is not None, "a Trie's candidate without a Trie"
    return snapshot.locate(position).source, position
