"""The options of an answer as they are typed on the page, checked.

Knows numbers and texts only. Called by the handlers of the chat and of the comparison; the HTTP API
has the same limits.
"""

import math
import re
from collections.abc import Sequence
from typing import TypeGuard

from app.page_errors import RefusedInputError
from app.services.views import AnswerOptions
from lookahead.config import SAMPLING_RANGES

__all__ = ["MAX_TEMPERATURE", "Typed", "answer_options", "stop_problem"]

MAX_TEMPERATURE = 2
_MAX_NEW_TOKENS = 1_000_000  # an answer ends where the context is full
_MAX_SEED = 2**64 - 1
_MAX_STOPS = 16  # each is looked for at every token
_MAX_STOP_CHARACTERS = 200

_WHOLE = re.compile(r"[0-9]+|[0-9]{1,3}(,[0-9]{3})+")  # in groups of three or not
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MAX_CHARACTERS = 32

Typed = float | str | None  # of a field for a number; empty: None or ""


def answer_options(
    lookahead: bool,
    temperature: Typed,
    max_new_tokens: Typed,
    seed: Typed = None,
    filters: Sequence[Typed] = (),
) -> AnswerOptions:
    """The options typed on the page; an emptied field means its default.

    Args:
        filters: as typed, top-k, top-p, min-p, repetition penalty, and the stop texts, one a line.

    Raises RefusedInputError.
    """
    top_k, top_p, min_p, repetition_penalty, stop = filters or (None,) * 5
    length = _whole_number("Max tokens", max_new_tokens, 1, _MAX_NEW_TOKENS)
    return AnswerOptions(
        lookahead=bool(lookahead),
        temperature=_number("Temperature", temperature, 0, MAX_TEMPERATURE),
        max_new_tokens=AnswerOptions().max_new_tokens if length is None else length,
        seed=_whole_number("Seed", seed, 0, _MAX_SEED),
        top_k=_whole_number("Top-k", top_k, *map(int, SAMPLING_RANGES["top_k"])),
        top_p=_number("Top-p", top_p, *SAMPLING_RANGES["top_p"]),
        min_p=_number("Min-p", min_p, *SAMPLING_RANGES["min_p"]),
        repetition_penalty=_number(
            "Repetition penalty", repetition_penalty, *SAMPLING_RANGES["repetition_penalty"]
        ),
        stop=_stop_texts(stop),
    )


def _whole_number(field: str, typed: object, least: int, most: int) -> int | None:
    if _is_empty(typed):
        return None
    value = typed
    if isinstance(typed, str):  # no float on the way, which is exact up to 2**53 only
        is_one = _WHOLE.fullmatch(typed.strip()) and len(typed) <= _MAX_CHARACTERS
        value = int(typed.replace(",", "")) if is_one else math.nan
    if not _is_within(value, least, most) or value != int(value):
        raise RefusedInputError(f"{field} must be a whole number from {least:,} to {most:,}.")
    return int(value)


def _number(field: str, typed: object, least: float, most: float) -> float | None:
    if _is_empty(typed):
        return None
    value = typed
    if isinstance(typed, str):
        text = typed.strip().replace(",", ".")
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not _is_within(value, least, most):
        raise RefusedInputError(f"{field} must be a number from {least:g} to {most:g}.")
    return float(value)


def _is_empty(typed: object) -> bool:
    return typed is None or (isinstance(typed, str) and not typed.strip())


def _is_within(value: object, least: float, most: float) -> TypeGuard[float]:
    return isinstance(value, int | float) and least <= value <= most


def _stop_texts(typed: object) -> tuple[str, ...]:
    r"""One text a line, in which `\n` stands for the end of a line and `\t` for a tab."""
    if typed is None:
        return ()
    if not isinstance(typed, str):
        raise RefusedInputError("Stop at must be text, one a line.")
    lines = (line.replace("\\n", "\n").replace("\\t", "\t") for line in typed.splitlines())
    texts = tuple(dict.fromkeys(line for line in lines if line))
    problem = stop_problem(texts)
    if problem:
        raise RefusedInputError(f"Stop at {problem}")
    return texts


def stop_problem(texts: Sequence[str]) -> str:
    """Why these cannot be texts to stop at, to follow their name; "" where they can."""
    if len(texts) > _MAX_STOPS:
        return f"takes {_MAX_STOPS} texts at most; these are {len(texts):,}."
    if any(len(text) > _MAX_STOP_CHARACTERS for text in texts):
        return f"takes texts of {_MAX_STOP_CHARACTERS} characters at most."
    return ""
