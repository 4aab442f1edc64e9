"""What the page's scripts send, checked: the browser may send anything.

Used by the handlers.
"""

from typing import Any

from app.page_errors import RefusedInputError

__all__ = ["MAX_DIGITS", "checked_flag", "checked_number", "checked_numbers", "checked_text"]

MAX_DIGITS = 18  # what fits the database's integers
MAX_TEXT_LENGTH = 20_000  # a path of 4,096 bytes, each of them quoted, and some more


def checked_number(payload: object, name: str) -> int:
    """An id or an index out of a payload. Raises RefusedInputError."""
    number = _member(payload, name)
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 10**MAX_DIGITS:
        raise _unexpected()
    return number


def checked_numbers(payload: object, name: str, max_length: int) -> list[int]:
    """So many ids at most out of a payload. Raises RefusedInputError."""
    numbers = _member(payload, name)
    if not isinstance(numbers, list) or len(numbers) > max_length:
        raise _unexpected()
    return [checked_number({name: number}, name) for number in numbers]


def checked_flag(payload: object, name: str) -> bool:
    """A yes or no out of a payload. Raises RefusedInputError."""
    flag = _member(payload, name)
    if not isinstance(flag, bool):
        raise _unexpected()
    return flag


def checked_text(payload: object, name: str) -> str:
    """A text out of a payload, such as a key that the page was given. Raises RefusedInputError."""
    text = _member(payload, name)
    if not isinstance(text, str) or len(text) > MAX_TEXT_LENGTH:
        raise _unexpected()
    return text


def _member(payload: object, name: str) -> Any:
    return payload.get(name) if isinstance(payload, dict) else None


def _unexpected() -> RefusedInputError:
    return RefusedInputError("The page sent something unexpected; reload it.")
