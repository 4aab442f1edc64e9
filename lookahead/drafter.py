"""The drafter: what may come next, as one tree of the likeliest branches.

Knows stores of token ids and probabilities; no model, no tensors. The decoding loop asks for a
draft before every verifying forward and tells afterwards what came of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from lookahead.beliefs import beliefs_of
from lookahead.calibration import NUM_RECENT, Calibration
from lookahead.candidates import MATCH_LENGTHS, MAX_MATCH_LENGTH, Candidates, IntArray
from lookahead.draft import DraftTree, TokenSource
from lookahead.evidence import Evidence, gather
from lookahead.foresight import NO_NOISE, Bystanders, Foresight, Noise
from lookahead.growing import grow
from lookahead.growth import Bounds, Growth, Known
from lookahead.layout import lay_out
from lookahead.learned import Learned
from lookahead.near_misses import NearMisses
from lookahead.request_view import RequestView
from lookahead.successors import SuccessorTable
from lookahead.trie import Trie, TrieSnapshot

__all__ = ["DraftLimits", "Drafter", "TrieDrafter"]

MIN_PROBABILITY = 0.004  # a node less likely than this is not worth a row

_LEVELS = np.array(MATCH_LENGTHS)
_SOURCES = tuple(TokenSource)  # by `SOURCE_CODES`
_NO_RECENT = [-1] * NUM_RECENT
_NO_ROWS = SuccessorTable(0).rows


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


class TrieDrafter:
    """Drafts one answer from the request's own tokens, the Trie, and what the model nearly said.

    Asks the stores what is known, has the tree grown by its likeliest branch (`growing.py`), and
    learns from what came how far to believe what was said.
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
        self._drafted: tuple[Growth, RequestView, int] | None = None  # tree, request, its length

    @staticmethod
    def prepare() -> None:
        """Have drafting compiled now, not at the first draft: some seconds, once a machine."""
        Trie.prepare()
        request = RequestView()
        request.append([0, 0], TokenSource.PROMPT)
        limits = DraftLimits(max_width=2, max_depth=1, foresight=Foresight(seed=0, position=2))
        TrieDrafter(None, None).draft(request, limits)

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
        evidence = gather(own, other, _LEVELS)
        tree = grow(
            last_id,
            self._known(evidence, request),
            beliefs_of(self._calibration),
            _bounds(limits),
            self._noise(request, limits),
        )
        self._drafted = tree, request, len(request)
        nodes = lay_out(tree, evidence, request.source_codes)
        return DraftTree(
            token_ids=tuple(nodes.token_ids.tolist()),
            parents=tuple(nodes.parents.tolist()),
            sources=tuple([_SOURCES[code] for code in nodes.source_codes.tolist()]),
            probabilities=tuple(nodes.probabilities.tolist()),
            positions=tuple(nodes.positions.tolist()),
            match_length=max(own.longest, other.longest),
        )

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. Recycles every verified row; the accepted ones have the last word."""
        self._calibrate()
        if self._successors is None or top_ids is None:
            self._previous_id = -1  # until the next look
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
        (tree, request, length), self._drafted = self._drafted, None
        node: int | None = 0
        for token_id in request.token_ids[length:].tolist():
            if node is None:
                break
            self._calibration.learn(tree.turns(node), token_id)
            self._calibration.agreement.learn(*tree.foretold(node, token_id))
            node = tree.child(node, token_id)

    def _candidates(
        self, request: RequestView, snapshot: TrieSnapshot | None, depth: int
    ) -> Candidates:
        if snapshot is None:
            return Candidates.none(depth)
        if self._masked is None or self._masked[0] is not snapshot:
            self._masked = (snapshot, snapshot.edges_of(self._masked_sequence_ids))
        return snapshot.candidates(request.token_ids[-MAX_MATCH_LENGTH:], depth, self._masked[1])

    def _noise(self, request: RequestView, limits: DraftLimits) -> Noise:
        if limits.foresight is None:
            return NO_NOISE
        bystanders = Bystanders.of(request.token_ids, self._near_misses.nearly_said)
        return limits.foresight.noise(limits.max_depth, bystanders)

    def _known(self, evidence: Evidence, request: RequestView) -> Known:
        recent_ids = [*self._near_misses.heaviest(), *_NO_RECENT][:NUM_RECENT]
        return Known(
            evidence,
            _NO_ROWS if self._successors is None else self._successors.rows,
            self._successors is not None,
            np.array(recent_ids, np.int32),
            request.occurs,
            self._previous_id,
        )


def _bounds(limits: DraftLimits) -> Bounds:
    excluded_ids = _as_array(limits.excluded_ids)
    return Bounds(limits.max_width, limits.max_depth, limits.min_probability, excluded_ids)


@lru_cache(maxsize=8)
def _as_array(token_ids: frozenset[int]) -> IntArray:
    array = np.fromiter(token_ids, np.int64, len(token_ids))
    array.flags.writeable = False
    return array
