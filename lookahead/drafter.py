"""The drafter: what may come next, as one tree of the likeliest branches.

Knows stores of token ids and probabilities; no model, no tensors. The decoding loop asks for a
draft before every verifying forward and tells afterwards what came of it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Protocol

import numpy as np

from lookahead.calibration import FixedPriors
from lookahead.candidates import (
    MATCH_LENGTHS,
    MAX_MATCH_LENGTH,
    Candidates,
    IntArray,
    level_of,
)
from lookahead.draft import DraftTree, TokenSource, quoted_position
from lookahead.foresight import Foresight
from lookahead.learned import Learned
from lookahead.request_view import RequestView
from lookahead.trie import Trie, TrieSnapshot

__all__ = ["DraftLimits", "Drafter", "TrieDrafter"]

MIN_PROBABILITY = 0.01  # a node less likely than this is not worth a row
MAX_CANDIDATES = 64  # of one store at one match length, the latest ones


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """What a draft must keep to.

    Args:
        max_width: nodes at most, root included.
        max_depth: drafted tokens on one branch at most.
        excluded_ids: never drafted: the ends of sequence.
        min_probability: a node less likely than this is not worth a row.
        foresight: what is known of the noise to come, where the answer is sampled.
    """

    max_width: int
    max_depth: int
    excluded_ids: frozenset[int] = frozenset()
    min_probability: float = MIN_PROBABILITY
    foresight: Foresight | None = None


class Drafter(Protocol):
    """Proposes tokens; whatever it proposes, the text stays the same."""

    @property
    def reads_rows(self) -> bool:
        """Whether it learns from `top_ids`; where not, they are not computed."""
        ...

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


class _Level:
    """The candidates of one store and match length, their windows read as the tree deepens."""

    __slots__ = ("_columns", "candidates", "is_own", "match_length")

    def __init__(
        self,
        candidates: Candidates,
        columns: dict[int, list[int]],
        is_own: bool,
        match_length: int,
    ) -> None:
        self.candidates = candidates
        self.is_own = is_own
        self.match_length = match_length
        self._columns = columns

    def group(self, members: Iterable[int], depth: int) -> dict[int, list[int]]:
        """Members by their token `depth` tokens after the match; ended ones are left out."""
        column = self._columns.get(depth)
        if column is None:
            column = self._columns[depth] = self.candidates.windows[:, depth].tolist()
        groups: dict[int, list[int]] = {}
        for member in members:
            groups.setdefault(column[member], []).append(member)
        groups.pop(-1, None)
        return groups


_Evidence = list[tuple[_Level, Sequence[int]]]  # candidates that agree with a path, latest first


def _evidence(candidates: Candidates, *, is_own: bool) -> _Evidence:
    """The candidates of one store by match length, longest first."""
    columns: dict[int, list[int]] = {}
    levels = level_of(candidates.match_lengths)
    edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
    return [
        (
            _Level(candidates, columns, is_own, MATCH_LENGTHS[levels[begin]]),
            range(begin, min(end, begin + MAX_CANDIDATES)),
        )
        for begin, end in pairwise(edges)
        if begin < end
    ]


class _Node:
    """A node of the growing tree, with what was seen on its path; all of it recycled if nothing."""

    __slots__ = ("children", "depth", "evidence", "parent", "probability", "token_id")

    def __init__(
        self, token_id: int, probability: float, parent: "_Node | None", evidence: _Evidence
    ) -> None:
        self.token_id = token_id
        self.probability = probability
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.evidence = evidence
        self.children: list[_Node] = []
        if parent is not None:
            parent.children.append(self)


class TrieDrafter:
    """Drafts from the request's own tokens, the Trie, and recycled successors.

    At each node the levels that still agree with its path are asked, longest match first; each
    takes its share of what the longer ones left, and the recycled successors get the rest. The tree
    grows by its likeliest node.
    """

    def __init__(
        self,
        trie: Trie | None,
        learned: Learned | None,
        masked_sequence_ids: Collection[int] = frozenset(),
    ) -> None:
        self._trie = trie
        self._successors = learned.successors if learned else None
        self._masked_sequence_ids = masked_sequence_ids
        self._calibration = learned.calibration if learned else FixedPriors()
        self._masked: tuple[TrieSnapshot, tuple[IntArray, ...]] | None = None

    @property
    def reads_rows(self) -> bool:
        """See `Drafter`."""
        return self._successors is not None

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        if not len(request):
            raise ValueError("There is nothing to continue: the request is empty.")
        snapshot = None if self._trie is None else self._trie.snapshot
        if limits.max_width < 2 or limits.max_depth < 1:
            return DraftTree.root_only(int(request.token_ids[-1]))
        own = request.candidates(limits.max_depth)
        other = self._candidates(request, snapshot, limits.max_depth)
        evidence = _evidence(own, is_own=True) + _evidence(other, is_own=False)
        evidence.sort(key=lambda item: -item[0].match_length)
        root = _Node(int(request.token_ids[-1]), 1.0, None, evidence)
        self._grow(root, limits)
        match_length = max(int(found.match_lengths.max(initial=0)) for found in (own, other))
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
        self, request: RequestView, snapshot: TrieSnapshot | None, depth: int
    ) -> Candidates:
        if snapshot is None:
            return Candidates.none(depth)
        if self._masked is None or self._masked[0] is not snapshot:
            self._masked = (snapshot, snapshot.edges_of(self._masked_sequence_ids))
        return snapshot.candidates(request.token_ids[-MAX_MATCH_LENGTH:], depth, self._masked[1])

    def _grow(self, root: _Node, limits: DraftLimits) -> None:
        """Take the likeliest known node into the tree until it is full or nothing is left."""
        ticket = count()  # of equally likely nodes, the one found first
        frontier: list[tuple[float, int, int, _Node, _Evidence]] = []
        node = root
        for _ in range(limits.max_width - 1):
            if node.depth < limits.max_depth:
                for probability, token_id, evidence in self._expand(node):
                    if token_id not in limits.excluded_ids:
                        entry = (-probability, next(ticket), token_id, node, evidence)
                        heappush(frontier, entry)
            if not frontier:
                break
            negated, _, token_id, parent, evidence = heappop(frontier)
            node = _Node(token_id, -negated, parent, evidence)

    def _expand(self, node: _Node) -> list[tuple[float, int, _Evidence]]:
        """Possible children as (probability, token id, evidence), not in order."""
        remaining = node.probability
        probabilities: dict[int, float] = {}
        evidence: dict[int, _Evidence] = {}
        for level, members in node.evidence:
            groups = level.group(members, node.depth)
            if not groups:
                continue
            num_seen = sum(map(len, groups.values()))
            confidence = self._calibration.confidence(
                level.is_own, level.match_length + node.depth, num_seen, len(groups)
            )
            mass = remaining * confidence / num_seen
            for token_id, group in groups.items():
                probabilities[token_id] = probabilities.get(token_id, 0.0) + mass * len(group)
                evidence.setdefault(token_id, []).append((level, group))
            remaining -= remaining * confidence
        if self._successors is not None:
            for rank, token_id in enumerate(self._successors.successors(node.token_id)):
                share = remaining * self._calibration.rank_share(rank)
                probabilities[token_id] = probabilities.get(token_id, 0.0) + share
        return [
            (probability, token_id, evidence.get(token_id, []))
            for token_id, probability in probabilities.items()
            if probability >= MIN_PROBABILITY and token_id >= 0
        ]


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
    if not node.evidence:
        return TokenSource.RECYCLED, -1
    level, members = node.evidence[0]
    position = level.candidates.position(members[0], node.depth - 1)
    if level.is_own:
        source = request.source_at(position)
        return source, quoted_position(position) if source is TokenSource.DOCUMENT else position
    assert snapshot is not None, "a Trie's candidate without a Trie"
    return snapshot.locate(position).source, position
