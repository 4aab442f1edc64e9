"""The steps of an answer as JSON lines that only grow: what the page's panel is fed with.

Knows snapshots, neither gradio nor the services' inner life. Used by `app.panel_presenter`; what a
line holds is told at `AnswerLog`.
"""

import json

from app.looks import look_of
from app.plain_text import displayable
from app.services.step_views import relative_origin
from app.services.views import AnswerSnapshot
from storage.records import StepRecord

__all__ = ["AnswerLog"]


class AnswerLog:
    """The lines of one answer, made of its snapshots, each line once.

    The first line is `["first", text, reused_length, prefilled_length, milliseconds]`, each other
    `[accepted_length, match_length, width, rows, milliseconds, draft_milliseconds, tokens]` with
    `[text, "model"]` or `[text, look, probability, origin]` per token; origin is null,
    `[sequence id, offset]` or how many tokens back in this conversation. A step in which drafting
    was paused has `true` at its end. The texts, joined, are the
    answer's, and no earlier line changes, except where a stop string takes back what was shown:
    then the last snapshot gives other lines. Where it is not known what text each token stands for,
    all texts are empty.

    Attributes:
        text: the lines, each with its line end.
        sequence_ids: sequences that accepted tokens came from.
        num_model_tokens: the model's own among the tokens.
    """

    def __init__(self) -> None:
        self._snapshot: AnswerSnapshot | None = None
        self._is_split = True
        self._clear()

    def _clear(self) -> None:
        self.text = ""
        self.sequence_ids: set[int] = set()
        self.num_model_tokens = 0
        self._num_lines = 0
        self._text_position = 0  # characters of the answer that stand in the lines
        self._token_position = 0  # of the next token in the conversation

    def take(self, snapshot: AnswerSnapshot) -> None:
        """Add the lines that are new; another answer, or its end, begins from the start."""
        last, self._snapshot = self._snapshot, snapshot
        if snapshot is last:
            return
        if last is None or last.message_id != snapshot.message_id or snapshot.is_over:
            self._clear()
        self._is_split = snapshot.is_split
        lines = [
            self._first(snapshot) if index < 0 else self._step(snapshot, snapshot.steps[index])
            for index in range(self._num_lines - 1, _num_settled(snapshot))
        ]
        self._num_lines += len(lines)
        self.text += "".join(
            json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
        )

    def _first(self, snapshot: AnswerSnapshot) -> list[object]:
        numbers = snapshot.numbers
        length = snapshot.first_text_length if self._is_split else 0
        reused, prefilled = (
            (numbers.reused_length, numbers.prefilled_length) if numbers is not None else (0, 0)
        )
        self._token_position = reused + prefilled + 1
        if numbers is not None and numbers.num_tokens:
            self.num_model_tokens += 1
        milliseconds = round(1000 * numbers.prefill_seconds, 1) if numbers is not None else 0.0
        return ["first", self._next_text(snapshot, length), reused, prefilled, milliseconds]

    def _step(self, snapshot: AnswerSnapshot, step: StepRecord) -> list[object]:
        lengths = step.text_lengths if self._is_split else (0,) * len(step.token_ids)
        tokens: list[list[object]] = []
        for index, length in enumerate(lengths):
            text = self._next_text(snapshot, length)
            if index >= step.accepted_length:
                tokens.append([text, "model"])
                self.num_model_tokens += 1
                continue
            node = step.accepted_nodes[index]
            look = look_of(step.draft.sources[node])
            origin = relative_origin(step.draft.origins[node], self._token_position + index)
            if isinstance(origin, tuple):
                self.sequence_ids.add(origin[0])
            tokens.append([text, look, round(step.draft.probabilities[node], 3), origin])
        self._token_position += len(lengths)
        return [
            step.accepted_length,
            step.match_length,
            step.width,
            step.rows,
            round(1000 * step.seconds, 1),
            round(1000 * step.draft_seconds, 1),
            tokens,
            *([True] if step.paused else []),
        ]

    def _next_text(self, snapshot: AnswerSnapshot, length: int) -> str:
        start = self._text_position
        self._text_position += length
        return displayable(snapshot.text[start : start + length])


def _num_settled(snapshot: AnswerSnapshot) -> int:
    """Steps whose lines will not change; -1 where even the first token's may.

    While the answer grows, a token that has completed no character yet may turn out to be its last
    one, and then shows what there is of it.
    """
    if snapshot.numbers is None and not (snapshot.is_over and snapshot.text):
        return -1
    steps = snapshot.steps
    if snapshot.is_over:
        return len(steps)
    for index in range(len(steps) - 1, -1, -1):
        if steps[index].token_ids:
            is_open = steps[index].text_lengths[-1:] == (0,)
            return index if is_open else len(steps)
    return len(steps) if snapshot.first_text_length else -1
