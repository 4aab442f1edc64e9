"""A prompt as the engine takes it, and the turns it is made of.

Data alone. Made by the PromptBuilder and the answer task.
"""

from dataclasses import dataclass

from app.chat_template import Quote
from storage.records import UNKNOWN_OFFSET

__all__ = ["PlacedQuote", "Prompt", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A question with what is quoted before it, and its answer's ids; None: to be answered."""

    text: str
    answer_ids: tuple[int, ...] | None = None
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedQuote:
    """A quote, and the index of its first token in the prompt."""

    start: int
    quote: Quote

    @property
    def end(self) -> int:
        """The index behind its last token."""
        return self.start + len(self.quote.token_ids)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, ready for the engine.

    Args:
        token_ids: the whole prompt.
        user_turn_start: index of the first token of the last user turn, its control tokens
            included: what becomes history begins here.
        num_dropped_turns: whole oldest turns left out because the context is full.
        stop_strings: texts at which the answer has to be cut (plain format only).
        quotes: what is quoted before the questions, in order.
    """

    token_ids: tuple[int, ...]
    user_turn_start: int
    num_dropped_turns: int = 0
    stop_strings: tuple[str, ...] = ()
    quotes: tuple[PlacedQuote, ...] = ()

    @property
    def history_ids(self) -> tuple[int, ...]:
        """The last user turn as the person wrote it: what becomes history, before the answer."""
        kept: tuple[int, ...] = ()
        start = self.user_turn_start
        for placed in self.quotes:
            if placed.start >= start:
                kept += self.token_ids[start : placed.start]
                start = placed.end
        return kept + self.token_ids[start:]

    @property
    def document_ranges(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each passage of a document."""
        return tuple(
            (placed.start, placed.end) for placed in self.quotes if placed.quote.is_passage
        )

    def origin(self, index: int) -> tuple[int, int] | None:
        """Sequence of a quoted token, and its offset in it or UNKNOWN_OFFSET; None: not known."""
        for placed in self.quotes:
            quote = placed.quote
            if placed.start <= index < placed.end and quote.sequence_id is not None:
                if quote.offset is None:
                    return quote.sequence_id, UNKNOWN_OFFSET
                return quote.sequence_id, quote.offset + index - placed.start
        return None
