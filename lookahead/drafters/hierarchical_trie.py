"""The hierarchical trie of the ancestor, PainlessInferenceAcceleration.

"Lookahead: An Inference Acceleration Framework for Large Language Model with Lossless Generation
Accuracy", arXiv 2312.12728, the sections on the trie (branch inserting, branch eliminating, node
pruning, retrieving) and on hierarchical multi-branch drafts, with the defaults of its published
program: decoding length 64, branch length 12, the last two tokens asked, long prefix first, until a
prefix yields 12 nodes; half of a full draft is kept for output branches, and prompt branches
outweigh output branches 10,000 to 1 in the other half. A trie per first token; where one has grown
to more than 512 output nodes, once 1,024 tries have changed, counts are halved and lone ones
dropped.

What differs: prompt branches are removed when their request ends, not left empty; the answer in the
making is removed too unless it is remembered, so that a cold run can be made; half for outputs
means nodes that outputs have been through, not nodes with none.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.own_context import OwnContext, prompt_of
from lookahead.drafters.tree_builder import ROOT, TreeBuilder
from lookahead.request_view import RequestView

__all__ = ["HierarchicalTrieDrafter"]

DECODING_LENGTH = 64  # nodes, root included
BRANCH_LENGTH = 12
QUERY_LENGTH = 2
OUTPUT_WEIGHT = 1e-4
MAX_OUTPUT_NODES = 512  # of the trie of one first token
NUM_CHANGED_TO_PRUNE = 1_024
PROMPT, ANSWER, OUTPUT = range(3)  # whose branches went through a node


class _Node:
    __slots__ = ("children", "frequencies")

    def __init__(self) -> None:
        self.children: dict[int, _Node] = {}
        self.frequencies = [0.0, 0.0, 0.0]

    def outputs(self) -> float:
        """How often an output went through, the answer in the making included."""
        return self.frequencies[ANSWER] + self.frequencies[OUTPUT]

    def weight(self) -> float:
        """What decides the order."""
        return (1 - OUTPUT_WEIGHT) * self.frequencies[PROMPT] + OUTPUT_WEIGHT * self.outputs()

    @property
    def source(self) -> TokenSource:
        """Whose branch it is, this request's before another's."""
        if self.frequencies[PROMPT]:
            return TokenSource.PROMPT
        return TokenSource.OUTPUT if self.frequencies[ANSWER] else TokenSource.HISTORY

    def num_below(self) -> int:
        """Nodes below this one."""
        return sum(1 + child.num_below() for child in self.children.values())

    def insert(self, branch: Sequence[int], kind: int) -> None:
        """Count a branch below this node."""
        node = self
        for token_id in branch:
            child = node.children.get(token_id)
            if child is None:
                child = node.children[token_id] = _Node()
            child.frequencies[kind] += 1
            node = child

    def forget_request(self) -> None:
        """Branch eliminating: what only this request went through is removed."""
        for token_id, child in list(self.children.items()):
            if not child.frequencies[OUTPUT]:
                del self.children[token_id]
            elif child.frequencies[PROMPT] or child.frequencies[ANSWER]:
                child.frequencies[PROMPT] = child.frequencies[ANSWER] = 0.0
                child.forget_request()

    def decay(self) -> None:
        """Node pruning: halve what was seen more than once, drop the rest."""
        for token_id, child in list(self.children.items()):
            if child.frequencies[OUTPUT] > 1:
                child.frequencies[OUTPUT] *= 0.5
                child.decay()
            else:
                del self.children[token_id]


_Found = tuple[_Node, int, _Node]  # parent, token id, node


class HierarchicalTrieDrafter:
    """Trees cut from a trie of prompts and outputs; history is the outputs of before."""

    reads_rows = False

    def __init__(self) -> None:
        self._context = OwnContext()
        self._tries: dict[int, _Node] = {}  # by first token
        self._num_inserted = 0  # of the answer's tokens, those whose branch is in the trie
        self._of_request: set[int] = set()  # first tokens of tries that hold this request's
        self._changed: set[int] = set()  # first tokens of tries changed since the last pruning

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        tree = TreeBuilder(request, limits)
        if self._context.follow(request) is None:
            self.begin(prompt_of(request).tolist())
            self._context.follow(request)
        self._insert_answer()
        query: list[int] = request.token_ids[-QUERY_LENGTH:].tolist()
        size = min(DECODING_LENGTH, limits.max_width) - 1
        match, match_length = _Node(), 0
        chosen: list[_Found] = []
        while query and len(chosen) + 1 < BRANCH_LENGTH:
            matched = self._match(query)
            if matched is not None and matched.children:
                match, match_length = matched, len(query)
                chosen = _select(match, size)
            query = query[1:]
        _add(tree, match, chosen)
        return tree.build(match_length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. What was accepted is read from the request at the next draft."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """See `Learner`. The last request's branches make room for those of the prompt."""
        for first in self._of_request & self._tries.keys():
            self._tries[first].forget_request()
        self._of_request.clear()
        self._num_inserted = 0
        self._context.begin(prompt_ids)
        self._insert_all(self._context.prompt_ids.tolist(), PROMPT)

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        """See `Learner`. Nothing is kept."""

    def remember(self, token_ids: Sequence[int]) -> None:
        """See `Learner`. The answer's branches stay for later requests."""
        answer = self._context.answer_in(token_ids)
        self.begin([])
        self._insert_all(answer, OUTPUT)
        if len(self._changed) >= NUM_CHANGED_TO_PRUNE:
            for first in self._changed:
                if self._tries[first].num_below() > MAX_OUTPUT_NODES:
                    self._tries[first].decay()
            self._changed.clear()

    def _insert_answer(self) -> None:
        """Insert what of the answer is long enough for a whole branch, as it streams in."""
        answer = self._context.answer_ids.tolist()
        while self._num_inserted + 1 + BRANCH_LENGTH < len(answer):
            start = self._num_inserted
            self._insert(answer[start : start + 2 + BRANCH_LENGTH], ANSWER)
            self._num_inserted += 1

    def _insert_all(self, token_ids: Sequence[int], kind: int) -> None:
        for start in range(len(token_ids) - 1):
            self._insert(token_ids[start : start + 2 + BRANCH_LENGTH], kind)

    def _insert(self, branch: Sequence[int], kind: int) -> None:
        self._tries.setdefault(branch[0], _Node()).insert(branch[1:], kind)
        (self._changed if kind == OUTPUT else self._of_request).add(branch[0])

    def _match(self, query: Sequence[int]) -> _Node | None:
        node = self._tries.get(query[0])
        for token_id in query[1:]:
            if node is None:
                break
            node = node.children.get(token_id)
        return node


def _select(match: _Node, size: int) -> list[_Found]:
    """The nodes to draft, half by output count and the rest by weight; the heaviest first."""
    chosen: dict[_Node, _Found] = {}
    for key, limit in ((_Node.outputs, (size + 1) // 2), (_Node.weight, size)):
        for found in _greatest(match, key):
            if len(chosen) >= limit:
                break
            chosen[found[2]] = found
    return sorted(chosen.values(), key=lambda found: -found[2].weight())


def _greatest(match: _Node, key: Callable[[_Node], float]) -> Iterator[_Found]:
    """Nodes below by a key that never grows on the way down, the greatest first, zero left out."""
    ticket = count()  # of equal ones, the one found first: parents come before their children
    frontier: list[tuple[float, int, int, _Found]] = []
    node, depth = match, 0
    while True:
        if depth < BRANCH_LENGTH:
            for token_id, child in node.children.items():
                value = key(child)
                if value:
                    entry = (-value, next(ticket), depth + 1, (node, token_id, child))
                    heappush(frontier, entry)
        if not frontier:
            return
        _, _, depth, found = heappop(frontier)
        yield found
        node = found[2]


def _add(tree: TreeBuilder, match: _Node, chosen: list[_Found]) -> None:
    """Add what was chosen of the trie; a node's parent stands before it or is the match itself."""
    nodes = {match: ROOT}
    for parent, token_id, trie_node in chosen:
        if parent in nodes:
            node = tree.add(nodes[parent], token_id, trie_node.source)
            if node is not None:
                nodes[trie_node] = node
