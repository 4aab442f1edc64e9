"""The drafter: what may come next, as one tree of the likeliest branches.

Knows stores of token ids and probabilities; no model, no tensors. The decoding loop asks for a
draft before every verifying forward and tells afterwards what came of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from lookahead.agreement import HISTORY, OWN, PAIR, RECENT, TOKEN
from lookahead.calibration import MAX_RECENT_DEPTH, NUM_RECENT, Calibration
from lookahead.candidates import MAX_MATCH_LENGTH, Candidates, IntArray
from lookahead.draft import DraftTree, TokenSource, quoted_position
from lookahead.evidence import Evidence, gather
from lookahead.expectation import Expectation
from lookahead.foresight import Bystanders, Foresight
from lookahead.learned import Learned
from lookahead.near_misses import NearMisses
from lookahead.request_view import RequestView
from lookahead.successors import NUM_SUCCESSORS
from lookahead.trie import Trie, TrieSnapshot

__all__ = ["DraftLimits", "Drafter", "TrieDrafter"]

MIN_PROBABILITY = 0.004  # a node less likely than this is not worth a row


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


class _Node:
    """A node of the growing tree, with what was seen on its path; all of it recycled if nothing."""

    __slots__ = (
        "children",
        "depth",
        "evidence",
        "expectation",
        "parent",
        "probability",
        "token_id",
    )

    def __init__(
        self, token_id: int, probability: float, parent: "_Node | None", evidence: Evidence
    ) -> None:
        self.token_id = token_id
        self.probability = probability
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.evidence = evidence
        self.expectation: Expectation | None = None
        self.children: list[_Node] = []
        if parent is not None:
            parent.children.append(self)


class TrieDrafter:
    """Drafts one answer from the request's own tokens, the Trie, and what the model nearly said.

    At each node the evidence takes turns: places that agree with the path, longest match first;
    the successors of its last two tokens; those of its last one; and near the root the tokens that
    the model lately nearly chose. Each takes its share of what those before it left. The tree grows
    by its likeliest node.
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
        self._calibration = learned.calibration if learned else Calibration()
        self._masked: tuple[TrieSnapshot, tuple[IntArray, ...]] | None = None
        self._near_misses = NearMisses()
        self._previous_id = -1  # the token before the root; -1: not known
        self._drafted: tuple[_Node, RequestView, int] | None = None  # root, request, its length

    @property
    def reads_rows(self) -> bool:
        """See `Drafter`."""
        return self._successors is not None

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        if not len(request):
            raise ValueError("There is nothing to continue: the request is empty.")
        last_id = int(request.token_ids[-1])
        self._previous_id = int(request.token_ids[-2]) if len(request) > 1 else -1
        self._near_misses.drop(last_id)
        snapshot = None if self._trie is None else self._trie.snapshot
        if limits.max_width < 2 or limits.max_depth < 1:
            return DraftTree.root_only(last_id)
        own = request.candidates(limits.max_depth)
        other = self._candidates(request, snapshot, limits.max_depth)
        evidence = gather(own, is_own=True) + gather(other, is_own=False)
        evidence.sort(key=lambda item: -item[0].match_length)
        root = _Node(last_id, 1.0, None, evidence)
        self._grow(root, request, limits)
        self._drafted = root, request, len(request)
        match_length = max(int(found.match_lengths.max(initial=0)) for found in (own, other))
        return _lay_out(root, request, snapshot, match_length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. Recycles every verified row; the accepted ones have the last word."""
        self._calibrate()
        if self._successors is None or top_ids is None:
            return
        rows = [*range(draft.width), 0, *accepted_nodes]
        token_ids = draft.token_ids
        previous_ids = [
            token_ids[parent] if (parent := draft.parents[row]) >= 0 else self._previous_id
            for row in rows
        ]
        self._successors.update([token_ids[row] for row in rows], top_ids[rows], previous_ids)
        for row in (0, *accepted_nodes):
            self._near_misses.drop(token_ids[row])
            self._near_misses.add(token_id for token_id in top_ids[row].tolist() if token_id >= 0)
        self._previous_id = token_ids[rows[-1]]

    def _calibrate(self) -> None:
        """Learn from what came after the last draft's nodes, as far as they were reached."""
        if self._drafted is None:
            return
        (root, request, length), self._drafted = self._drafted, None
        node: _Node | None = root
        for token_id in request.token_ids[length:].tolist():
            if node is None or node.expectation is None:
                break
            node.expectation.learn(token_id)
            node = next((child for child in node.children if child.token_id == token_id), None)

    def _candidates(
        self, request: RequestView, snapshot: TrieSnapshot | None, depth: int
    ) -> Candidates:
        if snapshot is None:
            return Candidates.none(depth)
        if self._masked is None or self._masked[0] is not snapshot:
            self._masked = (snapshot, snapshot.edges_of(self._masked_sequence_ids))
        return snapshot.candidates(request.token_ids[-MAX_MATCH_LENGTH:], depth, self._masked[1])

    def _grow(self, root: _Node, request: RequestView, limits: DraftLimits) -> None:
        """Take the likeliest known node into the tree until it is full or nothing is left."""
        ticket = count()  # of equally likely nodes, the one found first
        frontier: list[tuple[float, int, int, _Node, Evidence]] = []
        recent_ids = self._near_misses.heaviest()
        bystanders = None
        if limits.foresight is not None:
            bystanders = Bystanders.of(request.token_ids, self._near_misses.nearly_said)
        node = root
        for _ in range(limits.max_width - 1):
            if node.depth < limits.max_depth:
                evidence = self._expect(node, request, recent_ids, limits)
                for token_id, probability in _children(node, limits, bystanders):
                    entry = (-probability, next(ticket), token_id, node, evidence.get(token_id, []))
                    heappush(frontier, entry)
            if not frontier:
                break
            negated, _, token_id, parent, found = heappop(frontier)
            node = _Node(token_id, -negated, parent, found)

    def _expect(
        self, node: _Node, request: RequestView, recent_ids: Sequence[int], limits: DraftLimits
    ) -> dict[int, Evidence]:
        """Set a node's expectation; the evidence that goes on with each token."""
        cells, own_ids = self._calibration, request.distinct_ids
        expectation = node.expectation = Expectation(self._calibration)
        evidence: dict[int, Evidence] = {}
        longest = 0
        for level, members in node.evidence:
            groups = level.group(members, node.depth)
            if not groups:
                continue
            length = level.match_length + node.depth
            longest = longest or length
            num_seen = sum(map(len, groups.values()))
            cell = cells.match_cell(level.is_own, length, num_seen, len(groups))
            kind = OWN if level.is_own else HISTORY
            expectation.take_matches(groups, num_seen, cell, kind)
            for token_id, group in groups.items():
                evidence.setdefault(token_id, []).append((level, group))
        if self._successors is None or expectation.left * node.probability < limits.min_probability:
            return evidence
        previous_id = self._previous_id if node.parent is None else node.parent.token_id
        pair_row = self._successors.pair_successors(previous_id, node.token_id)
        if pair_row:
            cell = cells.pair_cell(longest)
            expectation.take_row(pair_row, cell, own_ids, row_length=NUM_SUCCESSORS, kind=PAIR)
        row = self._successors.successors(node.token_id)
        if row:
            cell = cells.token_cell(has_matches=longest > 0, has_pair=bool(pair_row))
            expectation.take_row(row, cell, own_ids, row_length=NUM_SUCCESSORS, kind=TOKEN)
        if recent_ids and node.depth < MAX_RECENT_DEPTH:
            cell = cells.recent_cell(node.depth)
            expectation.take_row(recent_ids, cell, own_ids, row_length=NUM_RECENT, kind=RECENT)
        return evidence


def _children(
    node: _Node, limits: DraftLimits, bystanders: Bystanders | None
) -> list[tuple[int, float]]:
    """The children worth a row, with the probability of reaching them, not in order."""
    assert node.expectation is not None, "a node is expected of before it is expanded"
    token_ids = list(node.expectation.probabilities)
    shares = node.expectation.weighed()
    if limits.foresight is not None:
        if (1.0 - sum(shares)) * node.probability < limits.min_probability:
            bystanders = None
        token_ids, shares = limits.foresight.reweigh(node.depth + 1, token_ids, shares, bystanders)
    floor = limits.min_probability / node.probability
    return [
        (token_id, share * node.probability)
        for token_id, share in zip(token_ids, shares, strict=True)
        if share >= floor and token_id not in limits.excluded_ids
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
