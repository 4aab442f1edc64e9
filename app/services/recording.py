"""The engine's words as rows and back: what is written down about an answer, and how it is shown.

Pure functions. Used by the answer task, the chat service and the saved answers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from app.services.views import AnswerNumbers, ChatMessage
from lookahead.draft import DraftTree, TokenSource, quoted_position
from lookahead.events import GenerationStats, StepDone
from lookahead.trie import Trie
from storage.erasures import erased_token_ids
from storage.records import (
    DocumentPassage,
    DraftOrigin,
    DraftRecord,
    GenerationRecord,
    Message,
    StepRecord,
)

__all__ = [
    "answer_numbers",
    "chat_message",
    "generation_record",
    "settled",
    "step_record",
]

_STATS_FIELDS = tuple(field.name for field in fields(GenerationStats))


def step_record(
    index: int,
    step: StepDone,
    text_lengths: Sequence[int],
    trie: Trie,
    quoted: Callable[[int], tuple[int, int] | None] = lambda index: None,
) -> StepRecord:
    """A step as it is saved, each drafted token with its place in a sequence of the database.

    A rejected token whose place is not there any more is left out: what it was taken from may be
    deleted.

    Args:
        text_lengths: characters that each of its tokens completed.
        quoted: sequence and offset of a prompt's token that is quoted from a document.
    """
    draft = step.draft
    origins: list[DraftOrigin] = []
    are_gone = []
    for node in range(draft.width):
        try:
            origins.append(_origin(draft, node, trie, quoted))
            are_gone.append(False)
        except KeyError:  # forgotten since it was drafted
            origins.append(None)
            are_gone.append(True)
    token_ids = erased_token_ids(draft.token_ids, draft.parents, are_gone, step.accepted_nodes)
    return StepRecord(
        index=index,
        width=step.width,
        rows=step.rows,
        accepted_length=step.accepted_length,
        match_length=step.match_length,
        token_ids=step.token_ids,
        accepted_nodes=step.accepted_nodes,
        draft=DraftRecord(
            token_ids=tuple(token_ids),
            parents=draft.parents,
            sources=tuple(source.value for source in draft.sources),
            probabilities=tuple(round(probability, 6) for probability in draft.probabilities),
            origins=tuple(origins),
        ),
        seconds=step.seconds,
        draft_seconds=step.draft_seconds,
        text_lengths=tuple(text_lengths),
        paused=step.paused,
    )


def settled(steps: Sequence[StepRecord], text_lengths: Sequence[int]) -> tuple[StepRecord, ...]:
    """The steps of an answer that is over, without tokens that a stop string took back.

    `text_lengths`: of all tokens that were kept, the first one, which no step emitted, included.
    """
    records = []
    start = 1
    for step in steps:
        lengths = tuple(text_lengths[start : start + len(step.token_ids)])
        start += len(step.token_ids)
        token_ids = step.token_ids[: len(lengths)]
        is_same = lengths == step.text_lengths
        records.append(
            step if is_same else replace(step, token_ids=token_ids, text_lengths=lengths)
        )
    return tuple(records)


def _origin(
    draft: DraftTree, node: int, trie: Trie, quoted: Callable[[int], tuple[int, int] | None]
) -> DraftOrigin:
    """Raises KeyError where nobody could tell later whose the token was."""
    position = draft.positions[node]
    if position == -1:
        return None
    if position < 0:
        place = quoted(quoted_position(position))
        if place is None:
            raise KeyError(position)
        return place
    if draft.sources[node] in (TokenSource.PROMPT, TokenSource.OUTPUT):
        return quoted(position) or position  # the name of a document, say, above its passage
    location = trie.locate(position)
    return location.sequence_id, location.offset


def generation_record(
    stats: GenerationStats, *, reason: str, model: str, dtype: str, device: str
) -> GenerationRecord:
    """How an answer came about, as it is saved."""
    counters = {name: getattr(stats, name) for name in _STATS_FIELDS}
    counters["accepted_by_source"] = {
        source.value: count for source, count in stats.accepted_by_source.items()
    }
    return GenerationRecord(
        reason=reason,
        model=model,
        dtype=dtype,
        device=device,
        **counters,
    )


def chat_message(
    message: Message,
    generation: GenerationRecord | None,
    passages: tuple[DocumentPassage, ...] = (),
) -> ChatMessage:
    """A saved message as it is shown."""
    return ChatMessage(
        id=message.id,
        conversation_id=message.conversation_id,
        role=message.role,
        text=message.text,
        status=message.status,
        numbers=answer_numbers(generation),
        error=message.error,
        passages=passages,
    )


def answer_numbers(generation: GenerationRecord | None) -> AnswerNumbers | None:
    """The numbers of a saved answer; None where it was not finished."""
    if generation is None:
        return None
    counters = {name: getattr(generation, name) for name in _STATS_FIELDS}
    counters["accepted_by_source"] = Counter(generation.accepted_by_source)
    return AnswerNumbers.from_stats(GenerationStats(**counters), generation.reason)
