"""ANPD: an n-gram model of this very context, grown while decoding, says what comes next.

"Lossless Acceleration of Large Language Model via Adaptive N-gram Parallel Decoding", arXiv
2404.08698, §3: an n-gram module (the N − 1 tokens before are the key) filled from the prompt and
updated with every accepted token; multi-level: N first, then shorter keys down to one token; N = 5
and K = 6 drafted tokens, each predicted behind the ones drafted before it.

Where the paper leaves it open, the most frequent next token is predicted and, among equally
frequent ones, the latest: the n-gram estimate, made adaptive. Nothing outlives a request.
"""

from collections.abc import Iterable, Sequence

from lookahead.candidates import IntArray
from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.drafters.own_context import OwnContext, prompt_of
from lookahead.drafters.protocol import NoHistory
from lookahead.drafters.tree_builder import TreeBuilder
from lookahead.request_view import RequestView

__all__ = ["ANPDDrafter"]

MAX_NGRAM_LENGTH = 5  # N
NUM_DRAFTED_TOKENS = 6  # K


class _NGrams:
    """Next tokens by the tokens before them, for every key length up to N − 1."""

    def __init__(self) -> None:
        self._before: tuple[int, ...] = ()
        self._length = 0
        self._counts: dict[tuple[int, ...], dict[int, int]] = {}
        self._best: dict[tuple[int, ...], tuple[int, int]] = {}  # token and where it stood last

    def extend(self, token_ids: Iterable[int]) -> None:
        """Learn tokens that follow those learned before."""
        for token_id in token_ids:
            for start in range(len(self._before)):
                key = self._before[start:]
                counts = self._counts.setdefault(key, {})
                counts[token_id] = counts.get(token_id, 0) + 1
                best = self._best.get(key)
                if best is None or counts[token_id] >= counts[best[0]]:
                    self._best[key] = (token_id, self._length)
            self._before = (*self._before, token_id)[1 - MAX_NGRAM_LENGTH :]
            self._length += 1

    def predict(self, before: tuple[int, ...]) -> tuple[int, int, int] | None:
        """The next token by the longest known key, where it stood last, and that key's length."""
        for start in range(len(before)):
            best = self._best.get(before[start:])
            if best is not None:
                return *best, len(before) - start
        return None


class ANPDDrafter(NoHistory):
    """One branch, predicted token by token."""

    def __init__(self) -> None:
        self._context = OwnContext()
        self._ngrams = _NGrams()

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """See `Drafter`. Raises ValueError for an empty request."""
        tree = TreeBuilder(request, limits)
        fresh = self._context.follow(request)
        if fresh is None:
            self.begin(prompt_of(request).tolist())
            fresh = self._context.follow(request) or []
        self._ngrams.extend(fresh)
        before: tuple[int, ...] = tuple(request.token_ids[1 - MAX_NGRAM_LENGTH :].tolist())
        positions: list[int] = []
        match_length = 0
        while len(positions) < NUM_DRAFTED_TOKENS:
            predicted = self._ngrams.predict(before)
            if predicted is None:
                break
            token_id, position, length = predicted
            match_length = match_length or length
            positions.append(position)
            before = (*before, token_id)[1 - MAX_NGRAM_LENGTH :]
        tree.quote(request, positions)
        return tree.build(match_length)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        """See `Drafter`. What was accepted is read from the request at the next draft."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """See `Learner`. A new module, filled from the prompt."""
        self._context.begin(prompt_ids)
        self._ngrams = _NGrams()
        self._ngrams.extend(self._context.prompt_ids.tolist())
