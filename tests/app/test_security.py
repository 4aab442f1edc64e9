"""Foreign hosts and origins are refused; every answer carries the policy."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from app import security

HERE = "127.0.0.1:7860"


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


def ask(
    method: str = "GET", allowed: tuple[str, ...] = security.LOOPBACK_HOSTS, **headers: str
) -> httpx.Response:
    headers = {"host": HERE} | headers

    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(security.SecurityMiddleware(_hello, allowed))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await client.request(method, "/", headers=headers)

    return asyncio.run(request())


@pytest.mark.parametrize("host", [HERE, "localhost:1", "LOCALHOST", "[::1]:7860", "[::1]"])
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert ask(host=host).text == "hello"


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:7860", "127.0.0.1.attacker.example", "", "::1"]
)
def test_another_host_name_is_refused(host: str) -> None:
    answer = ask(host=host)
    assert answer.status_code == 400
    assert "--allowed-host" in answer.text


def test_a_host_name_can_be_allowed() -> None:
    assert ask(host="box.lan:80", allowed=("box.lan",)).status_code == 200
    assert ask(host=HERE, allowed=("box.lan",)).status_code == 400
    assert ask(host="anything", allowed=("*",)).status_code == 200


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        *("http://attacker.example", "http://127.0.0.1:8000", "http://localhost:7860", "null"),
        *("http://[", "http://]", "", "x"),  # malformed
    ],
)
def test_another_origin_is_refused(method: str, origin: str) -> None:
    assert ask(method, origin=origin).status_code == 403


def test_the_own_origin_and_programs_without_one_are_answered() -> None:
    assert ask("POST", origin=f"http://{HERE}").status_code == 200
    assert ask("POST").status_code == 200


def test_every_answer_carries_the_policy() -> None:
    for answer in (ask(), ask(host="attacker.example"), ask(origin="http://attacker.example")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_temporary_folder_is_private_and_goes() -> None:
    with security.private_temporary_folder() as folder:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert not Path(folder).exists()


@pytest.mark.real
def test_gradio_reads_the_prepared_environment(tmp_path: Path) -> None:
    """It reads some variables when it is imported, so this needs a process of its own."""
    code = (
        "import sys, pathlib\n"
        "from app import security\n"
        "security.prepare_environment(pathlib.Path(sys.argv[1]))\n"
        "import app.ui, gradio as gr, gradio.analytics, gradio.utils\n"
        "assert not gradio.analytics.analytics_enabled()\n"
        "assert gradio.utils.get_upload_folder() == sys.argv[1]\n"
        "assert 'torch' not in sys.modules\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GRADIO")}
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
