"""A drafter for tests: random trees into which the text to come is woven now and then."""

import random
from collections.abc import Sequence

from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.request_view import RequestView


class OracleDrafter:
    """Knows what will be said, and hides it among random tokens, on any branch."""

    reads_rows = False

    def __init__(self, whole: Sequence[int], vocab_size: int, seed: int) -> None:
        self._whole = list(whole)
        self._vocab_size = vocab_size
        self._random = random.Random(seed)

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        """A tree in depth-first order; siblings differ; about half the levels hold the truth."""
        token_ids, parents = [int(request.token_ids[-1])], [-1]
        length = len(request)

        def grow(parent: int, depth: int, is_true: bool) -> None:
            if depth >= limits.max_depth:
                return
            at = length + depth
            truth = self._whole[at] if is_true and at < len(self._whole) else None
            siblings = self._random.sample(range(self._vocab_size), self._random.randint(0, 3))
            if truth is not None and truth not in siblings and self._random.random() < 0.8:
                siblings.insert(self._random.randint(0, len(siblings)), truth)
            for token_id in siblings:
                if len(token_ids) >= limits.max_width or token_id in limits.excluded_ids:
                    continue
                token_ids.append(token_id)
                parents.append(parent)
                grow(len(token_ids) - 1, depth + 1, token_id == truth)

        grow(0, 0, is_true=True)
        width = len(token_ids)
        return DraftTree(
            token_ids=tuple(token_ids),
            parents=tuple(parents),
            sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * (width - 1)),
            probabilities=(1.0, *[0.5] * (width - 1)),
            positions=(-1,) * width,
        )

    def observe(self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: object) -> None:
        """Learns nothing."""
