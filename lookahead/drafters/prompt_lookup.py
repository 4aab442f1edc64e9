"""Prompt lookup: copy what followed an earlier occurrence of the last tokens.

Prompt Lookup Decoding (A. Saxena, 2023) as transformers 5 runs it behind
`generate(prompt_lookup_num_tokens=10)`: the n-gram at the end of the context is searched in all of
it, from `max_matching_ngram_size=2` down to 1; the *leftmost* occurrence is followed for 10 tokens,
cut at the end of the context and at an end of sequence. The original had n = 3, which is the name
`prompt-lookup-3`. Nothing differs but that the copy also stops at the width allowed.
"""

from collections.abc import Sequence

import numpy as np

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.drafters.protocol import NoHistory
from lookahead.drafters.tree_builder import TreeBuilder
from lookahead.request_view import RequestView

__all__ = ["PromptLookupDrafter"]

NUM_OUTPUT_TOKENS = 10
MAX_NGRAM_LENGTH = 2


class PromptLookupDrafter(NoHistory):
    """One branch from the leftmost earlier occurrence; reads the request only."""

    def __init__(
        self, max_ngram_length: int = MAX_NGRAM_LENGTH, num_output_tokens: int = NUM_OUTPUT_TOKENS
    ) -> None:
        self._max_ngram_length = max_ngram_length
        self._num_output_tokens = num_output_tokens

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        tree = TreeBuilder(request, limits)
        tokens = request.token_ids
        for length in range(min(self._max_ngram_length, len(tokens) - 1), 0, -1):
            start = _leftmost_continuation(tokens, length)
            if start is not None:
                end = min(start + self._num_output_tokens, len(tokens))
                tree.quote(request, range(start, end))
                return tree.build(length)
        return tree.build()

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. Nothing is kept."""


def _leftmost_continuation(tokens: IntArray, length: int) -> int | None:
    """Where the first earlier occurrence of the last `length` tokens ends, if there is one."""
    num_starts = len(tokens) - length  # the n-gram at the very end has nothing behind it
    matches = tokens[:num_starts] == tokens[-length]
    for at in range(1, length):
        matches &= tokens[at : num_starts + at] == tokens[at - length]
    first = int(np.argmax(matches))
    return first + length if matches[first] else None
