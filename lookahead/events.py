"""What a generation tells its caller while it runs: one event a forward, then `Finished`.

The `token_ids` of `PrefillDone` and of every `StepDone`, joined, are those of `Finished`, except
where a stop rule took back tokens of earlier steps: `Finished` is then shorter.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from lookahead.draft import DraftTree, TokenSource

__all__ = ["Event", "FinishReason", "Finished", "GenerationStats", "PrefillDone", "StepDone"]


class FinishReason(StrEnum):
    """Why a generation ended."""

    END = "end"  # the model emitted an end-of-sequence token
    STOP = "stop"  # a stop string or stop id
    LENGTH = "length"  # max_new_tokens reached
    CONTEXT = "context"  # the model's context is full
    CANCELLED = "cancelled"  # the caller asked to stop


@dataclass(frozen=True, slots=True)
class PrefillDone:
    """The prompt is in the KV cache and the first token is known.

    Args:
        token_ids: the first token; empty if it ends the answer.
        reused_length: prompt tokens whose KV was kept from the session.
        prefilled_length: prompt tokens run now.
        num_chunks: forwards that took.
        seconds: time of the whole prefill.
    """

    token_ids: tuple[int, ...]
    reused_length: int
    prefilled_length: int
    num_chunks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepDone:
    """One draft–verify–accept round, that is one forward.

    Args:
        token_ids: tokens emitted, accepted ones first, the bonus token last; the end token and
            tokens cut off by a stop string are left out.
        accepted_length: drafted tokens accepted, bonus excluded, before any cut.
        accepted_nodes: their node indexes in `draft`, in order.
        width: nodes verified, root included. `rows` counts padding too.
        draft: the tree that was verified.
        seconds: the whole step.
        draft_seconds: drafting in it: looking for drafts, and learning from the verified rows.
        paused: nothing drafted was verified, since it would not have paid.
    """

    token_ids: tuple[int, ...]
    accepted_length: int
    accepted_nodes: tuple[int, ...]
    width: int
    rows: int
    draft: DraftTree
    match_length: int
    seconds: float
    draft_seconds: float
    paused: bool = False


@dataclass(slots=True)
class GenerationStats:
    """Settings and counters of one generation; times in seconds. Prefill is not a decode step."""

    mode: str = "plain"  # plain | strict | flexible
    seed: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    prompt_length: int = 0
    reused_length: int = 0
    prefilled_length: int = 0
    num_prefill_chunks: int = 0
    num_steps: int = 0
    num_tokens: int = 0  # emitted
    num_end_tokens: int = 0
    num_cut_tokens: int = 0
    num_drafted_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_by_source: Counter[TokenSource] = field(default_factory=Counter)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    draft_seconds: float = 0.0

    def count_step(self, step: StepDone) -> None:
        """Add one decode step."""
        self.num_steps += 1
        self.num_drafted_tokens += step.width - 1
        self.num_accepted_tokens += step.accepted_length
        self.accepted_by_source.update(step.draft.sources[node] for node in step.accepted_nodes)
        self.decode_seconds += step.seconds
        self.draft_seconds += step.draft_seconds

    @property
    def num_forwards(self) -> int:
        """Forward passes of the model: prefill chunks and decode steps."""
        return self.num_prefill_chunks + self.num_steps

    @property
    def tokens_per_step(self) -> float:
        """Mean accepted length + 1 over decode steps (MAT); 1.0 is no gain."""
        return 1.0 + self.num_accepted_tokens / self.num_steps if self.num_steps else 1.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted drafted tokens / drafted tokens; 0 where nothing was drafted."""
        if not self.num_drafted_tokens:
            return 0.0
        return self.num_accepted_tokens / self.num_drafted_tokens

    @property
    def tokens_per_second(self) -> float:
        """Tokens that decode steps emitted, per second of decoding; the first is prefill's."""
        decoded = max(0, self.num_tokens - 1)
        return decoded / self.decode_seconds if self.decode_seconds else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The generation is over.

    Args:
        token_ids: all tokens as emitted, end of sequence and cut tokens excluded.
    """

    token_ids: tuple[int, ...]
    reason: FinishReason
    stats: GenerationStats


Event = PrefillDone | StepDone | Finished
