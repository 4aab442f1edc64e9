"""Prompts: the one place where a conversation becomes token ids.

The control parts of the chat template are tokenized with special tokens, what people wrote is
tokenized so that control tokens typed by them stay text, and earlier answers are spliced in as
the ids the model generated.

Knows no model and no database. Called by the services, in the thread that owns the tokenizer.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from app.chat_template import ChatTemplate, Part, PromptError, PromptMessage, Quote
from app.prompt import PlacedQuote, Prompt, Turn

__all__ = [
    "MessageTooLongError",
    "PlacedQuote",
    "Prompt",
    "PromptBuilder",
    "PromptError",
    "PromptMessage",
    "Quote",
    "Turn",
    "encode_text",
    "find_control_ids",
]

Tokenizer = Any  # a Hugging Face tokenizer; transformers is not imported here


class MessageTooLongError(PromptError):
    """What has to be in the prompt is longer than the model can read."""


class PromptBuilder:
    """Makes prompts for one tokenizer.

    Args:
        context_length: tokens the model can hold; an eighth of it is kept free for the answer.
    """

    def __init__(self, tokenizer: Tokenizer, context_length: int) -> None:
        self._tokenizer = tokenizer
        self._context_length = context_length
        self._template = ChatTemplate(tokenizer)
        self._control_ids = find_control_ids(tokenizer)

    @property
    def longest_prompt(self) -> int:
        """Tokens a prompt may have, so that room for an answer is left."""
        return self._context_length - self._context_length // 8

    def build(self, messages: Sequence[PromptMessage]) -> Prompt:
        """The prompt that asks for the answer to the last of `messages`.

        Raises:
            PromptError: the template refuses the conversation.
            MessageTooLongError: it does not fit into the context.
        """
        segments = self._segments(messages)
        encoded = [self._encode_segment(segment) for segment in segments]
        token_ids = tuple(token_id for ids in encoded for token_id in ids)
        if len(token_ids) > self.longest_prompt:
            raise MessageTooLongError(
                f"This is {len(token_ids):,} tokens long, and the model can read "
                f"{self.longest_prompt:,} at once. Shorten it, or send it in parts."
            )
        return Prompt(
            token_ids,
            self._user_turn_start(messages, segments, encoded),
            # Without a template a model tends to write the next question itself.
            stop_strings=("\nUser:",) if self._template.is_plain else (),
            quotes=tuple(_placed_quotes(segments, encoded)),
        )

    def answer_header_ids(self) -> tuple[int, ...]:
        """What the template writes between a question and its answer, one token at least.

        Of a template that writes nothing there, what it opens the conversation with.
        """
        parts = self._template.parts([PromptMessage("user", "Hello")])
        for part in (parts[-1], parts[0]):
            token_ids = self._encode(part.text) if part.kind == "control" else []
            if token_ids:
                return tuple(token_ids)
        bos_id = self._tokenizer.bos_token_id
        return (min(self._control_ids, default=0) if bos_id is None else bos_id,)

    def build_chat(self, turns: Sequence[Turn]) -> Prompt:
        """The prompt of a conversation whose last turn is to be answered.

        Where the context is full, whole oldest turns go in one step, until half of it is free, so
        that later turns find their beginning unchanged. The same conversation keeps the same turns.

        Raises:
            PromptError, MessageTooLongError: see `build`.
        """
        first = self._first_kept_turn(turns)
        while True:
            try:
                return replace(self.build(_messages_of(turns[first:])), num_dropped_turns=first)
            except MessageTooLongError:
                if first >= len(turns) - 1:
                    raise
                first += 1

    def _first_kept_turn(self, turns: Sequence[Turn]) -> int:
        """Replay the conversation, dropping turns where it outgrew the context at the time."""
        lengths = self._turn_lengths(turns)
        first, used = 0, 0
        for index, (question_length, answer_length) in enumerate(lengths):
            if used + question_length > self.longest_prompt:
                while first < index and used + question_length > self._context_length // 2:
                    used -= sum(lengths[first])
                    first += 1
            used += question_length + answer_length
        return first

    def _turn_lengths(self, turns: Sequence[Turn]) -> list[tuple[int, int]]:
        """Tokens of each question with all that stands around it, and of each answer."""
        question_lengths = [0] * len(turns)
        turn_index = 0
        for segment in self._segments(_messages_of(turns)):
            if segment[0].kind == "ids":
                turn_index = segment[0].message_index // 2 + 1  # question, answer, question, …
            elif turn_index < len(turns):
                question_lengths[turn_index] += len(self._encode_segment(segment))
        answer_lengths = [len(turn.answer_ids or ()) for turn in turns]
        return list(zip(question_lengths, answer_lengths, strict=True))

    def _segments(self, messages: Sequence[PromptMessage]) -> list[list[Part]]:
        """The prompt as runs of parts: one answer's ids, one quote, or all text between these."""
        segments: list[list[Part]] = []
        for part in self._template.parts(messages):
            if segments and not {part.kind, segments[-1][0].kind} & {"ids", "quote"}:
                segments[-1].append(part)
            else:
                segments.append([part])
        return segments

    def _encode_segment(self, segment: Sequence[Part]) -> list[int]:
        """Ids of one segment: as one text where nobody typed a control token, else part by part."""
        if segment and segment[0].kind in ("ids", "quote"):
            return list(segment[0].token_ids)
        whole = self._encode("".join(part.text for part in segment))
        written = [
            token_id
            for part in segment
            if part.kind == "control"
            for token_id in self._controls(self._encode(part.text))
        ]
        if self._controls(whole) == written:
            return whole
        return [
            token_id
            for part in segment
            for token_id in (
                self._encode(part.text)
                if part.kind == "control"
                else encode_text(self._tokenizer, part.text, self._control_ids)
            )
        ]

    def _encode(self, text: str) -> list[int]:
        return _encode(self._tokenizer, text, split_special_tokens=False)

    def _controls(self, token_ids: Sequence[int]) -> list[int]:
        return [token_id for token_id in token_ids if token_id in self._control_ids]

    def _user_turn_start(
        self,
        messages: Sequence[PromptMessage],
        segments: Sequence[Sequence[Part]],
        encoded: Sequence[Sequence[int]],
    ) -> int:
        """Index of the token with which the last user turn begins."""
        last_user = max(
            (index for index, message in enumerate(messages) if message.role == "user"), default=-1
        )
        if last_user < 0:
            return 0
        first = next(
            index
            for index, segment in enumerate(segments)
            if any(p.message_index == last_user and p.kind != "control" for p in segment)
        )
        if first and segments[first][0].kind == "quote":  # what opens the turn stands before it
            first -= 1
        before = self._encode_segment(self._parts_before(segments[first], last_user))
        return sum(map(len, encoded[:first])) + _common_prefix_length(before, encoded[first])

    def longest_quotes(self, question: str) -> int:
        """Tokens that may be quoted before a question, so that both fit with room for an answer."""
        turn = self.build([PromptMessage("user", question)])
        return max(0, min(self._context_length // 16, self.longest_prompt - len(turn.token_ids)))

    def _parts_before(self, segment: Sequence[Part], message_index: int) -> list[Part]:
        """The parts before a user's turn, what the template writes to open that turn left out."""
        before: list[Part] = []
        for part in segment:
            if part.message_index == message_index:
                break
            before.append(part)
        if before and before[-1].kind == "control":
            opened = before[-1].text.removesuffix(self._template.user_header)
            before[-1] = Part("control", opened)
        return before


def encode_text(
    tokenizer: Tokenizer, text: str, control_ids: frozenset[int] | None = None
) -> list[int]:
    """Ids of a text that somebody wrote: control tokens typed in it stay text.

    Args:
        control_ids: ids that only a template may write; None: looked up.
    """
    controls = find_control_ids(tokenizer) if control_ids is None else control_ids
    token_ids = _encode(tokenizer, text, split_special_tokens=True)
    if controls.isdisjoint(token_ids):
        return token_ids
    # Added tokens that are not "special" survive the splitting: break them behind a letter.
    contents = {str(tokenizer.convert_ids_to_tokens(token_id)) for token_id in controls}
    breaks = (f"(?<={re.escape(c[0])})(?={re.escape(c[1:])})" for c in sorted(contents) if c)
    return [
        token_id
        for piece in re.split("|".join(breaks), text)
        for token_id in _encode(tokenizer, piece, split_special_tokens=True)
    ]


def find_control_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Special tokens, and added tokens that the chat template writes (white space excepted)."""
    template = getattr(tokenizer, "chat_template", None) or ""
    written = template if isinstance(template, str) else "\n".join(template.values())
    return frozenset(
        token_id
        for token_id, token in tokenizer.added_tokens_decoder.items()
        if token.special or (token.content in written and not token.content.isspace())
    )


def _encode(tokenizer: Tokenizer, text: str, *, split_special_tokens: bool) -> list[int]:
    return list(
        tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=split_special_tokens,
            verbose=False,
        )["input_ids"]
    )


def _placed_quotes(
    segments: Sequence[Sequence[Part]], encoded: Sequence[Sequence[int]]
) -> Iterator[PlacedQuote]:
    start = 0
    for segment, ids in zip(segments, encoded, strict=True):
        quote = segment[0].quote
        if quote is not None:
            yield PlacedQuote(start, quote)
        start += len(ids)


def _messages_of(turns: Sequence[Turn]) -> list[PromptMessage]:
    messages: list[PromptMessage] = []
    for turn in turns:
        messages.append(PromptMessage("user", turn.text, quotes=turn.quotes))
        if turn.answer_ids is not None:
            messages.append(PromptMessage("assistant", token_ids=turn.answer_ids))
    return messages


def _common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    for length, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return length
    return min(len(first), len(second))
