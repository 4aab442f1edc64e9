"""What the page and the API are shown: frozen pictures of the engine, of answers and of imports.

Knows no database, no model and no page. Made by the jobs and the chat service, read by handlers,
presenters and the HTTP API.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from app.services.trie_budget import DEFAULT_BUDGET_BYTES
from lookahead.config import SAMPLING_RANGES, SamplingConfig
from lookahead.events import GenerationStats
from storage.records import DocumentPassage, StepRecord

__all__ = [
    "ANSWER_OVER",
    "ENDINGS",
    "IMPORT_OVER",
    "UNTITLED",
    "AnswerNumbers",
    "AnswerOptions",
    "AnswerSnapshot",
    "AnswerStatus",
    "ChatMessage",
    "Completion",
    "EngineState",
    "EngineStatus",
    "ImportSnapshot",
    "ImportStatus",
    "ServiceConfig",
]

EngineStatus = Literal["preparing", "loading", "ready", "failed"]
AnswerStatus = Literal["queued", "prefill", "decoding", "complete", "stopped", "failed"]
ImportStatus = Literal["waiting", "running", "complete", "cancelled", "failed"]

ANSWER_OVER = frozenset({"complete", "stopped", "failed"})
UNTITLED = "New chat"
ENDINGS = {  # by reason, those that are worth telling
    "length": "ended at the token limit",
    "context": "ended where the context is full",
}
IMPORT_OVER = frozenset({"complete", "cancelled", "failed"})


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """What the chat service is started with.

    Args:
        data_dir: folder of the database. `cache_dir`: folder of what can be made again.
        model: a folder, a hub id or a known name.
        strict: True, False, or None for what suits the device and dtype.
        context_length: tokens of context to use at most; None: all the model has.
        trie_budget_bytes: memory that the Trie may take; the oldest history leaves it first.
        can_answer: False for imports alone: no weights are loaded, and answers that a running
            server is writing are left alone.
        idle_learning: whether the model may prepare drafts while nothing is asked.
    """

    data_dir: Path
    cache_dir: Path
    model: str = "smollm2-135m"
    device: str = "auto"
    dtype: str = "auto"
    strict: bool | None = None
    context_length: int | None = None
    trie_budget_bytes: int = DEFAULT_BUDGET_BYTES
    can_answer: bool = True
    idle_learning: bool = True


@dataclass(frozen=True, slots=True)
class EngineState:
    """Where the model stands; `detail` is one sentence for people.

    Args:
        background: what is done while nothing is asked, and how far it is; empty: nothing.
    """

    status: EngineStatus
    detail: str
    model: str
    mode: str = ""
    mode_reason: str = ""
    background: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether questions are answered at once."""
        return self.status == "ready"


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How one answer is made.

    Args:
        temperature, top_k, top_p, min_p, repetition_penalty: see `lookahead.SamplingConfig`; None:
            what the model's generation config says, greedy where it says nothing.
        seed: of the sampling; None: one is drawn.
        stop: texts before which the answer ends.
    """

    lookahead: bool = True
    temperature: float | None = None
    max_new_tokens: int = 1024
    seed: int | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop: tuple[str, ...] = ()

    def sampling(self, generation_config: object = None) -> SamplingConfig:
        """What was asked for, for the rest what the model says. Raises InvalidRequestError."""
        asked = {name: getattr(self, name) for name in SAMPLING_RANGES}
        asked = {name: value for name, value in asked.items() if value is not None}
        return SamplingConfig.from_generation_config(generation_config, seed=self.seed, **asked)


@dataclass(frozen=True, slots=True)
class AnswerNumbers:
    """The numbers of an answer, of a running one or of a saved one.

    Args:
        accepted_by_source: accepted drafted tokens by source, before any cut at the end.
        prefill_seconds: time of the prefill, which gives the first token.
    """

    num_tokens: int
    num_steps: int
    num_forwards: int
    tokens_per_second: float
    tokens_per_step: float
    acceptance_rate: float
    reused_length: int
    prefilled_length: int
    mode: str = ""
    seed: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    reason: str = ""
    num_end_tokens: int = 0
    num_drafted_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    draft_seconds: float = 0.0

    @property
    def drafting_share(self) -> float:
        """Time of drafting / time of decoding; 0 before the first step."""
        return self.draft_seconds / self.decode_seconds if self.decode_seconds else 0.0

    @property
    def num_steps_saved(self) -> int:
        """Decode steps fewer than plain decoding takes, which is one a token but the first."""
        return max(0, self.num_tokens + self.num_end_tokens - 1 - self.num_steps)

    @classmethod
    def from_stats(cls, stats: GenerationStats, reason: str = "") -> "AnswerNumbers":
        """The numbers of the engine's counters, finished or not."""
        return cls(
            num_tokens=stats.num_tokens,
            num_steps=stats.num_steps,
            num_forwards=stats.num_forwards,
            tokens_per_second=stats.tokens_per_second,
            tokens_per_step=stats.tokens_per_step,
            acceptance_rate=stats.acceptance_rate,
            reused_length=stats.reused_length,
            prefilled_length=stats.prefilled_length,
            mode=stats.mode,
            seed=stats.seed,
            temperature=stats.temperature,
            top_k=stats.top_k,
            top_p=stats.top_p,
            min_p=stats.min_p,
            repetition_penalty=stats.repetition_penalty,
            reason=reason,
            num_end_tokens=stats.num_end_tokens,
            num_drafted_tokens=stats.num_drafted_tokens,
            num_accepted_tokens=stats.num_accepted_tokens,
            accepted_by_source={
                str(source): count for source, count in stats.accepted_by_source.items()
            },
            prefill_seconds=stats.prefill_seconds,
            decode_seconds=stats.decode_seconds,
            draft_seconds=stats.draft_seconds,
        )


@dataclass(frozen=True, slots=True)
class AnswerSnapshot:
    """An answer as it stands now; everything in it is cumulative, so snapshots may be missed.

    Args:
        version: grows with every change; give it to `wait_for_change`. Of a saved answer, above
            that of any running one.
        steps: with the characters that each token completed; those of the first token, which no
            step emitted, are what is missing from the text.
        notice: one sentence about what was done to make it fit ("" where nothing was).
        error: one sentence, set where `status` is "failed".
        is_stopping: somebody asked it to end; the model is asked whether to between two forwards.
        passages: what was quoted from documents for it.
    """

    version: int
    conversation_id: int
    message_id: int
    status: AnswerStatus
    text: str = ""
    numbers: AnswerNumbers | None = None
    steps: tuple[StepRecord, ...] = ()
    notice: str = ""
    error: str = ""
    is_stopping: bool = False
    passages: tuple[DocumentPassage, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ANSWER_OVER

    @property
    def first_text_length(self) -> int:
        """Characters of the first token: those that no step emitted."""
        return len(self.text) - sum(sum(step.text_lengths) for step in self.steps)

    @property
    def is_split(self) -> bool:
        """Whether it is known what text each token stands for: in old answers it may not be."""
        return not self.is_over or all(
            step.text_lengths or not step.token_ids for step in self.steps
        )


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A saved message of the conversation's current branch.

    Args:
        role: "user" or "assistant".
        status: "streaming" (a job is writing it), "complete", "stopped" or "failed".
        numbers: of an answer that was finished; None for the user's messages.
        error: why an answer failed, in one sentence.
        passages: what was quoted from documents for an answer; those deleted since are left out.
    """

    id: int
    conversation_id: int
    role: str
    text: str
    status: str
    numbers: AnswerNumbers | None = None
    error: str = ""
    passages: tuple[DocumentPassage, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer to `/v1`: not saved, not part of the history."""

    text: str
    prompt_length: int
    num_tokens: int
    reason: str  # a value of lookahead.events.FinishReason
    model: str
    numbers: AnswerNumbers


@dataclass(frozen=True, slots=True)
class ImportSnapshot:
    """An import as it stands now, cumulative.

    Args:
        num_files_done: files looked at; `num_files_total`: files found so far.
        num_documents: files that were taken in. `num_tokens`: tokens in them.
        skipped: (path, reason) of each file that was not taken in; the paths are displayable.
        current: displayable path of the file being read.
        num_unchanged: files whose content had been taken in before, under whatever name.
        num_dropped: earlier versions of files that were deleted, which can be undone.
        num_bytes_total: their sizes, once all are found.
        seconds_left: about how long it will still take; None: not known (yet).
    """

    version: int
    status: ImportStatus
    num_files_done: int = 0
    num_files_total: int = 0
    num_documents: int = 0
    num_tokens: int = 0
    skipped: tuple[tuple[str, str], ...] = field(default=())
    current: str = ""
    error: str = ""
    num_unchanged: int = 0
    num_dropped: int = 0
    num_bytes_total: int = 0
    seconds_left: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status in IMPORT_OVER
