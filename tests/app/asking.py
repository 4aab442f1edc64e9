"""Asking a chat service that answers from a script, and waiting for what comes of it.

Used by the tests of the chat service.
"""

import time
from collections.abc import Callable

from app.services import AnswerJob, AnswerOptions, ChatService
from tests.app.scripted_engine import ByteTokenizer, ScriptedEngine

OPTIONS = AnswerOptions()
WAIT = 20.0

Start = Callable[..., ChatService]


def answered(service: ChatService, text: str, conversation_id: int | None = None) -> int:
    """Ask, wait, and return the conversation."""
    job = service.ask(conversation_id, text, OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == "complete", snapshot
    return job.conversation_id


def begun(service: ChatService) -> AnswerJob:
    """An answer that is being written; of an engine with a gate, before its first step."""
    job = service.ask(None, "x", OPTIONS)
    wait_for(lambda: job.snapshot().status == "decoding")
    return job


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def prompt_text(engine: ScriptedEngine, index: int = -1) -> str:
    return ByteTokenizer().decode(list(engine.requests[index].prompt_ids))
