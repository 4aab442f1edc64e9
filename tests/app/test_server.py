"""The server as a process of its own: it comes up, and Ctrl-C ends it in order."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
]

PATIENCE = 120  # the machine may be busy with other things

# The scripted service in the place of the real one, so that no model is needed.
PROGRAM = """
import dataclasses, logging, os, pathlib, sys
import app.services.chat_service as chat_service
from app.listening import open_listening_socket
from app.server import serve
from app.settings import Settings
from tests.app.scripted_service import ScriptedService

class Service(ScriptedService):
    def __init__(self, config):
        super().__init__()
        self.is_started = False
    def start(self):
        print("started", flush=True)
    def close(self):
        print("closed", os.environ["GRADIO_TEMP_DIR"], flush=True)

logging.basicConfig(level=logging.WARNING)
chat_service.ChatService = Service
listening = open_listening_socket("127.0.0.1", None)
print(listening.getsockname()[1], flush=True)
try:
    settings = Settings(data_dir=pathlib.Path(sys.argv[1]), open_browser=False)
    serve(settings, listening, lambda sentence: print(sentence, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root,
    )
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_ends_it_while_a_page_is_open(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    address = f"http://127.0.0.1:{int(process.stdout.readline())}"
    assert process.stdout.readline() == f"Lookahead Chat is at {address}/ (Ctrl-C ends it)\n"
    assert process.stdout.readline() == "started\n"
    assert httpx.get(f"{address}/health").json()["ready"] is True
    page = httpx.get(f"{address}/", headers={"accept-encoding": "gzip, br"})
    assert int(page.headers["content-length"]) == len(page.content)
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.text.index("beforeunload") < page.text.index('type="module"')
    with httpx.stream(
        "GET", f"{address}/gradio_api/heartbeat/0123456789", timeout=PATIENCE
    ) as open_page:
        next(open_page.iter_bytes())
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=PATIENCE)  # the page is open meanwhile
    closed, interrupted = output.splitlines()
    assert interrupted == "interrupted"
    assert not Path(closed.removeprefix("closed ")).exists(), "uploads are left behind"
    assert complaints == ""
