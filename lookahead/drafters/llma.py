"""LLMA: copy from a reference what follows the answer's last tokens there.

"Inference with Reference: Lossless Acceleration of Large Language Models", arXiv 2304.04487, §2,
with the constants of its published program: a match of n = 5 down to 1 tokens triggers (`--n 1`,
five at most), the first occurrence of the longest is followed, k = 20 tokens a step are verified:
the last one said and 19 copied. Matched are tokens of the answer only, and the answer itself is no
reference, which is what sets it apart from prompt lookup.

What differs: the paper is given its references by a search engine, a cache of similar requests or
the chat. Here they are the prompt, in which documents stand, and then every remembered answer,
latest first: there is no measure of similarity to choose among them.
"""

from collections.abc import Sequence

import numpy as np

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.own_context import OwnContext, prompt_of
from lookahead.drafters.protocol import NoHistory
from lookahead.drafters.tree_builder import TreeBuilder
from lookahead.request_view import RequestView

__all__ = ["LLMADrafter"]

MAX_MATCH_LENGTH = 5
COPY_LENGTH = 20
BORDER = -1


class LLMADrafter(NoHistory):
    """One branch from the first reference that fits; history is what was answered before."""

    def __init__(self) -> None:
        self._context = OwnContext()
        self._history: list[IntArray] = []  # latest first
        self._references: IntArray = np.empty(0, np.int32)

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        tree = TreeBuilder(request, limits)
        if self._context.follow(request) is None:
            self.begin(prompt_of(request).tolist())
            self._context.follow(request)
        found = self._first_match(self._context.answer_ids[-MAX_MATCH_LENGTH:])
        if found is None:
            return tree.build()
        start, length = found
        prompt_length = self._context.prompt_length
        if start < prompt_length:
            tree.quote(request, range(start, min(start + COPY_LENGTH - 1, prompt_length)))
        else:
            copied = self._references[start : start + COPY_LENGTH - 1].tolist()
            end = copied.index(BORDER) if BORDER in copied else len(copied)
            tree.add_branch(copied[:end], TokenSource.HISTORY)
        return tree.build(length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. Nothing is kept."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """See `Learner`. The prompt becomes the first reference."""
        self._context.begin(prompt_ids)
        prompt = np.array([*prompt_ids, BORDER], np.int32)
        self._references = np.concatenate((prompt, *self._history))

    def remember(self, token_ids: Sequence[int]) -> None:
        """See `Learner`. The answer becomes a reference of later requests."""
        answer = self._context.answer_in(token_ids)
        self._history.insert(0, np.array([*answer, BORDER], np.int32))
        self.begin([])

    def _first_match(self, suffix: IntArray) -> tuple[int, int] | None:
        """Where the first occurrence of the longest match ends, and its length."""
        if not len(suffix):
            return None
        ends = np.flatnonzero(self._references == suffix[-1]) + 1
        length = 1
        while len(ends) and length < len(suffix):
            starts = ends - length - 1
            longer = ends[(starts >= 0) & (self._references[starts] == suffix[-length - 1])]
            if not len(longer):
                break
            ends = longer
            length += 1
        return (int(ends[0]), length) if len(ends) else None
