"""What the stores take and give: frozen dataclasses, one per kind of row.

Knows no SQL. Times are aware datetimes in UTC. A `tokenizer_id` is the row id of a tokenizer
(`Tokenizers.ensure`): token ids mean something only together with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from storage.token_blobs import TokenIds

__all__ = [
    "ERASED_TOKEN_ID",
    "UNKNOWN_OFFSET",
    "AnswerStatus",
    "AnswerTotals",
    "Conversation",
    "DeeperReading",
    "DeletedKind",
    "Deletion",
    "DocumentMatch",
    "DocumentPassage",
    "DraftOrigin",
    "DraftRecord",
    "FinalStatus",
    "GenerationRecord",
    "Message",
    "NewSequence",
    "Role",
    "SequenceOrigin",
    "SequenceRecord",
    "Source",
    "SourceKind",
    "StepRecord",
]

Role = Literal["user", "assistant"]
FinalStatus = Literal["complete", "stopped", "failed"]
AnswerStatus = Literal["streaming", "complete", "stopped", "failed"]
SourceKind = Literal["history", "document"]
DeletedKind = Literal["conversation", "document"]

ERASED_TOKEN_ID = -1  # of a drafted token that was taken from something deleted since

UNKNOWN_OFFSET = -1  # of a drafted token that is a sequence's, or its document's, but not as it is

# (sequence id, offset in it) for history and documents; a position of the conversation's own
# tokens for prompt and output; None for what has no place (recycled, the root)
DraftOrigin = tuple[int, int] | int | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat. `current_message_id` is the leaf of the branch shown; None: the newest message."""

    id: int
    title: str
    current_message_id: int | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Deletion:
    """A chat, or documents, deleted in one go, which can still be brought back.

    Args:
        name: the chat's title, or the name of the first document.
    """

    kind: DeletedKind
    ids: tuple[int, ...]
    name: str
    deleted_at: datetime


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. User messages are always complete and carry no token ids.

    Args:
        token_ids: of an answer, exactly as the model emitted them.
        tokenizer_id: what they mean; None: unknown, so they must not be spliced into a prompt.
        error: why the answer failed, in one sentence for people.
    """

    id: int
    conversation_id: int
    parent_id: int | None
    role: Role
    status: AnswerStatus
    text: str
    token_ids: tuple[int, ...]
    tokenizer_id: int | None
    error: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NewSequence:
    """A sequence to be saved with an answer."""

    tokenizer_id: int
    token_ids: TokenIds


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """The draft tree of a step: what each node is, root first; parents by node index, -1: none.

    A token id may be ERASED_TOKEN_ID, those of the node's descendants are then too.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    sources: tuple[str, ...]
    probabilities: tuple[float, ...]
    origins: tuple[DraftOrigin, ...]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One decode step of an answer; `index` counts from 0, the words are those of the glossary.

    Args:
        text_lengths: characters that each emitted token completed; empty where that was not
            recorded. With those of the first token they add up to the answer's text.
        paused: no draft was made since it would not have paid.
    """

    index: int
    width: int
    rows: int
    accepted_length: int
    match_length: int
    token_ids: tuple[int, ...]
    accepted_nodes: tuple[int, ...]
    draft: DraftRecord
    seconds: float
    draft_seconds: float
    text_lengths: tuple[int, ...] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRecord:
    """How an answer came about: settings, counters and times.

    The counters carry the names of the engine's statistics, the settings those of its sampling;
    `top_k` 0, `top_p` 1, `min_p` 0 and `repetition_penalty` 1 are off. `reason` is "" of an answer
    that is being written, or was when its program ended. `id` and `message_id` are None until the
    record is read back.
    """

    reason: str
    model: str
    mode: str
    dtype: str
    device: str
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
    num_tokens: int = 0
    num_end_tokens: int = 0
    num_cut_tokens: int = 0
    num_drafted_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    draft_seconds: float = 0.0
    id: int | None = None
    message_id: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """Counters of all answers together, under the names of the engine's statistics."""

    num_answers: int
    num_tokens: int
    num_steps: int
    num_drafted_tokens: int
    num_accepted_tokens: int
    accepted_by_source: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Source:
    """Where sequences come from: a document, or the history of one conversation.

    Args:
        uri: of a document, where it was read from; `sha256` is that of its content.
        num_tokens: tokens of all its sequences, under the tokenizer that has most of them.
        is_pinned: a budget never takes it out of the index.
    """

    id: int
    kind: SourceKind
    conversation_id: int | None
    name: str
    uri: str
    sha256: str | None
    num_characters: int
    num_tokens: int
    is_pinned: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DeeperReading:
    """How far a model has read a document: `num_read` of the `num_tokens` of its sequence."""

    source_id: int
    sequence_id: int
    num_tokens: int
    num_read: int


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A document that holds words looked for, with an excerpt."""

    source_id: int
    name: str
    uri: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A passage of a document: its text stands there from character `start` to `end`."""

    source_id: int
    name: str
    uri: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """A sequence without its tokens."""

    id: int
    source_id: int
    tokenizer_id: int
    kind: SourceKind
    message_id: int | None
    num_tokens: int


@dataclass(frozen=True, slots=True)
class SequenceOrigin:
    """Where a sequence comes from, in words for people.

    Documents have `name` and `uri`; history has `conversation_id`, `message_id` (the answer) and
    the conversation's title as `name`.
    """

    sequence_id: int
    source_id: int
    kind: SourceKind
    name: str
    uri: str
    conversation_id: int | None
    message_id: int | None
