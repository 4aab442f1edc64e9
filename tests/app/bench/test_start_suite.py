"""Starts: medians of what was measured, and a scripted program that is watched starting."""

import sys
from pathlib import Path

import pytest

from app.bench import start_suite
from app.bench.errors import BenchError
from app.bench.options import BenchOptions
from app.bench.start_suite import Start, run_start_suite, start_report

PROGRAM = """
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        ready = Handler.asked > 3
        self.reply({"ready": ready, "status": "ready" if ready else "loading"})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["max_tokens"] == 1
        self.reply({})
    def reply(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_medians_of_each_kind_and_stage() -> None:
    starts = [Start("cold", 1.0, 5.0, 6.0), Start("warm", 0.5, 2.0, 2.5)]
    starts += [Start("cold", 3.0, 7.0, 8.0), Start("cold", 2.0, 6.0, 7.0)]
    report = start_report(starts)
    values = {figure.name: figure.value for figure in report.figures}
    assert values["start.cold.page_seconds"] == 2.0
    assert values["start.cold.first_token_seconds"] == 7.0
    assert values["start.warm.ready_seconds"] == 2.0
    assert report.tables[0].rows == (
        ("cold", "3", "2.00", "6.00", "7.00"),
        ("warm", "1", "0.50", "2.00", "2.50"),
    )


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def options(model_folder: Path) -> BenchOptions:
    from app.settings import Settings

    return BenchOptions(suite="start", limit=1, settings=Settings(model=str(model_folder)))


@pytest.mark.real
def test_a_start_is_watched_from_page_to_first_token(
    monkeypatch: pytest.MonkeyPatch, model_folder: Path
) -> None:
    monkeypatch.setattr(
        start_suite, "_command", lambda _o, _m, port: [sys.executable, "-c", PROGRAM, str(port)]
    )
    report = run_start_suite(options(model_folder), lambda _: None)
    assert [row["kind"] for row in report.rows] == ["cold", "warm"]
    for row in report.rows:
        assert 0 < row["page_seconds"] <= row["ready_seconds"] <= row["first_token_seconds"]


@pytest.mark.real
def test_a_program_that_ends_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, model_folder: Path
) -> None:
    words = "import sys; print('first'); sys.exit('The disk is full.')"
    monkeypatch.setattr(start_suite, "_command", lambda *_: [sys.executable, "-c", words])
    with pytest.raises(BenchError, match=r"it ended with status 1.*The disk is full\."):
        run_start_suite(options(model_folder), lambda _: None)


def test_the_app_is_started_with_the_settings_and_folders_of_its_own(
    monkeypatch: pytest.MonkeyPatch, model_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOOKAHEAD_CHAT_PORT", "1")
    command = start_suite._command(options(model_folder), model_folder, 4321)
    assert command[1:7] == ["-m", "app", "chat", "--no-open", "--port", "4321"]
    environment = start_suite._environment(tmp_path)
    assert "LOOKAHEAD_CHAT_PORT" not in environment
    assert environment["LOOKAHEAD_CHAT_CACHE_DIR"] == str(tmp_path / "cache")
