"""A script that must run before gradio's own, put into the page on its way out.

Gradio aborts its event stream when the page unloads, and then complains about the abort in a toast
and in the console; the browser closes the stream anyway. Listeners of the window run in the order
they were added, and what gradio lets us add to the page comes after its own, hence this detour.
Knows nothing else of the page; used by `app.server`.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["EarlyScript"]

_SCRIPT = (
    b"<head><script>addEventListener('beforeunload', "
    b"(event) => event.stopImmediatePropagation())</script>"
)


class EarlyScript:
    """Puts the script at the top of the page; everything else passes untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        start: Message = {}
        body = bytearray()

        async def collect(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                page = bytes(body)
                if Headers(raw=start["headers"]).get("content-type", "").startswith("text/html"):
                    page = page.replace(b"<head>", _SCRIPT, 1)
                    MutableHeaders(raw=start["headers"])["content-length"] = str(len(page))
                await send(start)
                await send({"type": "http.response.body", "body": page})

        await self._app({**scope, "headers": headers}, receive, collect)
