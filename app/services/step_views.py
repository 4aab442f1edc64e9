"""A decode step as it is shown: its draft tree, and the passages its tokens were taken from.

Knows no database, no model and no page. Made by `step_details`, read by the panel's presenter.
"""

from dataclasses import dataclass
from typing import Literal

from storage.records import DraftOrigin

__all__ = ["NodeView", "PassageKind", "PassageView", "StepDetails", "relative_origin"]

PassageKind = Literal["document", "chat", "deleted"]


def relative_origin(origin: DraftOrigin, position: int) -> DraftOrigin:
    """A recorded origin as it is shown: a place in this conversation becomes a distance.

    `position`: where the drafted token itself stands in the conversation.
    """
    return position - origin if isinstance(origin, int) else origin


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of a step's draft tree; node 0 is the root, a parent precedes its children.

    Args:
        text: what the token completes behind its ancestors; `#id` where that is no whole character
            or its tokenizer is not loaded.
        parent: node index, -1 for the root.
        source: as recorded, a value of `lookahead.draft.TokenSource`.
        probability: estimated when drafting, that the node is reached.
        origin: (sequence id, offset), or how many tokens back in this conversation, or None.
    """

    text: str
    parent: int
    source: str
    probability: float
    is_accepted: bool
    origin: DraftOrigin


@dataclass(frozen=True, slots=True)
class PassageView:
    """A passage that drafted tokens were taken from, with what stands around it.

    Args:
        offset: of its first token in the sequence; `num_tokens`: its length.
        kind: "deleted" where the document or chat is there no more; then the rest is empty.
        label: name of the document, title of the chat, or that it was deleted.
        uri: of a document, where it was read from.
        message: of a chat, the question that the passage belongs to.
        before, run, after: the passage and what stands around it; empty where its tokenizer is not
            loaded.
        character_start, character_end: of the run in the document's text, where that is known.
        is_accepted: whether any token of it was accepted.
    """

    sequence_id: int
    offset: int
    num_tokens: int
    kind: PassageKind
    label: str
    uri: str = ""
    conversation_id: int | None = None
    message: str = ""
    before: str = ""
    run: str = ""
    after: str = ""
    character_start: int | None = None
    character_end: int | None = None
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class StepDetails:
    """One decode step with its whole draft tree, accepted and rejected.

    Args:
        bonus_text: of the model's own token at the end; None where the answer ended before it.
        passages: those of history and documents, accepted ones first.
    """

    message_id: int
    index: int
    width: int
    rows: int
    accepted_length: int
    match_length: int
    seconds: float
    draft_seconds: float
    bonus_text: str | None
    nodes: tuple[NodeView, ...]
    passages: tuple[PassageView, ...]
