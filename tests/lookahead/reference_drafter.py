"""The slow truth about growing a draft: objects, dicts and a heap, the places as they are found.

What the compiled growth must give, node for node, and what must be learned from it. Knows the same
stores, and nothing of arrays.
"""

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, groupby

import numpy as np

from lookahead.agreement import HISTORY, OWN, PAIR, RECENT, TOKEN
from lookahead.calibration import MAX_RECENT_DEPTH, NUM_RECENT, Calibration, Turn
from lookahead.candidates import (
    MATCH_LENGTHS,
    MAX_MATCH_LENGTH,
    MAX_PLACES,
    Candidates,
    IntArray,
)
from lookahead.draft import DraftTree, TokenSource, quoted_position
from lookahead.drafter import DraftLimits
from lookahead.foresight import Bystanders
from lookahead.learned import Learned
from lookahead.near_misses import NearMisses
from lookahead.request_view import RequestView
from lookahead.successors import NUM_SUCCESSORS
from lookahead.trie import Trie, TrieSnapshot
from tests.lookahead.lookups import level_of, pair_successors, position_of
from tests.lookahead.weighing import NO_BYSTANDERS, reweigh, weigh

MOST = 0.95  # of what is left, taken by one row


def found_in_request(request: RequestView, depth: int) -> Candidates:
    """All earlier places in the request that follow its last token, in order."""
    tokens = request.token_ids
    suffix = tokens[-MAX_MATCH_LENGTH:]
    positions = np.flatnonzero(tokens[:-1] == suffix[-1]) + 1
    back = positions[:, None] - np.arange(1, len(suffix) + 1)  # [num_positions, suffix_length]
    agrees = (tokens.take(back, mode="clip") == suffix[::-1]) & (back >= 0)
    lengths = np.logical_and.accumulate(agrees, axis=1).sum(axis=1)
    order = np.lexsort((-positions, -level_of(lengths)))
    starts = positions[order][:, None]
    windows = tokens[starts + np.arange(depth) % (len(tokens) - starts)]
    nowhere = np.zeros(len(positions), np.bool_)
    longest = int(lengths.max(initial=0))
    return Candidates(positions[order], lengths[order], windows, nowhere, len(tokens), longest)


class Level:
    """The places of one store that match equally far."""

    def __init__(self, candidates: Candidates, is_own: bool, match_length: int) -> None:
        self.candidates = candidates
        self.is_own = is_own
        self.match_length = match_length

    def group(self, members: Sequence[int], depth: int) -> dict[int, list[int]]:
        """Members by their token `depth` tokens after the match; ended ones are left out."""
        groups: dict[int, list[int]] = {}
        for member in members:
            groups.setdefault(int(self.candidates.windows[member, depth]), []).append(member)
        groups.pop(-1, None)
        return groups


Evidence = list[tuple[Level, Sequence[int]]]


def gather(candidates: Candidates, *, is_own: bool) -> Evidence:
    """The places of one store by match length, longest first."""
    levels = level_of(candidates.match_lengths).tolist()
    evidence: Evidence = []
    for level, members in groupby(range(len(levels)), key=levels.__getitem__):
        chosen = list(members)[:MAX_PLACES]
        evidence.append((Level(candidates, is_own, MATCH_LENGTHS[level]), chosen))
    return evidence


class Expectation:
    """Probabilities of what may follow at one node, each kind of evidence in its turn."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.probabilities: dict[int, float] = {}
        self.kinds: dict[int, int] = {}
        self.left = 1.0
        self.turns: list[Turn] = []

    def take_matches(
        self, groups: Mapping[int, Sequence[int]], num_seen: int, cell: int, kind: int
    ) -> None:
        """Places that match the context, by the token they go on with."""
        taken = self.left * self.calibration.shares[cell]
        each = taken / num_seen
        shares = [each * len(group) for group in groups.values()]
        self.take(list(groups), shares, [cell] * len(shares), kind)
        self.left -= taken

    def take_row(
        self,
        token_ids: Sequence[int],
        first_cell: int,
        own_ids: Collection[int],
        *,
        row_length: int,
        kind: int,
    ) -> None:
        """Likely tokens, likeliest first."""
        cells = [
            cell + row_length if token_id in own_ids else cell
            for cell, token_id in enumerate(token_ids, first_cell)
        ]
        shares = [self.calibration.shares[cell] for cell in cells]
        total = 0.0
        for share in shares:
            total += share
        scale = self.left if total <= MOST else self.left * MOST / total
        self.take(token_ids, [scale * share for share in shares], cells, kind)
        self.left -= scale * total

    def take(
        self, token_ids: Sequence[int], shares: Sequence[float], cells: Sequence[int], kind: int
    ) -> None:
        """One turn."""
        self.turns.append((token_ids, shares, cells))
        for token_id, share in zip(token_ids, shares, strict=True):
            self.probabilities[token_id] = self.probabilities.get(token_id, 0.0) + share
            self.kinds[token_id] = self.kinds.get(token_id, 0) | kind

    def weighed(self) -> list[float]:
        """What is believed in the end of each token in `probabilities`, 1 at most together."""
        agreement = self.calibration.agreement
        return weigh(agreement, list(self.probabilities.values()), list(self.kinds.values()))

    def learn(self, token_id: int) -> None:
        """Tell the calibration which token came."""
        self.calibration.learn(self.turns, token_id)
        self.calibration.agreement.learn(
            list(self.probabilities.values()),
            list(self.kinds.values()),
            list(self.probabilities).index(token_id) if token_id in self.probabilities else None,
        )


class Node:
    """A node of the growing tree, with what was seen on its path."""

    def __init__(
        self, token_id: int, probability: float, parent: "Node | None", evidence: Evidence
    ) -> None:
        self.token_id = token_id
        self.probability = probability
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.evidence = evidence
        self.expectation: Expectation | None = None
        self.children: list[Node] = []
        if parent is not None:
            parent.children.append(self)


class ReferenceDrafter:
    """Does what `TrieDrafter` does, slowly."""

    reads_rows = True

    def __init__(
        self,
        trie: Trie | None,
        learned: Learned | None,
        masked_sequence_ids: Collection[int] = frozenset(),
    ) -> None:
        self.trie = trie
        self.successors = learned.successors if learned else None
        self.masked_sequence_ids = masked_sequence_ids
        self.calibration = learned.calibration if learned else Calibration()
        self.near_misses = NearMisses()
        self.previous_id = -1
        self.drafted: tuple[Node, RequestView, int] | None = None

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`."""
        last_id = int(request.token_ids[-1])
        self.previous_id = int(request.token_ids[-2]) if len(request) > 1 else -1
        self.near_misses.drop(last_id)
        if limits.max_width < 2 or limits.max_depth < 1:
            return DraftTree.root_only(last_id)
        snapshot = None if self.trie is None else self.trie.snapshot
        own = found_in_request(request, limits.max_depth)
        other = Candidates.none(limits.max_depth)
        if snapshot is not None:
            edges = snapshot.edges_of(self.masked_sequence_ids)
            suffix = request.token_ids[-MAX_MATCH_LENGTH:]
            other = snapshot.candidates(suffix, limits.max_depth, edges)
        evidence = gather(own, is_own=True) + gather(other, is_own=False)
        evidence.sort(key=lambda item: -item[0].match_length)
        root = Node(last_id, 1.0, None, evidence)
        self.grow(root, request, limits)
        self.drafted = root, request, len(request)
        match_length = max(own.longest, other.longest)
        return lay_out(root, request, snapshot, match_length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`."""
        self.calibrate()
        if self.successors is None or top_ids is None:
            return
        rows = [*range(draft.width), 0, *accepted_nodes]
        previous_ids = [
            draft.token_ids[parent] if (parent := draft.parents[row]) >= 0 else self.previous_id
            for row in rows
        ]
        token_ids = [draft.token_ids[row] for row in rows]
        self.successors.update(token_ids, top_ids[rows], previous_ids)
        for row in (0, *accepted_nodes):
            self.near_misses.drop(draft.token_ids[row])
            self.near_misses.add(token_id for token_id in top_ids[row].tolist() if token_id >= 0)

    def calibrate(self) -> None:
        """Learn from what came after the last draft's nodes, as far as they were reached."""
        if self.drafted is None:
            return
        (root, request, length), self.drafted = self.drafted, None
        node: Node | None = root
        for token_id in request.token_ids[length:].tolist():
            if node is None or node.expectation is None:
                break
            node.expectation.learn(token_id)
            node = next((child for child in node.children if child.token_id == token_id), None)

    def grow(self, root: Node, request: RequestView, limits: DraftLimits) -> None:
        """Take the likeliest known node into the tree until it is full or nothing is left."""
        ticket = count()  # of equally likely nodes, the one found first
        frontier: list[tuple[float, int, int, Node, Evidence]] = []
        bystanders = NO_BYSTANDERS
        if limits.foresight is not None:
            bystanders = Bystanders.of(request.token_ids, self.near_misses.nearly_said)
        node = root
        for _ in range(limits.max_width - 1):
            if node.depth < limits.max_depth:
                evidence = self.expect(node, request, limits)
                for token_id, probability in children_of(node, limits, bystanders):
                    entry = (-probability, next(ticket), token_id, node, evidence.get(token_id, []))
                    heappush(frontier, entry)
            if not frontier:
                break
            negated, _, token_id, parent, found = heappop(frontier)
            node = Node(token_id, -negated, parent, found)

    def expect(self, node: Node, request: RequestView, limits: DraftLimits) -> dict[int, Evidence]:
        """Set a node's expectation; the evidence that goes on with each token."""
        cells, own_ids = self.calibration, set(request.token_ids.tolist())
        expectation = node.expectation = Expectation(self.calibration)
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
        if self.successors is None or expectation.left * node.probability < limits.min_probability:
            return evidence
        previous_id = self.previous_id if node.parent is None else node.parent.token_id
        pair_row = pair_successors(self.successors, previous_id, node.token_id)
        if pair_row:
            cell = cells.pair_cell(longest)
            expectation.take_row(pair_row, cell, own_ids, row_length=NUM_SUCCESSORS, kind=PAIR)
        row = self.successors.successors(node.token_id)
        if row:
            cell = cells.token_cell(has_matches=longest > 0, has_pair=bool(pair_row))
            expectation.take_row(row, cell, own_ids, row_length=NUM_SUCCESSORS, kind=TOKEN)
        recent_ids = self.near_misses.heaviest()
        if recent_ids and node.depth < MAX_RECENT_DEPTH:
            cell = cells.recent_cell(node.depth)
            expectation.take_row(recent_ids, cell, own_ids, row_length=NUM_RECENT, kind=RECENT)
        return evidence


def children_of(node: Node, limits: DraftLimits, bystanders: Bystanders) -> list[tuple[int, float]]:
    """The children worth a row, with the probability of reaching them, not in order."""
    assert node.expectation is not None
    token_ids, shares = list(node.expectation.probabilities), node.expectation.weighed()
    if limits.foresight is not None:
        if (1.0 - sum(shares)) * node.probability < limits.min_probability:
            bystanders = NO_BYSTANDERS
        token_ids, shares = reweigh(limits.foresight, node.depth + 1, token_ids, shares, bystanders)
    floor = limits.min_probability / node.probability
    return [
        (token_id, share * node.probability)
        for token_id, share in zip(token_ids, shares, strict=True)
        if share >= floor and token_id not in limits.excluded_ids
    ]


def lay_out(
    root: Node, request: RequestView, snapshot: TrieSnapshot | None, match_length: int
) -> DraftTree:
    """The grown tree in depth-first order, likeliest child first."""
    nodes: list[Node] = []
    parents: list[int] = []
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        stack.extend((child, len(nodes)) for child in reversed(node.children))
        nodes.append(node)
        parents.append(parent)
    origins = [origin(node, request, snapshot) for node in nodes]
    return DraftTree(
        token_ids=tuple(node.token_id for node in nodes),
        parents=tuple(parents),
        sources=tuple(source for source, _ in origins),
        probabilities=tuple(node.probability for node in nodes),
        positions=tuple(position for _, position in origins),
        match_length=match_length,
    )


def origin(
    node: Node, request: RequestView, snapshot: TrieSnapshot | None
) -> tuple[TokenSource, int]:
    """Source of a node's token and the latest place where it was seen on this path."""
    if node.parent is None:
        return TokenSource.MODEL, -1
    if not node.evidence:
        return TokenSource.RECYCLED, -1
    level, members = node.evidence[0]
    position = position_of(level.candidates, members[0], node.depth - 1)
    if level.is_own:
        source = request.source_at(position)
        return source, quoted_position(position) if source is TokenSource.DOCUMENT else position
    assert snapshot is not None
    return snapshot.locate(position).source, position
