"""The numbers of an answer: what each is called, what it means, and how it is written.

Knows frozen numbers only. The panel and Compare show the same ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.services.views import AnswerNumbers

__all__ = [
    "COMPARE_NUMBERS",
    "PANEL_NUMBERS",
    "AnswerNumber",
    "counted",
    "duration",
    "number",
    "sampling_words",
    "time_left",
]


@dataclass(frozen=True, slots=True)
class AnswerNumber:
    """One of the numbers; `write` gives its value with its unit, or in words."""

    name: str
    definition: str
    write: Callable[[AnswerNumbers], str]
    is_words: bool = False


def number(name: str, value: str, definition: str) -> dict[str, str]:
    """A number as the page takes it."""
    return {"name": name, "value": value, "definition": definition}


def duration(seconds: float) -> str:
    """`1.25 s`, `250 ms`."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def counted(count: int, noun: str) -> str:
    """`1 token`, `1,234 tokens`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def time_left(seconds: float) -> str:
    """`about 3 minutes left`, in steps that do not flicker."""
    if seconds < 10:
        return "a few seconds left"
    if seconds < 55:
        return f"about {10 * round(seconds / 10):.0f} seconds left"
    if seconds < 90:
        return "about a minute left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes left"
    return f"about {counted(round(seconds / 3600), 'hour')} left"


def _percent(share: float, places: int = 0) -> str:
    return f"{100 * share:.{places}f} %"


_SPEED = AnswerNumber(
    "tokens/s",
    "Tokens that decode steps emitted per second of decoding; reading the prompt is not counted, "
    "and – stands where that was all.",
    lambda numbers: f"{numbers.tokens_per_second:.1f}" if numbers.num_steps else "–",
)
_FIRST = AnswerNumber(
    "to first token",
    "From the beginning of the prefill, which is when the answer's turn comes: reading what is new "
    "of the conversation, which gives the first token.",
    lambda numbers: duration(numbers.prefill_seconds),
)
_FORWARDS = AnswerNumber(
    "forwards",
    "Forward passes of the model: chunks of the prompt, and one for each decode step.",
    lambda numbers: f"{numbers.num_forwards:,}",
)
_PER_STEP = AnswerNumber(
    "tokens per step",
    "Mean accepted length + 1 over all decode steps, the prefill not counted; 1.00 is no gain, – "
    "is no step.",
    lambda numbers: f"{numbers.tokens_per_step:.2f}" if numbers.num_steps else "–",
)
_ACCEPTANCE = AnswerNumber(
    "acceptance",
    "Drafted tokens that the model accepted, of all that were drafted; – where none were.",
    lambda numbers: _percent(numbers.acceptance_rate) if numbers.num_drafted_tokens else "–",
)
_ACCEPTANCE_COUNTED = replace(  # where there is room for it
    _ACCEPTANCE,
    write=lambda numbers: (
        f"{_ACCEPTANCE.write(numbers)}, {numbers.num_accepted_tokens:,} of "
        f"{numbers.num_drafted_tokens:,}"
        if numbers.num_drafted_tokens
        else "–"
    ),
)
_REUSED = AnswerNumber(
    "reused / prefilled",
    "Tokens of the prompt kept in memory from the turn before, and tokens read now.",
    lambda numbers: f"{numbers.reused_length:,} / {numbers.prefilled_length:,}",
)
_DRAFTING = AnswerNumber(
    "drafting",
    "Share of the decoding time that went into looking for drafts and learning from the verified "
    "rows.",
    lambda numbers: _percent(numbers.drafting_share, 1) if numbers.num_steps else "–",
)
_TIME = AnswerNumber(
    "decode time",
    "Model time of all decode steps, drafting included; the race goes by it.",
    lambda numbers: f"{numbers.decode_seconds:.2f} s",
)
_TOKENS = AnswerNumber(
    "tokens",
    "Tokens of the answer, the first one included, which reading the prompt gives.",
    lambda numbers: f"{numbers.num_tokens:,}",
)
_STEPS = AnswerNumber(
    "decode steps",
    "Forward passes of the model after the prompt was read; plain decoding takes one a token.",
    lambda numbers: f"{numbers.num_steps:,}",
)


def sampling_words(numbers: AnswerNumbers) -> str:
    """`temperature 0.8, top-p 0.9, seed 42`, with what is off left out."""
    said = [
        f"{name} {value:g}"
        for name, value, off in (
            ("temperature", numbers.temperature, 0),
            ("top-k", numbers.top_k, 0),
            ("top-p", numbers.top_p, 1),
            ("min-p", numbers.min_p, 0),
            ("repetition penalty", numbers.repetition_penalty, 1),
        )
        if value != off
    ]
    if numbers.seed is None:  # where the likeliest token is taken, the filters change nothing
        is_penalized = numbers.repetition_penalty != 1
        return ", ".join(["greedy", *(said[-1:] if is_penalized else [])])
    return ", ".join([*said, f"seed {numbers.seed}"])


_SAMPLING = AnswerNumber(
    "sampling",
    "How each token was chosen; the same settings and seed give the same answer to the same "
    "conversation, whatever was drafted: exactly in strict mode, up to ties in flexible mode.",
    sampling_words,
    is_words=True,
)

PANEL_NUMBERS = (_SPEED, _FIRST, _FORWARDS, _PER_STEP, _ACCEPTANCE, _REUSED, _DRAFTING, _SAMPLING)
COMPARE_NUMBERS = (
    _SPEED,
    _TIME,
    _TOKENS,
    _STEPS,
    _FORWARDS,
    _PER_STEP,
    _ACCEPTANCE_COUNTED,
    _FIRST,
)
