"""The server: page and API as one application on one socket, from start to Ctrl-C.

Knows how the parts are put together and nothing of what they do. Called by the command line, which
brings the settings and an open socket. Gradio takes seconds to import, so it is imported here only
when a server starts.
"""

import contextlib
import logging
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from app import __version__, security
from app.settings import Settings
from app.upload_folder import upload_folder

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["create_application", "serve"]

_MAX_UPLOAD_SIZE = "100mb"


def serve(settings: Settings, listening_socket: socket.socket, say: Callable[[str], None]) -> None:
    """Serve page and API until Ctrl-C; the model loads while the page is already up.

    Args:
        say: tells the user where the page is.

    Raises:
        KeyboardInterrupt: it was interrupted, and everything was closed in order.
    """
    with (
        security.private_temporary_folder() as temporary_folder,
        contextlib.ExitStack() as ending,
    ):
        security.prepare_environment(Path(temporary_folder))
        from app.services.chat_service import ChatService
        from app.services.views import ServiceConfig

        service = ChatService(ServiceConfig(**settings.service_values()))
        uploads_folder = ending.enter_context(
            upload_folder(settings.data_dir, otherwise=Path(temporary_folder) / "uploads")
        )
        ending.callback(service.close)  # before the folder goes that it may be reading
        application = create_application(service, settings, uploads_folder)
        address = _address(listening_socket)

        def started() -> None:
            say(f"Lookahead Chat is at {address} (Ctrl-C ends it)")
            service.start()
            if settings.open_browser:
                threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

        config = uvicorn.Config(application, log_config=None, timeout_keep_alive=30)
        _Server(config, started).run(sockets=[listening_socket])


def create_application(service: "ChatService", settings: Settings, uploads_folder: Path) -> ASGIApp:
    """Page and API behind the security middleware.

    `security.prepare_environment` must have been called before: gradio reads it when imported.

    Args:
        uploads_folder: where uploads are received.
    """
    import gradio as gr

    from app.api import api_router
    from app.compare_handlers import CompareHandlers
    from app.demo_handlers import DemoHandlers
    from app.document_handlers import DocumentHandlers
    from app.early_script import EarlyScript
    from app.handlers import PageHandlers
    from app.idle_streams import IdleStreams
    from app.settings_handlers import SettingsHandlers
    from app.trie_handlers import TrieHandlers
    from app.ui import PAGE_CSS, Handlers, build_page, page_theme
    from app.undo_handlers import UndoHandlers
    from app.uploads import Uploads, upload_router

    application = FastAPI(
        title="Lookahead Chat", version=__version__, openapi_url=None, docs_url=None, redoc_url=None
    )
    application.include_router(api_router(service))
    uploads = Uploads(uploads_folder, is_importing=lambda: service.running_import() is not None)
    application.include_router(upload_router(uploads))
    handlers = PageHandlers(service)
    all_handlers = Handlers(
        handlers,
        DemoHandlers(service, handlers),
        CompareHandlers(service),
        DocumentHandlers(service, handlers.panel, uploads),
        UndoHandlers(service, handlers),
        TrieHandlers(service),
        SettingsHandlers(service),
    )
    page = build_page(all_handlers, default_lookahead=settings.lookahead)
    gr.mount_gradio_app(
        application,
        page,
        path="/",
        theme=page_theme(),
        css_paths=PAGE_CSS,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        show_error=False,  # what the user should read is raised as gr.Error
        allowed_paths=[],
        blocked_paths=[str(settings.data_dir)],
        max_file_size=_MAX_UPLOAD_SIZE,
    )
    hosts = (*security.LOOPBACK_HOSTS, settings.host, *settings.allowed_hosts)
    return security.SecurityMiddleware(EarlyScript(IdleStreams(application, page)), hosts)


class _Server(uvicorn.Server):
    """Calls back when the page is up, and ends at the first signal."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started_callback = started

    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        await super().startup(sockets=list(sockets or ()))
        self._started_callback()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """An open page keeps its connection for ever, so it is cut off; that is no error."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        super().handle_exit(sig, frame)
        self.force_exit = True


def _address(listening_socket: socket.socket) -> str:
    host, port = listening_socket.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
