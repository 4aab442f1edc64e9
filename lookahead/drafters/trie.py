"""This project's own drafter with its stores, and what is left of it without any.

DESIGN: own context first, then history, then recycled successors. Nothing differs from what
`lookahead.generate(trie=...)` drafts with the same stores.
"""

from collections.abc import Collection, Sequence

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.drafters.protocol import NoHistory
from lookahead.learned import Learned
from lookahead.request_view import RequestView
from lookahead.trie import Trie

__all__ = ["OwnContextLearner", "TrieLearner"]


class TrieLearner:
    """The stores are the caller's: what it learns stays in them."""

    reads_rows = True

    def __init__(
        self,
        trie: Trie,
        learned: Learned,
        masked_sequence_ids: Collection[int] = frozenset(),
    ) -> None:
        self._trie = trie
        self._learned = learned
        self._masked_sequence_ids = masked_sequence_ids
        self.begin(())

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        return self._drafter.draft(request, limits)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`."""
        self._drafter.observe(draft, accepted_nodes, top_ids)

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """See `Learner`. As in the loop, an answer has a drafter of its own."""
        self._drafter = TrieDrafter(self._trie, self._learned, self._masked_sequence_ids)

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        """See `Learner`. Prompt rows feed the table as verified rows do."""
        if top_ids is not None:
            previous_ids = [-1, *token_ids[:-1]]
            self._learned.successors.update(token_ids, top_ids, previous_ids)

    def remember(self, token_ids: Sequence[int]) -> None:
        """See `Learner`."""
        self._trie.add(token_ids)
        if self._trie.needs_sealing:
            self._trie.seal()


class OwnContextLearner(NoHistory):
    """The same drafter on the request's own tokens: no history, no recycled successors."""

    def __init__(self) -> None:
        self._drafter = TrieDrafter(None, None)

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        return self._drafter.draft(request, limits)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. Nothing is kept."""
