"""What the panel beside the chat shows, as plain dictionaries that become JSON.

Knows neither gradio nor the services' inner life. Called by `app.handlers`; the page's scripts put
every string into the document as text, never as markup.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app.panel_log import LOOKS, AnswerLog, look_of
from app.plain_text import displayable
from app.services.views import (
    AnswerNumbers,
    AnswerSnapshot,
    ChatMessage,
    NodeView,
    OriginView,
    StepDetails,
)
from lookahead.config import DecodingConfig

__all__ = ["PanelPresenter", "panel_value", "step_details_value"]

OriginLabels = Callable[[Collection[int]], Mapping[int, str]]

_MAX_LABEL_LENGTH = 60


class PanelPresenter:
    """Makes the panel's values for one tab, again and again, with work only for what is new.

    Args:
        origin_labels: names sequences for people, as `ChatService.origin_labels` does; asked once
            for each.
    """

    def __init__(self, origin_labels: OriginLabels) -> None:
        self._origin_labels = origin_labels
        self._log = AnswerLog()
        self._labels: dict[int, str] = {}

    def value(
        self, messages: Sequence[ChatMessage], snapshot: AnswerSnapshot | None
    ) -> dict[str, Any]:
        """The panel's value.

        Args:
            messages: the branch that is open, for the way to its other answers.
            snapshot: the answer shown, running or saved; None: there is none.
        """
        log = self._log
        if snapshot is None:
            log = AnswerLog()
        else:
            log.take(snapshot)
        numbers = None if snapshot is None else snapshot.numbers
        return {
            "answer": None if snapshot is None else snapshot.message_id,
            "status": "" if snapshot is None else snapshot.status,
            "answers": _answers(messages, snapshot),
            "max_length": DecodingConfig().max_draft_depth,
            "steps": log.text,
            "origins": self._origins(log.sequence_ids),
            "numbers": [] if numbers is None else _numbers(numbers),
            "legend": _legend(numbers, log.num_model_tokens),
            "summary": "" if numbers is None else _summary(numbers),
        }

    def _origins(self, sequence_ids: Collection[int]) -> dict[str, str]:
        unknown = set(sequence_ids) - self._labels.keys()
        if unknown:
            labels = self._origin_labels(unknown)
            self._labels |= {key: displayable(label) for key, label in labels.items()}
        return {str(key): self._labels[key] for key in sequence_ids if key in self._labels}


def panel_value(
    messages: Sequence[ChatMessage], snapshot: AnswerSnapshot | None, origin_labels: OriginLabels
) -> dict[str, Any]:
    """The panel's value, made at once; see `PanelPresenter`, which is for a running answer."""
    return PanelPresenter(origin_labels).value(messages, snapshot)


def _answers(
    messages: Sequence[ChatMessage], snapshot: AnswerSnapshot | None
) -> list[dict[str, Any]]:
    answers = []
    question = ""
    for message in messages:
        if message.role != "assistant":
            question = message.text
            continue
        is_shown = snapshot is not None and snapshot.message_id == message.id
        numbers = snapshot.numbers if snapshot is not None and is_shown else message.numbers
        answers.append(
            {
                "id": message.id,
                "label": _label(question),
                "tokens_per_step": 0.0 if numbers is None else round(numbers.tokens_per_step, 2),
                "tokens_per_second": (
                    0.0 if numbers is None else round(numbers.tokens_per_second, 1)
                ),
            }
        )
    return answers


def _label(question: str) -> str:
    words = " ".join(question[: 4 * _MAX_LABEL_LENGTH].split())
    if len(words) > _MAX_LABEL_LENGTH:
        words = words[: _MAX_LABEL_LENGTH - 1].rstrip() + "…"
    return displayable(words)


def _numbers(numbers: AnswerNumbers) -> list[dict[str, str]]:
    return [
        _number(
            "tokens/s",
            f"{numbers.tokens_per_second:.1f}",
            "Tokens that decode steps emitted per second of decoding; reading the prompt is not "
            "counted.",
        ),
        _number(
            "to first token",
            _duration(numbers.prefill_seconds),
            "Time of the prefill: reading what is new of the conversation, which gives the first "
            "token.",
        ),
        _number(
            "forwards",
            f"{numbers.num_forwards:,}",
            "Forward passes of the model: chunks of the prompt, and one for each decode step.",
        ),
        _number(
            "tokens per step",
            f"{numbers.tokens_per_step:.2f}",
            "Mean accepted length + 1 over all decode steps, the prefill not counted; 1.00 is no "
            "gain.",
        ),
        _number(
            "acceptance",
            f"{numbers.acceptance_rate:.0%}".replace("%", " %"),
            "Drafted tokens that the model accepted, of all that were drafted "
            f"({numbers.num_accepted_tokens:,} of {numbers.num_drafted_tokens:,}).",
        ),
        _number(
            "reused / prefilled",
            f"{numbers.reused_length:,} / {numbers.prefilled_length:,}",
            "Tokens of the prompt kept in memory from the turn before, and tokens read now.",
        ),
        _number(
            "drafting",
            f"{numbers.drafting_share:.1%}".replace("%", " %"),
            "Share of the decoding time that went into looking for drafts.",
        ),
    ]


def _number(name: str, value: str, definition: str) -> dict[str, str]:
    return {"name": name, "value": value, "definition": definition}


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _legend(numbers: AnswerNumbers | None, num_model_tokens: int) -> dict[str, int]:
    counts = dict.fromkeys(LOOKS, 0)
    for source, count in (numbers.accepted_by_source if numbers is not None else {}).items():
        counts[look_of(source)] += count
    counts["model"] += num_model_tokens
    return counts


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
        "num_steps": details.num_steps,
        "text": displayable(details.text),
        "bonus": None if details.bonus_text is None else displayable(details.bonus_text),
        "numbers": _step_numbers(details),
        "nodes": [_node(node) for node in details.nodes],
        "origins": [_origin(origin) for origin in details.origins],
    }


def _step_numbers(details: StepDetails) -> list[dict[str, str]]:
    return [
        _number(
            "accepted length",
            f"{details.accepted_length}",
            "Drafted tokens that the model accepted in this step, its own token not counted.",
        ),
        _number(
            "match length",
            f"{details.match_length}",
            "Tokens at the end of the text that were found earlier, which is where drafts "
            "come from.",
        ),
        _number(
            "width",
            f"{details.width}",
            "Nodes of the draft tree that one forward pass verified, the last committed token "
            f"included; padded to {details.rows} rows.",
        ),
        _number("time", _duration(details.seconds), "Time of the whole step."),
        _number("drafting", f"{1000 * details.draft_seconds:.1f} ms", "The drafting in it."),
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


def _origin(origin: OriginView) -> dict[str, Any]:
    return {
        "sequence": origin.sequence_id,
        "offset": origin.offset,
        "length": origin.num_tokens,
        "kind": origin.kind,
        "label": displayable(origin.label),
        "uri": displayable(origin.uri),
        "conversation": origin.conversation_id,
        "message": displayable(origin.message),
        "before": displayable(origin.before),
        "run": displayable(origin.run),
        "after": displayable(origin.after),
        "start": origin.character_start,
        "end": origin.character_end,
        "accepted": origin.is_accepted,
    }
