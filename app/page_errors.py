"""The boundary of the page: an error becomes one sentence, and the page stays as it was.

Used by every class of handlers.
"""

import html
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import gradio as gr

from app.paths import PathError
from app.plain_text import displayable, displayable_name
from app.services.errors import ServiceError
from lookahead.errors import LookaheadError
from storage.errors import StorageError

__all__ = [
    "RefusedInputError",
    "answers_errors",
    "shows_errors",
    "told",
]

logger = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")


class RefusedInputError(Exception):
    """What was typed or sent cannot be used; the message says why."""


_TOLD_ERRORS = (RefusedInputError, PathError, ServiceError, StorageError, LookaheadError)
_UNEXPECTED_ERROR = "Something went wrong inside the app; the log has the details."


def shows_errors(
    num_outputs: int, *, stops: bool = False
) -> Callable[[Callable[Parameters, Any]], Callable[Parameters, Any]]:
    """Decorates a handler with so many outputs: where it fails, they stay as they are.

    Args:
        stops: what is to follow on `success` then does not follow.
    """

    def decorate(handler: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
        @wraps(handler)
        def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            outputs, sentence = _attempted(handler, *args, **kwargs)
            if not sentence:
                return outputs
            told(sentence)
            if stops:
                raise gr.Error(sentence, visible=False, print_exception=False)
            return gr.skip() if num_outputs == 1 else (gr.skip(),) * num_outputs or None

        return guarded

    return decorate


def answers_errors(
    handler: Callable[Parameters, dict[str, Any]],
) -> Callable[Parameters, dict[str, Any]]:
    """Decorates what a script of the page asks: where it fails, it answers {error: a sentence}."""

    @wraps(handler)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> dict[str, Any]:
        answer: dict[str, Any]
        answer, sentence = _attempted(handler, *args, **kwargs)
        return {"error": displayable(sentence)} if sentence else answer

    return guarded


def _attempted(
    handler: Callable[Parameters, Any], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> tuple[Any, str]:
    """What the handler returns, or None and the sentence about what went wrong."""
    try:
        return handler(*args, **kwargs), ""
    except _TOLD_ERRORS as error:
        return None, str(error) or _UNEXPECTED_ERROR
    except Exception:  # the one place behind which gradio would show, and log, what it likes
        logger.exception("%s failed", handler.__name__)
        return None, _UNEXPECTED_ERROR


def told(sentence: str) -> None:
    """Tell the person at the page something that went wrong."""
    gr.Warning(html.escape(displayable_name(sentence), quote=False))
