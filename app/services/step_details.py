"""One step of an answer with its whole draft tree, and the passages its tokens were taken from.

Knows the database, and a tokenizer or none. Used by `saved_answers`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any

from app.plain_text import shortened
from app.prompting import find_control_ids
from app.services.step_views import NodeView, PassageView, StepDetails, relative_origin
from app.services.text_stream import REPLACEMENT, token_texts
from app.services.views import UNTITLED, AnswerSnapshot
from storage import ERASED_TOKEN_ID, Database, DraftRecord, RecordNotFoundError, SequenceOrigin
from storage.records import UNKNOWN_OFFSET

__all__ = ["DELETED_LABEL", "StepReader", "label_of"]

DELETED_LABEL = "deleted since"

_ERASED_TEXT = "(deleted)"  # of a drafted token taken from what was deleted since
_CONTEXT_LENGTH = 8  # ids before a step, behind which its nodes are decoded
_EXCERPT_TOKENS = 40  # on each side of a passage
_ROLE_TOKENS = 6  # before an excerpt, where the name of who speaks may begin
_ROLES = frozenset({"user", "assistant", "system", "model", "human"})
_EXCERPT_CHARACTERS = 200  # of a document whose text is known
_SEARCH_CHARACTERS = 200_000  # to both sides of where a passage should be in its document
_MAX_QUESTION_LENGTH = 120


@dataclass(slots=True)
class _Passage:
    """Nodes of one branch whose tokens follow each other in a sequence."""

    sequence_id: int
    offset: int
    num_tokens: int
    is_accepted: bool

    def has_next(self, sequence_id: int, offset: int, is_accepted: bool) -> bool:
        """Whether a token there goes on with it."""
        end = self.offset + self.num_tokens if self.has_place else UNKNOWN_OFFSET
        return (self.sequence_id, end, self.is_accepted) == (sequence_id, offset, is_accepted)

    @property
    def has_place(self) -> bool:
        """Whether its tokens stand in the sequence as they are."""
        return self.offset != UNKNOWN_OFFSET


class StepReader:
    """Reads steps of answers whose ids mean what `tokenizer` says; None: that is not known."""

    def __init__(self, database: Database, tokenizer: Any) -> None:
        self._database = database
        self._tokenizer = tokenizer
        self._control_ids = frozenset() if tokenizer is None else find_control_ids(tokenizer)
        self._document_text = cache(database.sources.text)  # one step may quote one often

    def details(self, snapshot: AnswerSnapshot, index: int) -> StepDetails:
        """The step; it must be one of the snapshot's."""
        step = snapshot.steps[index]
        emitted = _emitted_texts(snapshot, index)
        nodes = self._nodes(snapshot, index, emitted)
        return StepDetails(
            message_id=snapshot.message_id,
            index=index,
            width=step.width,
            rows=step.rows,
            accepted_length=step.accepted_length,
            match_length=step.match_length,
            seconds=step.seconds,
            draft_seconds=step.draft_seconds,
            bonus_text=emitted[-1] if len(emitted) > step.accepted_length else None,
            nodes=nodes,
            passages=_with_one_deleted(self._view(passage) for passage in _passages(nodes)),
        )

    def _nodes(
        self, snapshot: AnswerSnapshot, index: int, emitted: Sequence[str]
    ) -> tuple[NodeView, ...]:
        step, draft = snapshot.steps[index], snapshot.steps[index].draft
        before = [
            snapshot.steps[0].draft.token_ids[0],  # the first token is the first step's root
            *chain.from_iterable(step.token_ids for step in snapshot.steps[:index]),
        ]
        texts = self._decoded(before[:-1][-_CONTEXT_LENGTH:], draft)
        for node, text in zip(step.accepted_nodes, emitted, strict=False):
            texts[node] = text or texts[node]
        numbers = snapshot.numbers
        assert numbers is not None, "an answer with steps has numbers"
        root_position = numbers.reused_length + numbers.prefilled_length + len(before) - 1
        depths: list[int] = []
        nodes = []
        for node, parent in enumerate(draft.parents):
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
            nodes.append(
                NodeView(
                    text=texts[node] or f"#{draft.token_ids[node]}",
                    parent=parent,
                    source=draft.sources[node],
                    probability=draft.probabilities[node],
                    is_accepted=node in step.accepted_nodes,
                    origin=relative_origin(draft.origins[node], root_position + depths[node]),
                )
            )
        return tuple(nodes)

    def _decoded(self, context: Sequence[int], draft: DraftRecord) -> list[str]:
        """What each node completes behind its ancestors; "" where that is no whole character."""
        texts = [_ERASED_TEXT if i == ERASED_TOKEN_ID else "" for i in draft.token_ids]
        if self._tokenizer is None:
            return texts
        for leaf in set(range(len(texts))) - set(draft.parents):
            path = [n for n in _path(draft, leaf) if draft.token_ids[n] != ERASED_TOKEN_ID]
            ids = [*context, *(draft.token_ids[node] for node in path)]
            pieces = token_texts(self._tokenizer, ids)[-len(path) :]
            for node, piece in zip(path, pieces, strict=True):
                texts[node] = piece.strip(REPLACEMENT)
        return texts

    def _view(self, passage: _Passage) -> PassageView:
        deleted = PassageView(
            passage.sequence_id,
            passage.offset,
            passage.num_tokens,
            kind="deleted",
            label=DELETED_LABEL,
            is_accepted=passage.is_accepted,
        )
        try:
            origin = self._database.sequences.origin(passage.sequence_id)
            view = replace(
                self._with_excerpt(deleted, is_chat=origin.kind != "document")
                if passage.has_place
                else deleted,
                label=label_of(origin),
                conversation_id=origin.conversation_id,
            )
            if origin.kind == "document":
                view = self._with_place(view, origin)
                return replace(view, kind="document", uri=origin.uri)
            return replace(view, kind="chat", message=self._question(origin))
        except RecordNotFoundError:  # perhaps in this moment: nothing of it is told
            return deleted

    def _with_excerpt(self, view: PassageView, *, is_chat: bool) -> PassageView:
        """With the passage and what stands around it in the sequence.

        Of a chat, without the words of the template that say who speaks.
        """
        if self._tokenizer is None:
            return view
        start = max(0, view.offset - _EXCERPT_TOKENS - (_ROLE_TOKENS if is_chat else 0))
        end = view.offset + view.num_tokens
        ids = self._database.sequences.token_ids(
            view.sequence_id, start=start, end=end + _EXCERPT_TOKENS
        )
        texts = token_texts(self._tokenizer, ids.tolist())
        if is_chat:
            is_control = [token_id in self._control_ids for token_id in ids.tolist()]
            texts = _without_roles(texts, is_control, is_start=start == 0)
        return replace(
            view,
            before="".join(texts[: view.offset - start]).lstrip(REPLACEMENT),
            run="".join(texts[view.offset - start : end - start]),
            after="".join(texts[end - start :]).rstrip(REPLACEMENT),
        )

    def _with_place(self, view: PassageView, origin: SequenceOrigin) -> PassageView:
        """With the passage's characters in the document, where the excerpt stands there once."""
        if not view.is_accepted or not view.run:
            return view
        text = self._document_text(origin.source_id)
        num_tokens = self._database.sequences.get(view.sequence_id).num_tokens
        near = len(text) * view.offset // max(1, num_tokens)
        found = _find_once(text, view.before + view.run + view.after, near)
        if found is None:
            return view
        start = found + len(view.before)
        end = start + len(view.run)
        return replace(
            view,
            character_start=start,
            character_end=end,
            before=text[max(0, start - _EXCERPT_CHARACTERS) : start],
            after=text[end : end + _EXCERPT_CHARACTERS],
        )

    def _question(self, origin: SequenceOrigin) -> str:
        """The question whose answer the sequence holds, shortened."""
        if origin.message_id is None:
            return ""
        parent_id = self._database.messages.get(origin.message_id).parent_id
        if parent_id is None:
            return ""
        question = self._database.messages.get(parent_id).text
        return shortened(question, _MAX_QUESTION_LENGTH)


def _without_roles(
    texts: Sequence[str], is_control: Sequence[bool], *, is_start: bool
) -> list[str]:
    """The texts of tokens, those empty that name who speaks: right behind a control token."""
    kept = list(texts)
    starts = [0] if is_start else []
    starts += [index + 1 for index, control in enumerate(is_control) if control]
    for first in starts:
        spoken = ""
        for index in range(first, min(first + 2 * _ROLE_TOKENS, len(texts))):
            if is_control[index] and index > first:
                break
            spoken += texts[index]
            if spoken.endswith("\n"):
                break
        else:
            continue
        if spoken.strip() in _ROLES:
            end = index if is_control[index] else index + 1
            kept[first:end] = [""] * (end - first)
    return kept


def label_of(origin: SequenceOrigin) -> str:
    """A document's name, or a chat's title."""
    return origin.name or UNTITLED


def _find_once(text: str, excerpt: str, near: int) -> int | None:
    """Where the excerpt stands, looked for around a place; None where it does not, or twice."""
    start = max(0, near - _SEARCH_CHARACTERS)
    end = near + _SEARCH_CHARACTERS
    found = text.find(excerpt, start, end)
    if found < 0 or text.find(excerpt, found + 1, end) >= 0:
        return None
    return found


def _emitted_texts(snapshot: AnswerSnapshot, index: int) -> list[str]:
    """What each token of a step completed of the answer; "" where that was not recorded."""
    step = snapshot.steps[index]
    start = snapshot.first_text_length
    start += sum(sum(earlier.text_lengths) for earlier in snapshot.steps[:index])
    texts = []
    for length in step.text_lengths or (0,) * len(step.token_ids):
        texts.append(snapshot.text[start : start + length])
        start += length
    return texts


def _path(draft: DraftRecord, node: int) -> list[int]:
    path = [node]
    while draft.parents[path[-1]] >= 0:
        path.append(draft.parents[path[-1]])
    return path[::-1]


def _with_one_deleted(views: Iterable[PassageView]) -> tuple[PassageView, ...]:
    """Of what was deleted nothing can be told but that it was, so it is told once."""
    kept: list[PassageView] = []
    for view in views:
        if view.kind != "deleted" or all(other.kind != "deleted" for other in kept):
            kept.append(view)
    return tuple(kept)


def _passages(nodes: Sequence[NodeView]) -> list[_Passage]:
    """The passages of history and documents in a draft, accepted ones first."""
    return sorted(_found_passages(nodes), key=lambda passage: not passage.is_accepted)


def _found_passages(nodes: Sequence[NodeView]) -> Iterator[_Passage]:
    by_node: dict[int, _Passage] = {}
    for index, node in enumerate(nodes):
        if not isinstance(node.origin, tuple):
            continue
        passage = by_node.get(node.parent)
        if passage is not None and passage.has_next(*node.origin, node.is_accepted):
            passage.num_tokens += 1
        else:
            passage = _Passage(*node.origin, num_tokens=1, is_accepted=node.is_accepted)
        by_node[index] = passage
    yield from {id(passage): passage for passage in by_node.values()}.values()
