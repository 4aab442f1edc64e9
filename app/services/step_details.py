"""One step of an answer with its whole draft tree, and the passages its tokens were taken from.

Knows the database, and a tokenizer or none. Used by `saved_answers`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from app.services.recording import first_text_length, relative_origin
from app.services.text_stream import token_texts
from app.services.views import AnswerSnapshot, NodeView, OriginView, StepDetails
from storage import Database, DraftRecord, RecordNotFoundError, SequenceOrigin

__all__ = ["DELETED_LABEL", "StepReader", "label_of"]

DELETED_LABEL = "deleted since"

_UNTITLED = "New chat"
_CONTEXT_LENGTH = 8  # ids before a step, behind which its nodes are decoded
_EXCERPT_TOKENS = 40  # on each side of a passage
_EXCERPT_CHARACTERS = 200  # of a document whose text is known
_MAX_QUESTION_LENGTH = 120
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(slots=True)
class _Passage:
    """Nodes of one branch whose tokens follow each other in a sequence."""

    sequence_id: int
    offset: int
    num_tokens: int
    is_accepted: bool

    def has_next(self, sequence_id: int, offset: int, is_accepted: bool) -> bool:
        """Whether a token there goes on with it."""
        end = (self.sequence_id, self.offset + self.num_tokens, self.is_accepted)
        return end == (sequence_id, offset, is_accepted)


class StepReader:
    """Reads steps of answers whose ids mean what `tokenizer` says; None: that is not known."""

    def __init__(self, database: Database, tokenizer: Any) -> None:
        self._database = database
        self._tokenizer = tokenizer

    def details(self, snapshot: AnswerSnapshot, index: int) -> StepDetails:
        """The step; it must be one of the snapshot's."""
        step = snapshot.steps[index]
        emitted = _emitted_texts(snapshot, index)
        nodes = self._nodes(snapshot, index, emitted)
        return StepDetails(
            message_id=snapshot.message_id,
            index=index,
            num_steps=len(snapshot.steps),
            width=step.width,
            rows=step.rows,
            accepted_length=step.accepted_length,
            match_length=step.match_length,
            seconds=step.seconds,
            draft_seconds=step.draft_seconds,
            text="".join(emitted),
            bonus_text=emitted[-1] if len(emitted) > step.accepted_length else None,
            nodes=nodes,
            origins=tuple(self._view(passage) for passage in _passages(nodes)),
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
                    token_id=draft.token_ids[node],
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
        texts = [""] * len(draft.token_ids)
        if self._tokenizer is None:
            return texts
        for leaf in set(range(len(texts))) - set(draft.parents):
            path = _path(draft, leaf)
            ids = [*context, *(draft.token_ids[node] for node in path)]
            pieces = token_texts(self._tokenizer, ids)[-len(path) :]
            for node, piece in zip(path, pieces, strict=True):
                texts[node] = piece.strip(_REPLACEMENT)
        return texts

    def _view(self, passage: _Passage) -> OriginView:
        view = OriginView(
            sequence_id=passage.sequence_id,
            offset=passage.offset,
            num_tokens=passage.num_tokens,
            kind="deleted",
            label=DELETED_LABEL,
            is_accepted=passage.is_accepted,
        )
        try:
            origin = self._database.sequences.origin(passage.sequence_id)
            view = self._with_excerpt(view)
            if origin.kind == "document":
                view = replace(self._with_place(view, origin), kind="document", uri=origin.uri)
            else:
                question = self._question(origin)
                view = replace(view, kind="chat", message=question, message_id=origin.message_id)
            return replace(view, label=label_of(origin), conversation_id=origin.conversation_id)
        except RecordNotFoundError:
            return view

    def _with_excerpt(self, view: OriginView) -> OriginView:
        """With the passage and what stands around it in the sequence."""
        if self._tokenizer is None:
            return view
        ids = self._database.sequences.token_ids(view.sequence_id)
        start = max(0, view.offset - _EXCERPT_TOKENS)
        end = view.offset + view.num_tokens
        texts = token_texts(self._tokenizer, ids[start : end + _EXCERPT_TOKENS].tolist())
        return replace(
            view,
            before="".join(texts[: view.offset - start]).lstrip(_REPLACEMENT),
            run="".join(texts[view.offset - start : end - start]),
            after="".join(texts[end - start :]).rstrip(_REPLACEMENT),
        )

    def _with_place(self, view: OriginView, origin: SequenceOrigin) -> OriginView:
        """With the passage's characters in the document, where its ids lead to the same text."""
        if not view.is_accepted or not view.run:
            return view
        text = self._database.sources.text(origin.source_id)
        ids = self._database.sequences.token_ids(view.sequence_id)[: view.offset].tolist()
        prefix = self._tokenizer.decode(ids, skip_special_tokens=True) if ids else ""
        start = len(prefix.rstrip(_REPLACEMENT))
        end = start + len(view.run)
        if text[start:end] != view.run:
            return view
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
        return question if len(question) <= _MAX_QUESTION_LENGTH else _shortened(question)


def label_of(origin: SequenceOrigin) -> str:
    """A document's name, or a chat's title."""
    return origin.name or _UNTITLED


def _shortened(text: str) -> str:
    return text[: _MAX_QUESTION_LENGTH - 1].rstrip() + "…"


def _emitted_texts(snapshot: AnswerSnapshot, index: int) -> list[str]:
    """What each token of a step completed of the answer; "" where that was not recorded."""
    step = snapshot.steps[index]
    start = first_text_length(snapshot.text, snapshot.steps)
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
