"""What `/v1/chat/completions` takes: OpenAI's request body, checked part by part.

Knows no service, no model and no HTTP but its status codes. Used by `app.api`.
"""

from collections.abc import Mapping
from typing import Any

from app.services.views import AnswerOptions
from app.typed_options import MAX_TEMPERATURE, stop_problem
from lookahead.config import SAMPLING_RANGES

__all__ = ["ApiError", "parse_completion_request"]

MAX_MESSAGES = 1_000
MAX_CHARACTERS = 200_000  # more than any context takes, and what a tokenizer reads in a blink
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
# Parameters that are not supported yet, with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
}


class ApiError(Exception):
    """A request that is refused, in OpenAI's shape; the message says what to change."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        parameter: str | None = None,
        code: str | None = None,
        retry_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
        self.body = {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def parse_completion_request(body: object) -> tuple[list[dict[str, str]], AnswerOptions]:
    """The messages and options of a request body.

    Raises:
        ApiError: something is missing, out of range or not supported; it says which and why.
    """
    if not isinstance(body, Mapping):
        raise ApiError("The request must be a JSON object.")
    if _boolean(body, "stream", False):
        raise ApiError(
            "Streaming is not supported yet: send the request without stream, or with "
            "stream set to false.",
            parameter="stream",
            code="unsupported_parameter",
        )
    for name, neutral in _NEUTRAL.items():
        if body.get(name) is not None and body[name] not in neutral:
            raise ApiError(
                f"{name} is not supported yet; leave it out.",
                parameter=name,
                code="unsupported_parameter",
            )
    _check_model(body.get("model"))
    return _messages(body.get("messages")), _options(body)


def _check_model(model: object) -> None:
    """Any name is taken, since one model is served; the answer says which."""
    if model is not None and not isinstance(model, str):
        raise ApiError("model must be a string.", parameter="model")


def _messages(value: object) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise ApiError(
            "messages must be a list with at least one message, such as "
            '[{"role": "user", "content": "Hello"}].',
            parameter="messages",
        )
    if len(value) > MAX_MESSAGES:
        raise ApiError(
            f"messages has {len(value):,} messages; at most {MAX_MESSAGES:,} are taken.",
            parameter="messages",
        )
    messages = [_message(index, message) for index, message in enumerate(value)]
    num_characters = sum(len(message["content"]) for message in messages)
    if num_characters > MAX_CHARACTERS:
        raise ApiError(
            f"messages have {num_characters:,} characters in all; at most {MAX_CHARACTERS:,} are "
            "taken.",
            parameter="messages",
            code="context_length_exceeded",
        )
    if messages[-1]["role"] != "user":
        raise ApiError("The last of the messages must have the role user.", parameter="messages")
    return messages


def _message(index: int, value: object) -> dict[str, str]:
    where = f"messages[{index}]"
    if not isinstance(value, Mapping):
        raise ApiError(f"{where} must be an object with role and content.", parameter=where)
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise ApiError(
            f"{where}.role must be one of {', '.join(_ROLES)}.", parameter=f"{where}.role"
        )
    return {"role": _ROLES[role], "content": _content(f"{where}.content", value.get("content"))}


def _content(where: str, value: object) -> str:
    """A string, or OpenAI's list of text parts joined."""
    if isinstance(value, str):
        return _valid_text(where, value)
    if not isinstance(value, list):
        raise ApiError(f"{where} must be a string or a list of text parts.", parameter=where)
    for part in value:
        is_text = isinstance(part, Mapping) and part.get("type") == "text"
        if not is_text or not isinstance(part.get("text"), str):
            raise ApiError(f"{where} may hold text parts only.", parameter=where)
    return _valid_text(where, "".join(part["text"] for part in value))


def _valid_text(where: str, text: str) -> str:
    """JSON can hold half of a surrogate pair, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ApiError(
            f"{where} has half of a surrogate pair at character {error.start}.", parameter=where
        ) from error
    return text


def _options(body: Mapping[str, Any]) -> AnswerOptions:
    default = AnswerOptions()
    limit = (
        "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    )
    if body.get("top_k") == -1:  # as other servers write "all"
        body = {**body, "top_k": 0}
    return AnswerOptions(
        lookahead=_boolean(body, "lookahead", default.lookahead),
        temperature=_number(body, "temperature", 0, MAX_TEMPERATURE),
        max_new_tokens=_integer(body, limit, 1, 1_000_000) or default.max_new_tokens,
        seed=_integer(body, "seed", 0, 2**64 - 1),
        top_k=_integer(body, "top_k", *map(int, SAMPLING_RANGES["top_k"])),
        top_p=_number(body, "top_p", *SAMPLING_RANGES["top_p"]),
        min_p=_number(body, "min_p", *SAMPLING_RANGES["min_p"]),
        repetition_penalty=_number(
            body, "repetition_penalty", *SAMPLING_RANGES["repetition_penalty"]
        ),
        stop=_stop(body.get("stop")),
    )


def _stop(value: object) -> tuple[str, ...]:
    """One text or several at which the answer ends; "" and [] are none."""
    if value is None or value == "":
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise ApiError("stop must be a text or a list of texts, none empty.", parameter="stop")
    problem = stop_problem(texts)
    if problem:
        raise ApiError(f"stop {problem}", parameter="stop")
    return tuple(_valid_text("stop", text) for text in texts)


def _boolean(body: Mapping[str, Any], name: str, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ApiError(f"{name} must be true or false.", parameter=name)
    return value


def _number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ApiError(f"{name} must be a number from {low:g} to {high:g}.", parameter=name)
    return float(value)


def _integer(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ApiError(f"{name} must be a whole number from {low} to {high}.", parameter=name)
    return value
