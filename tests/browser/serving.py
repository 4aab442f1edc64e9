"""A server of the page in this process, for as long as a test or a module wants it.

Knows no service; whoever brings one closes it. Used by the tests of the page.
"""

import dataclasses
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from app import security, server
from app.settings import Settings

__all__ = ["served"]


@contextmanager
def served(service: Any, data_dir: Path) -> Iterator[str]:
    """The address of a server with this service behind its page."""
    with security.private_temporary_folder() as folder, pytest.MonkeyPatch.context() as patch:
        for name in ("GRADIO_TEMP_DIR", "GRADIO_ANALYTICS_ENABLED", "GRADIO_SHARE"):
            patch.setenv(name, "")  # so that it is as before afterwards
        security.prepare_environment(Path(folder))
        settings = dataclasses.replace(Settings(), data_dir=data_dir)
        uploads = data_dir / "uploads" / "of-this-test"
        application = server.create_application(service, settings, uploads)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            running = uvicorn.Server(uvicorn.Config(application, log_config=None))
            thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
            finally:
                running.should_exit = running.force_exit = True
                thread.join()
