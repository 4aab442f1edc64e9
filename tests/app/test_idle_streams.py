"""Idle streams: one with nothing to tell is ended, and everything else reaches gradio."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.idle_streams import IdleStreams

STREAM = "/gradio_api/queue/data"


class Gradio:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["type"])


def queue_with(*tabs: str, pending: tuple[str, ...] = ()) -> SimpleNamespace:
    """As gradio's: a tab stays known, and has a set of events, which may be empty."""
    return SimpleNamespace(
        pending_messages_per_session={tab: object() for tab in tabs},
        pending_event_ids_session={tab: {tab} if tab in pending else set() for tab in tabs},
    )


def opened(queue: object, tab: str, path: str = STREAM, kind: str = "http") -> list[Any]:
    """What a page is answered, and what gradio was asked instead."""
    gradio, sent = Gradio(), list[Message]()
    streams = IdleStreams(gradio, SimpleNamespace(_queue=queue))  # type: ignore[arg-type]
    asyncio.run(visit(streams, sent, tab, path, kind))
    return sent or gradio.asked


async def visit(
    streams: IdleStreams, sent: list[Message], tab: str, path: str = STREAM, kind: str = "http"
) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "query_string": f"session_hash={tab}".encode()}
    await streams(scope, receive, send)


def test_a_stream_with_nothing_pending_is_told_to_close() -> None:
    start, body = opened(queue_with("one", "two", pending=("two",)), "one")
    assert start["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in start["headers"]
    assert body["body"] == b'data: {"msg": "close_stream"}\n\n'


def test_a_stream_with_something_pending_is_gradios() -> None:
    assert opened(queue_with("one", "two", pending=("two",)), "two") == ["http"]


def test_a_tab_that_gradio_does_not_know_is_left_to_it() -> None:
    assert opened(queue_with("one"), "two") == ["http"]
    assert opened(queue_with("one"), "") == ["http"]


def test_no_other_request_is_looked_at() -> None:
    assert opened(queue_with("one"), "one", path="/gradio_api/queue/join") == ["http"]
    assert opened(None, "one", kind="websocket") == ["websocket"]


@pytest.mark.parametrize("gone", ["pending_messages_per_session", "pending_event_ids_session"])
def test_a_gradio_that_keeps_this_elsewhere_ends_no_streams_and_breaks_no_page(
    gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The names are private to it; the page would have had no answers at all."""
    queue, gradio = queue_with("one"), Gradio()
    delattr(queue, gone)
    streams = IdleStreams(gradio, SimpleNamespace(_queue=queue))  # type: ignore[arg-type]
    sent: list[Message] = []
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            asyncio.run(visit(streams, sent, "one"))
    assert (gradio.asked, sent) == (["http"] * 3, [])
    assert [gone in record.message for record in caplog.records] == [True], "said once"


def test_a_page_without_a_queue_breaks_nothing_either() -> None:
    gradio, sent = Gradio(), list[Message]()
    streams = IdleStreams(gradio, SimpleNamespace())  # type: ignore[arg-type]
    asyncio.run(visit(streams, sent, "one"))
    assert (gradio.asked, sent) == (["http"], [])
