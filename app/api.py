"""The HTTP API: `/health`, and `/v1/chat/completions` in OpenAI's shape, without streaming.

Knows no page and no database. `app.server` includes `api_router(service)` before the page. Answers
over the API are not saved, and no word of them is learned; figures are, such as how often drafts
were right and what steps took.
"""

import asyncio
import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from anyio import CapacityLimiter, WouldBlock, to_thread
from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from app import __version__
from app.prompting import MessageTooLongError
from app.services.errors import (
    EngineNotReadyError,
    NothingToAnswerError,
    ServiceClosedError,
    ServiceError,
)
from app.services.views import AnswerOptions, Completion, EngineState
from app.typed_options import MAX_TEMPERATURE, stop_problem
from lookahead.config import SAMPLING_RANGES
from lookahead.errors import ContextFullError, LookaheadError

__all__ = ["ApiError", "CompletionService", "api_router", "parse_completion_request"]

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_MESSAGES = 1_000
MAX_CHARACTERS = 200_000  # more than any context takes, and what a tokenizer reads in a blink
MAX_REQUESTS = 16  # answered or waiting; one model answers them one after the other
_RETRY_SECONDS = 5
_CLIENT_CLOSED_REQUEST = 499
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_FINISH_REASONS = {"length": "length", "context": "length"}
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


class CompletionService(Protocol):
    """What the API needs of the chat service."""

    @property
    def state(self) -> EngineState: ...

    def complete(
        self, messages: list[dict[str, str]], options: AnswerOptions, is_cancelled: Any = None
    ) -> Completion: ...


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


def api_router(service: CompletionService) -> APIRouter:
    """The routes, bound to the service that answers."""
    router = APIRouter()
    places = CapacityLimiter(MAX_REQUESTS)

    @router.get("/health")
    async def health() -> dict[str, Any]:
        state = service.state
        return {
            "status": state.status,
            "detail": state.detail,
            "model": state.model,
            "ready": state.is_ready,
            "version": __version__,
        }

    @router.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        try:
            messages, options = parse_completion_request(await _read_json(request))
            complete = partial(service.complete, messages, options)
            completion = await _complete(complete, request, places)
        except ApiError as error:
            return JSONResponse(error.body, status_code=error.status, headers=error.headers)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED_REQUEST)  # nobody reads it
        return JSONResponse(completion_body(completion))

    return router


async def _read_json(request: Request) -> object:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise ApiError("Send the request as JSON, with Content-Type: application/json.", status=415)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(
                f"The request is larger than {MAX_BODY_BYTES // 1024**2} MiB.", status=413
            )
    try:
        return json.loads(body)
    except ValueError as error:
        raise ApiError(f"The request is not valid JSON: {error}.") from error
    except RecursionError:
        raise ApiError("The request is nested too deeply.") from None


async def _complete(
    complete: Callable[..., Completion], request: Request, places: CapacityLimiter
) -> Completion:
    """Answer in a thread; a client that goes away stops the model between two steps."""
    try:
        places.acquire_on_behalf_of_nowait(request)
    except WouldBlock:
        raise ApiError(
            f"{MAX_REQUESTS} requests are being answered or waiting. Send this one again later.",
            status=503,
            kind="server_error",
            retry_seconds=_RETRY_SECONDS,
        ) from None
    gone = threading.Event()

    async def watch_client() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(0.2)
        gone.set()

    watcher = asyncio.create_task(watch_client())
    try:
        return await to_thread.run_sync(
            partial(complete, is_cancelled=gone.is_set),
            limiter=CapacityLimiter(1),  # not the page's, for whose threads Stop would wait
            abandon_on_cancel=True,
        )
    except (EngineNotReadyError, ServiceClosedError) as error:
        raise ApiError(str(error), status=503, kind="server_error") from error
    except (ContextFullError, MessageTooLongError) as error:
        raise ApiError(str(error), parameter="messages", code="context_length_exceeded") from error
    except (LookaheadError, NothingToAnswerError) as error:
        raise ApiError(str(error)) from error
    except ServiceError as error:
        raise ApiError(str(error), status=500, kind="server_error") from error
    finally:
        places.release_on_behalf_of(request)
        gone.set()  # when the server ends, nobody waits for the answer either
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


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


def completion_body(completion: Completion) -> dict[str, Any]:
    """The answer in OpenAI's shape; `lookahead` adds what the method did."""
    numbers = completion.numbers
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": completion.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": completion.text, "refusal": None},
                "logprobs": None,
                "finish_reason": _FINISH_REASONS.get(completion.reason, "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": completion.prompt_length,
            "completion_tokens": completion.num_tokens,
            "total_tokens": completion.prompt_length + completion.num_tokens,
        },
        "lookahead": {
            "num_steps": numbers.num_steps,
            "num_forwards": numbers.num_forwards,
            "tokens_per_step": round(numbers.tokens_per_step, 4),
            "tokens_per_second": round(numbers.tokens_per_second, 2),
            "acceptance_rate": round(numbers.acceptance_rate, 4),
            "mode": numbers.mode,
            "seed": numbers.seed,
            "sampling": {name: getattr(numbers, name) for name in SAMPLING_RANGES},
        },
    }


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
