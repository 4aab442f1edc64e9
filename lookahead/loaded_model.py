"""A loaded model as the decode loop knows it: the stock model and what the self-tests found."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from lookahead.adapter import ModelAdapter
from lookahead.config import SamplingConfig
from lookahead.errors import UnsupportedModeError
from lookahead.learned import Learned
from lookahead.self_test import MAX_PROBED_ROWS
from lookahead.strictness import Strictness

__all__ = ["LoadedModel"]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to decode.

    Attributes:
        hf_model: the library's model. Its own `generate()` works as ever: where its layers are
            packed, to the same bits, or up to rounding where strict mode cannot have those bits.
        tokenizer: the library's tokenizer; None for a wrapped model.
        path: folder of the weights.
        name: what the caller asked for.
        context_length: tokens of prompt and answer together, at most.
        end_token_ids: tokens that end an answer.
        mode: "strict", "flexible" or "plain", where no other is asked for.
        mode_reason: one sentence for people: why.
        find_strictness: measures how strict mode is kept, the first time that it is asked for.
        fingerprint: of weights and their layout, dtype, device, threads and versions: for what is
            measured.
        model_fingerprint: of weights and dtype alone: for what is learned of its words.
        tokenizer_fingerprint: models with the same one can share a Trie.
        vocab_size: number of logits.
        learned: what drafting has learned about this model.
        is_packed: the weights are laid out for the CPU's kernels.
    """

    hf_model: PreTrainedModel
    tokenizer: Tokenizer | None
    path: Path
    name: str
    adapter: ModelAdapter
    context_length: int
    end_token_ids: frozenset[int]
    mode: str
    mode_reason: str
    find_strictness: Callable[[ModelAdapter, int, int], Strictness]
    fingerprint: str
    model_fingerprint: str
    tokenizer_fingerprint: str
    vocab_size: int
    learned: Learned
    is_packed: bool = False

    @property
    def device(self) -> torch.device:
        """Where the model's inputs go."""
        return self.adapter.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.adapter.dtype

    @property
    def can_roll_back(self) -> bool:
        """Whether drafted tokens can be verified and dropped: all but plain mode."""
        return self.mode != "plain"

    @cached_property
    def strictness(self) -> Strictness:
        """How strict mode is kept with this model, measured on first use."""
        return self.find_strictness(self.adapter, self.vocab_size, self.default_max_rows)

    @property
    def is_stock(self) -> bool:
        """Whether strict mode's greedy text is that of the library's own `generate()`."""
        return self.mode == "strict" and self.strictness.is_stock

    @property
    def default_max_rows(self) -> int:
        """Rows of one forward at most: as many as the self-test compares."""
        return MAX_PROBED_ROWS

    @property
    def default_sampling(self) -> SamplingConfig:
        """How its makers would have it sampled; greedy where they say nothing."""
        return SamplingConfig.from_generation_config(self.hf_model.generation_config)

    def row_class(self, strict: bool | None) -> tuple[int, ...]:
        """Row counts to decode with in strict mode; empty: flexible or plain.

        Args:
            strict: whether it is to be strict; None: as the model was loaded.

        Raises:
            UnsupportedModeError: strict mode was asked for and is not to be had.
        """
        if strict is None:
            strict = self.mode == "strict"
        if not strict:
            return ()
        problem = self.strictness.problem if self.can_roll_back else self.mode_reason
        if problem:
            raise UnsupportedModeError(f"{problem} Use flexible mode: strict=False.")
        return self.strictness.row_class

    def mode_name(self, *, strict: bool) -> str:
        """Name of the mode an answer runs in."""
        if not self.can_roll_back:
            return "plain"
        return "strict" if strict else "flexible"
