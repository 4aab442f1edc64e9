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
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from anyio import CapacityLimiter, WouldBlock, to_thread
from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from app import __version__
from app.api_request import ApiError, parse_completion_request
from app.prompting import MessageTooLongError
from app.services.errors import (
    EngineNotReadyError,
    NothingToAnswerError,
    ServiceClosedError,
    ServiceError,
)
from app.services.views import AnswerOptions, Completion, EngineState
from lookahead.config import SAMPLING_RANGES
from lookahead.errors import ContextFullError, LookaheadError

__all__ = ["CompletionService", "api_router"]

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_REQUESTS = 16  # answered or waiting; one model answers them one after the other
_RETRY_SECONDS = 5
_CLIENT_CLOSED_REQUEST = 499
_FINISH_REASONS = {"length": "length", "context": "length"}


class CompletionService(Protocol):
    """What the API needs of the chat service."""

    @property
    def state(self) -> EngineState: ...

    def complete(
        self, messages: list[dict[str, str]], options: AnswerOptions, is_cancelled: Any = None
    ) -> Completion: ...


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
