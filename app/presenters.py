"""What the page shows, as strings and plain dictionaries: pure functions of records and snapshots.

Knows neither gradio nor the services' inner life. Called by `app.handlers`; the page's scripts put
the strings into the document as text, never as markup. What goes into a Markdown field is escaped,
answers aside; no string has half surrogate pairs in it, over which the page's stream would break.
"""

from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from app.numbers import counted
from app.plain_text import displayable, displayable_name, literal_markdown
from app.services.views import (
    ENDINGS,
    UNTITLED,
    AnswerNumbers,
    AnswerSnapshot,
    ChatMessage,
    EngineState,
)
from storage.records import Conversation, DocumentPassage

if TYPE_CHECKING:
    from app.services.forgetting import RecentDeletion

__all__ = [
    "answer_line",
    "chat_list",
    "chatbot_messages",
    "deletion_line",
    "demo_preparation",
    "engine_line",
    "numbers_line",
]

_NO_TEXT_YET = "\u200b"  # keeps the answer's place, so that the line below it stays the second part
_NO_BREAK = "\u00a0"


def chatbot_messages(
    messages: Sequence[ChatMessage],
    snapshot: AnswerSnapshot | None = None,
    *,
    is_model_ready: bool = True,
) -> list[dict[str, Any]]:
    """The conversation as the chatbot takes it; under each answer numbers and quoted passages.

    Args:
        messages: the saved messages of the branch, in order.
        snapshot: the running answer, which replaces its saved state.
        is_model_ready: False while the model loads, which is then what an answer waits for.
    """
    shown = []
    for message in messages:
        if message.role != "assistant":
            shown.append({"role": "user", "content": literal_markdown(message.text)})
        elif snapshot is not None and snapshot.message_id == message.id:
            line = answer_line(snapshot, is_model_ready=is_model_ready)
            shown.append(_answer(snapshot.text, line, snapshot.passages))
        else:
            shown.append(_answer(message.text, _saved_line(message), message.passages))
    return shown


def demo_preparation(*, is_model_ready: bool, is_stopping: bool) -> list[dict[str, Any]]:
    """The chatbot before the demo's first question: what is waited for."""
    if is_stopping:
        return [_answer("", "Stopping …")]
    wait = "importing its sample document" if is_model_ready else "waiting for the model to load"
    return [_answer("", f"Preparing the demo: {wait} …")]


def _answer(text: str, line: str, passages: Sequence[DocumentPassage] = ()) -> dict[str, Any]:
    below = literal_markdown(line) + (f"\n\n{_quoted(passages)}" if passages else "")
    parts = (displayable(text) or _NO_TEXT_YET, below)
    blocks = [{"type": "text", "text": part} for part in parts if part]
    return {"role": "assistant", "content": blocks}


def _quoted(passages: Sequence[DocumentPassage]) -> str:
    """The passages, folded: one line of HTML, every sign of theirs a character reference."""
    names = ", ".join(dict.fromkeys(_file_name(passage) for passage in passages))
    quotes = "".join(
        f"<p>{literal_markdown(f'[{number}] {displayable_name(passage.name)}')}</p>"
        f"<blockquote>{literal_markdown(passage.text)}</blockquote>"
        for number, passage in enumerate(passages, 1)
    )
    summary = literal_markdown(f"Given {counted(len(passages), 'passage')}: {names}")
    return f"<details><summary>{summary}</summary>{quotes}</details>"


def _file_name(passage: DocumentPassage) -> str:
    name = displayable_name(passage.name)
    return PurePath(name).name or name


def answer_line(snapshot: AnswerSnapshot, *, is_model_ready: bool = True) -> str:
    """The line under an answer that is being written, or was just finished."""
    if snapshot.is_stopping and not snapshot.is_over:
        return "Stopping …"
    if snapshot.status == "queued":
        return "Waiting for its turn …" if is_model_ready else "Waiting for the model to load …"
    if snapshot.status == "prefill":
        return "Reading the conversation …"
    ending = _failure(snapshot.error) if snapshot.status == "failed" else ""
    return _joined(snapshot.numbers, snapshot.status, ending, snapshot.notice)


def _saved_line(message: ChatMessage) -> str:
    ending = _failure(message.error) if message.status == "failed" else ""
    return _joined(message.numbers, message.status, ending)


def _failure(error: str) -> str:
    return f"failed: {error}" if error else "failed"


def _joined(numbers: AnswerNumbers | None, status: str, ending: str, notice: str = "") -> str:
    parts = [numbers_line(numbers)] if numbers is not None else []
    if status == "stopped":
        parts.append("stopped")
    elif numbers is not None and numbers.reason in ENDINGS:
        parts.append(ENDINGS[numbers.reason])
    return " · ".join(part for part in (*parts, ending, notice) if part)


def numbers_line(numbers: AnswerNumbers) -> str:
    """`41 tokens/s · 2.9 tokens per step · 37 forwards · 62 % accepted`; parts stay whole."""
    parts = [counted(numbers.num_forwards, "forward")]
    if numbers.num_steps:
        speed = numbers.tokens_per_second
        parts = [
            f"{speed:.0f} tokens/s" if speed >= 10 else f"{speed:.1f} tokens/s",
            f"{numbers.tokens_per_step:.1f} tokens per step",
            *parts,
            f"{100 * numbers.acceptance_rate:.0f} % accepted"
            if numbers.num_drafted_tokens
            else "nothing drafted",
        ]
    return " · ".join(part.replace(" ", _NO_BREAK) for part in parts)


def chat_list(
    conversations: Sequence[Conversation],
    open_id: int | None,
    running_ids: Collection[int] = (),
) -> dict[str, Any]:
    """The value of the chat list: what it shows, which chat is open, which are being answered."""
    chats = [
        {
            "id": conversation.id,
            "title": displayable_name(conversation.title).strip() or UNTITLED,
            "running": conversation.id in running_ids,
        }
        for conversation in conversations
    ]
    return {"open": open_id, "chats": chats}


def deletion_line(deletions: "Sequence[RecentDeletion]") -> dict[str, Any]:
    """The value of the bar that offers to undo the latest deletion; `kind` is "" for none."""
    if not deletions:
        return {"kind": "", "id": 0, "text": "", "seconds": 0}
    latest = deletions[0]
    name = " ".join(displayable_name(latest.name).split()) or UNTITLED
    what = f"the chat “{name}”" if latest.kind == "conversation" else f"“{name}”"
    if len(latest.ids) > 1:
        what = counted(len(latest.ids), "document")
    return {
        "kind": latest.kind,
        "id": latest.ids[0],
        "text": f"Deleted {what}.",
        "seconds": round(latest.seconds_left),
    }


def engine_line(state: EngineState) -> dict[str, str]:
    """The status line: what the model is doing, in one sentence."""
    if state.status == "ready":
        mode = f" · {state.mode} mode" if state.mode else ""
        background = f" · {state.background}" if state.background else ""
        return {
            "status": "ready",
            "text": displayable(f"{_model_name(state.model)}{mode}{background}"),
            "more": displayable(f"{state.detail} {state.mode_reason}".strip()),
        }
    return {"status": state.status, "text": displayable(state.detail), "more": ""}


def _model_name(model: str) -> str:
    """A path is shown by its last part, a name as it is."""
    return PurePath(model).name or model
