"""What keeps the page and the API private: hosts, origins, content policy, temporary files.

Knows no chat and no model; it looks at headers only. `app.server` wraps the whole application with
`SecurityMiddleware` and calls `prepare_environment` before gradio is imported.
"""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "CONTENT_SECURITY_POLICY",
    "LOOPBACK_HOSTS",
    "SecurityMiddleware",
    "prepare_environment",
    "private_temporary_folder",
]

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")

# Gradio compiles its templates in the browser, hence 'unsafe-eval'; nothing may leave this server.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self' data: blob:; form-action 'none'; "
    "object-src 'none'; base-uri 'self'; frame-ancestors 'none'"
)

_RESPONSE_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def prepare_environment(temporary_folder: Path) -> None:
    """Switch off everything that would leave this machine, and keep uploads in a private folder.

    Call it before gradio is imported; it reads these variables once.
    """
    os.environ.update(
        GRADIO_ANALYTICS_ENABLED="False",
        HF_HUB_DISABLE_TELEMETRY="1",
        DO_NOT_TRACK="1",
        GRADIO_SHARE="False",
        GRADIO_TEMP_DIR=str(temporary_folder),
    )


def private_temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder that only this user can read (mode 0700); gone when it is cleaned up."""
    return tempfile.TemporaryDirectory(prefix="lookahead-chat-", ignore_cleanup_errors=True)


class SecurityMiddleware:
    """Refuses foreign hosts and origins, and adds the security headers to every answer.

    A page of another site could otherwise talk to this server through the user's browser: by DNS
    rebinding (its own name in `Host`) or by a cross-origin request (its name in `Origin`).

    Args:
        app: the application that answers what is let through.
        allowed_hosts: names without port that `Host` may carry; "*" lets every name through.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str] = LOOPBACK_HOSTS) -> None:
        self._app = app
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "http":
            await refusal(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        if "*" not in self._allowed_hosts and _without_port(host) not in self._allowed_hosts:
            return PlainTextResponse(
                "This server does not answer to that host name. If it should, start it with "
                "--allowed-host NAME.\n",
                status_code=400,
            )
        origin = headers.get("origin")
        if origin is not None and _host_of(origin) != host:
            return PlainTextResponse(
                "Requests from other sites are not allowed.\n", status_code=403
            )
        return None


def _host_of(origin: str) -> str | None:
    """`http://localhost:7860` → `localhost:7860`; None: it is malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _without_port(host: str) -> str:
    """`[::1]:7860` → `[::1]`, `localhost:7860` → `localhost`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _RESPONSE_HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers
