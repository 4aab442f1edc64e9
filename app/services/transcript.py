"""What a generation has yielded so far: ids, text and counters, from the engine's events.

Knows no database. Used by the tasks that answer, complete and compare.
"""

from typing import Any

from app.services.stop_strings import StopStrings
from app.services.text_stream import TextStream
from app.services.views import AnswerNumbers
from lookahead.events import Event, Finished, FinishReason, GenerationStats, PrefillDone, StepDone

__all__ = ["Transcript"]


class Transcript:
    """Collects events.

    Args:
        stats: settings of the generation, and counters at nothing.
        stop: the rule that ends it, for what it leaves of a token.

    Attributes:
        stats: settings and the counters, of the engine itself once it has finished.
        reason: why it ended; CANCELLED until the engine says otherwise.
    """

    def __init__(
        self, tokenizer: Any, stats: GenerationStats, stop: StopStrings | None = None
    ) -> None:
        self._stream = TextStream(tokenizer)
        self.stop = stop
        self.token_ids: tuple[int, ...] = ()
        self.stats = stats
        self.reason = FinishReason.CANCELLED
        self._final_text: str | None = None

    @property
    def text(self) -> str:
        """Text so far; at the end, of all ids decoded at once."""
        return self._stream.text if self._final_text is None else self._final_text

    @property
    def text_lengths(self) -> list[int]:
        """Characters that each of the ids completed; together those of the text."""
        return self._stream.text_lengths

    @property
    def numbers(self) -> AnswerNumbers:
        """The numbers so far."""
        reason = "" if self._final_text is None else self.reason.value
        return AnswerNumbers.from_stats(self.stats, reason)

    def take(self, event: Event) -> None:
        """Add what an event tells."""
        match event:
            case PrefillDone():
                self._count_prefill(event)
                self._append(event.token_ids)
            case StepDone():
                self.stats.count_step(event)
                self._append(event.token_ids)
            case Finished():
                self.token_ids, self.reason, self.stats = (
                    event.token_ids,
                    event.reason,
                    event.stats,
                )

    def finish(self) -> None:
        """No more events will come: the text becomes that of all ids, up to a stop string."""
        self._final_text = self._stream.settle(len(self.token_ids))
        if self.stop is not None and self.reason is FinishReason.STOP:
            self._final_text += self.stop.remainder
            if self.token_ids:
                self._stream.text_lengths[-1] += len(self.stop.remainder)

    def _append(self, token_ids: tuple[int, ...]) -> None:
        self.token_ids += token_ids
        self.stats.num_tokens += len(token_ids)
        self._stream.append(token_ids)

    def _count_prefill(self, event: PrefillDone) -> None:
        stats = self.stats
        stats.prompt_length = event.reused_length + event.prefilled_length
        stats.reused_length = event.reused_length
        stats.prefilled_length = event.prefilled_length
        stats.num_prefill_chunks = event.num_chunks
        stats.prefill_seconds = event.seconds
