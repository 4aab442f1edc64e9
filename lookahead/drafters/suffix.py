"""Suffix decoding: the best-scoring tree over what followed every suffix of the context.

"SuffixDecoding: A Model-Free Approach to Speeding Up Large Language Model Inference", arXiv
2411.04975, §3, with the constants of Arctic Inference and its tree variant: two corpora, the
request's prompt and answer, and all answers; for every match length p up to 63 the likeliest nodes
are taken greedily, α·p of them (α = 1), none below a probability of 0.1; a node's probability is
its parent's times its share of the parent's occurrences, one at the very end included; the score is
the sum of probabilities, and the best score over both corpora and all p is drafted, of equal ones
the longest match, own context first.

What differs: occurrences are counted in arrays, which gives a suffix tree's numbers without the
tree; the tree's depth of 64 bounds the match and not the sum of match and draft, since a shorter
match gives the same draft there; the corpus of answers is never evicted from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.own_context import OwnContext, prompt_of
from lookahead.drafters.tree_builder import ROOT, TreeBuilder
from lookahead.request_view import RequestView

__all__ = ["SuffixDrafter"]

MAX_MATCH_LENGTH = 63
SPECULATION_FACTOR = 1.0  # α
MIN_PROBABILITY = 0.1
BORDER = -1


@dataclass(frozen=True, slots=True)
class _Speculation:
    """A candidate: nodes as (parent index or -1, token id, probability, where it stood last)."""

    nodes: list[tuple[int, int, float, int]]
    score: float
    match_length: int
    is_own: bool


class SuffixDrafter:
    """Trees of estimated probabilities; history is the answers of before."""

    reads_rows = False

    def __init__(self) -> None:
        self._context = OwnContext()
        self._answers: IntArray = np.empty(0, np.int32)  # remembered, a border behind each

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        tree = TreeBuilder(request, limits)
        if self._context.follow(request) is None:
            self.begin(prompt_of(request).tolist())
            self._context.follow(request)
        own = np.asarray(request.token_ids)
        suffix = own[-MAX_MATCH_LENGTH:]
        best = _Speculation([], 0.0, 0, True)
        best = _speculate(own, suffix, limits, best, is_own=True)
        answers = np.concatenate((self._answers, self._context.answer_ids))
        best = _speculate(answers, suffix, limits, best, is_own=False)
        indexes = {-1: ROOT}
        for index, (parent, token_id, probability, position) in enumerate(best.nodes):
            source, place = self._origin(request, position, best.is_own)
            node = tree.add(
                indexes[parent], token_id, source, position=place, probability=probability
            )
            assert node is not None, "a speculation keeps to the limits"
            indexes[index] = node
        return tree.build(best.match_length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. What was accepted is read from the request at the next draft."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """See `Learner`. The last request's prompt and answer are no longer matched."""
        self._context.begin(prompt_ids)

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        """See `Learner`. Nothing is kept."""

    def remember(self, token_ids: Sequence[int]) -> None:
        """See `Learner`. The answer joins those of before."""
        answer = np.array([*self._context.answer_in(token_ids), BORDER], np.int32)
        self._answers = np.concatenate((self._answers, answer))
        self.begin([])

    def _origin(self, request: RequestView, position: int, is_own: bool) -> tuple[TokenSource, int]:
        """Source of a token and where it stands in the request."""
        if not is_own:
            if position < len(self._answers):
                return TokenSource.HISTORY, -1
            position += self._context.prompt_length - len(self._answers)
        source = request.source_at(position)
        return source, -1 if source is TokenSource.DOCUMENT else position


def _speculate(
    tokens: IntArray, suffix: IntArray, limits: DraftLimits, best: _Speculation, *, is_own: bool
) -> _Speculation:
    """The best of all match lengths in one corpus, or `best` where none has a higher score."""
    occurrences = [np.flatnonzero(tokens == suffix[-1]) + 1]
    while len(occurrences) < len(suffix):
        length = len(occurrences)
        starts = occurrences[-1] - length - 1
        agrees = (starts >= 0) & (tokens[starts] == suffix[-length - 1])
        longer = occurrences[-1][agrees]
        if not len(longer):
            break
        occurrences.append(longer)
    for length in range(len(occurrences), 0, -1):
        positions = occurrences[length - 1]
        size = min(int(length * SPECULATION_FACTOR), limits.max_width - 1)
        if size <= best.score:
            break  # shorter matches have no room for more
        if length < len(occurrences) and len(occurrences[length]) == len(positions):
            continue  # the longer match occurs at the same places and has more room
        nodes = _grow(tokens, positions, size, limits)
        score = sum(probability for _, _, probability, _ in nodes)
        if score > best.score:
            best = _Speculation(nodes, score, length, is_own)
    return best


def _grow(
    tokens: IntArray, positions: IntArray, size: int, limits: DraftLimits
) -> list[tuple[int, int, float, int]]:
    """Take the likeliest node that follows the occurrences, again and again."""
    nodes: list[tuple[int, int, float, int]] = []
    ticket = count()  # of equally likely nodes, the one found first
    frontier: list[tuple[float, int, int, int, int, IntArray]] = []
    parent, probability, depth = -1, 1.0, 0
    while True:
        if depth < limits.max_depth:
            for token_id, group in _following(tokens, positions):
                reached = probability * len(group) / len(positions)
                if reached >= MIN_PROBABILITY and token_id not in limits.excluded_ids:
                    entry = (-reached, next(ticket), token_id, parent, depth + 1, group)
                    heappush(frontier, entry)
        if not frontier or len(nodes) >= size:
            return nodes
        negated, _, token_id, above, depth, positions = heappop(frontier)
        parent, probability = len(nodes), -negated
        nodes.append((above, token_id, probability, int(positions[-1])))
        positions = positions + 1


def _following(tokens: IntArray, positions: IntArray) -> list[tuple[int, IntArray]]:
    """The occurrences by the token that stands there, most frequent first, then latest."""
    if len(positions) == 1:
        position = int(positions[0])
        at_end = position >= len(tokens) or tokens[position] == BORDER
        return [] if at_end else [(int(tokens[position]), positions)]
    inside = positions[positions < len(tokens)]
    found = tokens[inside]
    distinct, counts = np.unique(found, return_counts=True)
    likely = counts >= MIN_PROBABILITY * len(positions)
    groups = [
        (token_id, inside[found == token_id])
        for token_id in distinct[likely].tolist()
        if token_id != BORDER
    ]
    return sorted(groups, key=lambda item: (-len(item[1]), -int(item[1][-1])))
