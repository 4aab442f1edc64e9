"""Drafts nothing: plain decoding, the baseline of every comparison."""

from collections.abc import Sequence

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.drafters.protocol import NoHistory
from lookahead.drafters.tree_builder import TreeBuilder
from lookahead.request_view import RequestView

__all__ = ["NoneDrafter"]


class NoneDrafter(NoHistory):
    """The root alone, always."""

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        return TreeBuilder(request, limits).build()

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. There is nothing to learn."""
