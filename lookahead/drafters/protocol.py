"""What a benchmark needs of a drafter beyond drafting: that requests begin and end.

Knows token ids only. Kept by every drafter of this package; called by replay and live bench, which
alone know what a request is. `lookahead.generate` calls `draft` and `observe` only, so a drafter
never relies on `begin` for being right: it reads the request it is given.
"""

from collections.abc import Sequence
from typing import Protocol

from lookahead.candidates import IntArray
from lookahead.drafter import Drafter

__all__ = ["Learner", "NoHistory"]


class Learner(Drafter, Protocol):
    """A drafter told of everything a decoding service would know anyway."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """A new request begins: what was kept of the last request's own context is dropped.

        Work over the prompt happens here, as in a prefill. What the method shares between requests
        by design (a history, a table of the model's own choices) stays.
        """

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        """The prompt's rows have been computed.

        Args:
            token_ids: [n] the prompt.
            top_ids: [n, 8] the model's likeliest next tokens at each of them; None: not computed.
        """

    def remember(self, token_ids: Sequence[int]) -> None:
        """A finished conversation, prompt and answer, becomes history where the method has one."""


class NoHistory:
    """The part of `Learner` of a method that reads nothing but the request before it."""

    reads_rows = False

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """See `Learner`. Nothing is kept."""

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        """See `Learner`. Nothing is kept."""

    def remember(self, token_ids: Sequence[int]) -> None:
        """See `Learner`. Nothing is kept."""
