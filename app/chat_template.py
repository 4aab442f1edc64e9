"""A model's chat template, taken apart: what it writes itself, and where it puts the contents.

Any template will do: it is rendered with a placeholder for each content, and what stands between
the placeholders is the template's own. Knows texts only, no token ids. Called by the PromptBuilder.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2.exceptions import TemplateError

from lookahead.errors import LookaheadError

__all__ = ["ChatTemplate", "Part", "PromptError", "PromptMessage", "Quote"]

# Digits only: they survive templates that strip contents or change their letters.
_PLACEHOLDER = re.compile(r"72049583(\d{6})61385940")


class PromptError(LookaheadError):
    """The conversation cannot be written in the form the model expects."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Ids that stand before a question and are not the person's: a passage, or words around it.

    Args:
        is_passage: whether they are a document's.
        sequence_id: of the document; None: that is not known, or they are of none.
        offset: of the first of them in it; None: they are not in it as they are.
    """

    token_ids: tuple[int, ...]
    is_passage: bool = False
    sequence_id: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message. With `token_ids` (an answer as generated) those stand for the text."""

    role: str
    text: str = ""
    token_ids: tuple[int, ...] | None = None
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a prompt: text of the template or of a person, ids of an answer, or a quote.

    Args:
        message_index: the message that a text or ids belong to; -1 for the template's own.
    """

    kind: Literal["control", "text", "ids", "quote"]
    text: str = ""
    token_ids: tuple[int, ...] = ()
    message_index: int = -1
    quote: Quote | None = None


class ChatTemplate:
    """The chat template of one Hugging Face tokenizer.

    A model without one gets a plain format: `User: …`, a blank line, `Assistant:`.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.is_plain = not getattr(tokenizer, "chat_template", None)
        self.user_header = self._find_user_header()

    def parts(self, messages: Sequence[PromptMessage]) -> list[Part]:
        """The prompt that asks for the next answer, in parts; joined, they are the rendered text.

        Raises:
            PromptError: the template refuses the conversation.
        """
        slots = _slots(len(messages))
        skeleton = self._render(messages, slots)
        texts = self._texts_as_rendered(messages, slots, skeleton)
        pieces = _PLACEHOLDER.split(skeleton)  # control, index, control, index, …, control
        if len(messages) - 1 not in map(int, pieces[1::2]):
            raise PromptError("The model's chat template leaves the last message out.")
        parts = [Part("control", pieces[0])]
        for digits, control in zip(pieces[1::2], pieces[2::2], strict=True):
            index = int(digits)
            ids = messages[index].token_ids
            if ids is None:
                parts += [
                    Part("quote", token_ids=quote.token_ids, message_index=index, quote=quote)
                    for quote in messages[index].quotes
                ]
                parts.append(Part("text", texts[index], message_index=index))
            else:
                # It was generated behind the opening that asks for an answer; some templates open
                # earlier answers in another way, which would fit neither its ids nor its keys.
                parts[-1] = Part("control", pieces[-1])
                parts.append(Part("ids", token_ids=ids, message_index=index))
            parts.append(Part("control", control))
        return [part for part in parts if part.kind != "control" or part.text]

    def _texts_as_rendered(
        self, messages: Sequence[PromptMessage], slots: list[str], skeleton: str
    ) -> list[str]:
        """Each text as the template writes it: most write it as it is, some strip it."""
        texts = [
            slot if message.token_ids is not None else message.text
            for slot, message in zip(slots, messages, strict=True)
        ]
        as_they_are = _PLACEHOLDER.sub(lambda match: texts[int(match[1])], skeleton)
        if self._render(messages, texts) == as_they_are:
            return texts
        return [
            self._text_as_rendered(messages, slots, skeleton, index) for index in range(len(texts))
        ]

    def _text_as_rendered(
        self, messages: Sequence[PromptMessage], slots: list[str], skeleton: str, index: int
    ) -> str:
        """Render with this one text in its place and cut out what stands there."""
        text = messages[index].text
        before, _, after = skeleton.partition(slots[index])
        rendered = self._render(messages, [*slots[:index], text, *slots[index + 1 :]])
        has_room = len(rendered) >= len(before) + len(after)
        if has_room and rendered.startswith(before) and rendered.endswith(after):
            return rendered[len(before) : len(rendered) - len(after)]
        return text

    def _render(
        self,
        messages: Sequence[PromptMessage],
        contents: Sequence[str],
        *,
        asks_for_answer: bool = True,
    ) -> str:
        pairs = [(m.role, content) for m, content in zip(messages, contents, strict=True)]
        if self.is_plain:
            return self._render_plain(pairs, asks_for_answer)
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [{"role": role, "content": content} for role, content in pairs],
                    tokenize=False,
                    add_generation_prompt=asks_for_answer,
                )
            )
        except TemplateError as error:
            raise PromptError(
                f"The model's chat template refuses this conversation: {error}"
            ) from error

    def _render_plain(self, pairs: Sequence[tuple[str, str]], asks_for_answer: bool) -> str:
        labels = {"user": "User: ", "assistant": "Assistant:"}
        bos = self._tokenizer.bos_token or ""
        if bos and self._tokenizer("a")["input_ids"][0] != self._tokenizer.bos_token_id:
            bos = ""
        turns = "".join(f"{labels.get(role, '')}{content}\n\n" for role, content in pairs)
        return f"{bos}{turns}Assistant:" if asks_for_answer else f"{bos}{turns}"

    def _find_user_header(self) -> str:
        """What the template writes to open a user's turn; "" where that cannot be told."""
        roles = ("user", "assistant", "user", "assistant")
        slots = _slots(len(roles))
        probe = [PromptMessage(role) for role in roles]
        try:
            pieces = _PLACEHOLDER.split(self._render(probe, slots, asks_for_answer=False))
        except PromptError:
            return ""
        if [int(digits) for digits in pieces[1::2]] != [0, 1, 2, 3]:
            return ""
        between_turns, end_of_answer = pieces[4], pieces[8]
        shared = 0
        for left, right in zip(between_turns, end_of_answer, strict=False):
            if left != right:
                break
            shared += 1
        return between_turns[shared:]


def _slots(number: int) -> list[str]:
    """Placeholders that `_PLACEHOLDER` finds again."""
    return [f"72049583{index:06d}61385940" for index in range(number)]
