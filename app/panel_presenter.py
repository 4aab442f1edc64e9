"""What the panel beside the chat shows, as plain dictionaries that become JSON.

Knows neither gradio nor the services' inner life. Called by `app.panel_handlers`; the page's
scripts put every string into the document as text, never as markup.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app.looks import counts_by_look, look_of
from app.numbers import PANEL_NUMBERS, duration, number
from app.panel_log import AnswerLog
from app.plain_text import displayable, displayable_name, shortened
from app.services.step_views import NodeView, PassageView, StepDetails
from app.services.views import AnswerNumbers, AnswerSnapshot, ChatMessage
from lookahead.config import DecodingConfig

__all__ = ["OriginLabels", "PanelPresenter", "step_details_value"]

OriginLabels = Callable[[Collection[int]], Mapping[int, str]]

_MAX_LABEL_LENGTH = 60
_SUMMARY = (
    "Decode steps of this answer against one a token, as plain decoding takes: counted, not timed."
)


class PanelPresenter:
    """Makes the panel's values for one tab, again and again, with work only for what is new.

    Args:
        origin_labels: names sequences for people, as `ChatService.origin_labels` does.
    """

    def __init__(self, origin_labels: OriginLabels) -> None:
        self._origin_labels = origin_labels
        self._log = AnswerLog()

    def value(
        self,
        messages: Sequence[ChatMessage],
        snapshot: AnswerSnapshot | None,
        running: AnswerSnapshot | None = None,
    ) -> dict[str, Any]:
        """The panel's value.

        Args:
            messages: the branch of the answer, for the way to its other answers.
            snapshot: the answer shown, running or saved; None: there is none.
            running: the answer that is being written in the open chat, shown or not.
        """
        log = self._log
        running_id = None if running is None or running.is_over else running.message_id
        if snapshot is None:
            log = AnswerLog()
        else:
            log.take(snapshot)
        numbers = None if snapshot is None else snapshot.numbers
        legend = counts_by_look({} if numbers is None else numbers.accepted_by_source)
        legend["model"] += 0 if numbers is None else log.num_model_tokens
        is_split = snapshot is None or snapshot.is_split
        return {
            "answer": None if snapshot is None else snapshot.message_id,
            "version": 0 if snapshot is None else snapshot.version,
            "status": _status(snapshot),
            "running": running_id,
            "answers": _answers(messages, snapshot, running_id),
            "max_length": DecodingConfig().max_draft_depth,
            "steps": log.text,
            "unsplit": "" if snapshot is None or is_split else displayable(snapshot.text),
            "labels": self._named(log.sequence_ids),
            "numbers": [
                {
                    **number(shown.name, shown.write(numbers), shown.definition),
                    "is_words": shown.is_words,
                }
                for shown in PANEL_NUMBERS
                if numbers is not None
            ],
            "legend": legend,
            "summary": "" if numbers is None else _summary(numbers),
            "summary_definition": _SUMMARY,
        }

    def _named(self, sequence_ids: Collection[int]) -> dict[str, str]:
        """Asked anew each time, since what they name may be deleted meanwhile."""
        if not sequence_ids:
            return {}
        labels = self._origin_labels(sequence_ids)
        return {str(key): displayable_name(label) for key, label in labels.items()}


def _answers(
    messages: Sequence[ChatMessage], snapshot: AnswerSnapshot | None, running_id: int | None
) -> list[dict[str, Any]]:
    answers = []
    question = ""
    for message in messages:
        if message.role != "assistant":
            question = message.text
            continue
        is_shown = snapshot is not None and snapshot.message_id == message.id
        numbers = snapshot.numbers if snapshot is not None and is_shown else message.numbers
        is_running = message.id == running_id
        if numbers is not None and not numbers.num_steps:
            note = "one token, without a decode step"
        else:
            note = "tokens per step not known"
        if numbers is not None and (not numbers.num_steps or (is_running and not is_shown)):
            numbers = None  # there is no rate, or it is an old one
        answers.append(
            {
                "id": message.id,
                "label": _label(question),
                "note": "being written" if is_running else note if numbers is None else "",
                "tokens_per_step": None if numbers is None else round(numbers.tokens_per_step, 2),
                "tokens_per_second": (
                    None if numbers is None else round(numbers.tokens_per_second, 1)
                ),
            }
        )
    return answers


def _status(snapshot: AnswerSnapshot | None) -> str:
    if snapshot is None:
        return ""
    return "stopping" if snapshot.is_stopping and not snapshot.is_over else snapshot.status


def _label(question: str) -> str:
    words = " ".join(question[: 4 * _MAX_LABEL_LENGTH].split())
    return displayable_name(shortened(words, _MAX_LABEL_LENGTH))


def _summary(numbers: AnswerNumbers) -> str:
    saved = numbers.num_steps_saved
    if not saved:
        return "No fewer forward passes than one a token"
    return f"{saved:,} fewer forward {'pass' if saved == 1 else 'passes'} than one a token"


def step_details_value(details: StepDetails) -> dict[str, Any]:
    """A step's details: its numbers, the whole draft tree, and where its tokens stand."""
    return {
        "answer": details.message_id,
        "step": details.index,
        "bonus": None if details.bonus_text is None else displayable(details.bonus_text),
        "numbers": _step_numbers(details),
        "nodes": [_node(node) for node in details.nodes],
        "passages": [_passage(passage) for passage in details.passages],
    }


def _step_numbers(details: StepDetails) -> list[dict[str, str]]:
    return [
        number(
            "accepted length",
            f"{details.accepted_length}",
            "Drafted tokens that the model accepted in this step, its own token not counted.",
        ),
        number(
            "match length",
            f"{details.match_length}",
            "Tokens at the end of the text that were found earlier, which is where drafts "
            "come from.",
        ),
        number(
            "width",
            f"{details.width}",
            "Nodes of the draft tree that one forward pass verified, the last committed token "
            f"included; padded to {details.rows} rows.",
        ),
        number("time", duration(details.seconds), "Time of the whole step."),
        number("drafting", f"{1000 * details.draft_seconds:.1f} ms", "The drafting in it."),
    ]


def _node(node: NodeView) -> dict[str, Any]:
    origin = node.origin
    return {
        "text": displayable(node.text),
        "parent": node.parent,
        "source": look_of(node.source),
        "probability": round(node.probability, 3),
        "accepted": node.is_accepted,
        "origin": list(origin) if isinstance(origin, tuple) else origin,
    }


def _passage(passage: PassageView) -> dict[str, Any]:
    return {
        "sequence": passage.sequence_id,
        "offset": passage.offset,
        "length": passage.num_tokens,
        "kind": passage.kind,
        "label": displayable_name(passage.label),
        "uri": displayable(passage.uri),
        "conversation": passage.conversation_id,
        "message": displayable_name(passage.message),
        "before": displayable(passage.before),
        "run": displayable(passage.run),
        "after": displayable(passage.after),
        "start": passage.character_start,
        "end": passage.character_end,
        "accepted": passage.is_accepted,
    }
