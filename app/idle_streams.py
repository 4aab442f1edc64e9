"""A tab's event stream with nothing to tell ends at once.

Gradio's page opens its stream when it learns that an event was taken, also where that event's end
was told by an earlier stream meanwhile; and gradio's server ends a stream only with the end of an
event. Such a stream stays for good, and six of them are all that a browser has for one address.
Knows gradio's queue and no event of the page; used by `app.server`.

What gradio keeps of its tabs is no public part of it: where another version keeps it elsewhere, no
stream is ended, and all else works.
"""

import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    import gradio as gr

__all__ = ["IdleStreams"]

logger = logging.getLogger(__name__)

_STREAM_PATH = "/gradio_api/queue/data"
_CLOSING = b'data: {"msg": "close_stream"}\n\n'  # what gradio says at the end of a stream


class IdleStreams:
    """Answers for gradio where a stream is opened with nothing pending; the rest passes untouched.

    Args:
        page: whose queue tells what is pending.
    """

    def __init__(self, app: ASGIApp, page: "gr.Blocks") -> None:
        self._app = app
        self._page = page
        self._can_tell = True  # what is pending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] == _STREAM_PATH and self._is_idle(scope):
            app = Response(_CLOSING, media_type="text/event-stream")
        await app(scope, receive, send)

    def _is_idle(self, scope: Scope) -> bool:
        """Of a tab that the server does not know, gradio says so itself."""
        tab = parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", [""])[0]
        try:
            queue = self._page._queue
            is_known = tab in queue.pending_messages_per_session
            return is_known and not queue.pending_event_ids_session.get(tab)
        except AttributeError as error:
            if self._can_tell:
                logger.warning("this gradio does not tell which streams are idle: %s", error)
                self._can_tell = False
            return False
