"""The command line: what it hands over to server, import and pytest, and what it says of errors."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from app import __version__, cli
from app.services.errors import ServiceClosedError
from app.services.views import EngineState, ImportSnapshot
from app.settings import Settings, SettingsError, resolve
from lookahead.errors import ModelSetupError
from storage.errors import DatabaseDamagedError, SchemaTooNewError

ROOT = Path(__file__).resolve().parent.parent.parent


class Served:
    """Stands where the server is: remembers what it was given."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []
        self.during: Callable[[], None] = lambda: None

    def serve(self, settings: Settings, listening_socket: Any, say: Callable[[str], None]) -> None:
        self.settings.append(settings)
        say("It is here.")
        with listening_socket:
            self.during()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    served = Served()
    server = ModuleType("app.server")
    server.serve = served.serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.server", server)
    monkeypatch.setattr(cli, "prepare_model", lambda *_, **__: Path())
    return served


def test_without_a_command_it_chats(served: Served) -> None:
    assert cli.main([]) == 0
    assert served.settings == [Settings()]


def test_options_reach_the_server_as_settings(served: Served, tmp_path: Path) -> None:
    options = "--device cpu --dtype float32 --context-length 256 --flexible --no-lookahead"
    options += " --host localhost --allowed-host a.example --allowed-host b.example --no-open"
    assert cli.main(["chat", *options.split(), "--data-dir", str(tmp_path)]) == 0
    assert served.settings == [
        Settings(
            device="cpu",
            dtype="float32",
            context_length=256,
            strict=False,
            lookahead=False,
            host="localhost",
            allowed_hosts=("a.example", "b.example"),
            data_dir=tmp_path,
            open_browser=False,
        )
    ]


def test_strict_and_open_can_be_said_and_left_open(served: Served) -> None:
    cli.main(["--strict", "--open"])
    cli.main(["--log-level", "error"])
    assert [(s.strict, s.open_browser) for s in served.settings] == [(True, True), (None, True)]


def test_offline_reaches_the_hub_client_and_the_set_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(
        cli, "prepare_model", lambda *_, **options: asked.append(options["may_download"])
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    assert cli.main(["--offline"]) == 0
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert asked == [False]


@pytest.mark.parametrize("arguments", ["--version", "chat --version", "--no-open --version"])
def test_the_version_is_printed(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main(arguments.split())
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"lookahead-chat {__version__}\n"


def test_errors_are_one_sentence_on_stderr(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--port", "x"]) == 1
    assert capsys.readouterr() == ("", "Error: --port must be a whole number, not 'x'.\n")

    def fail(*_: object, **__: object) -> Path:
        raise ModelSetupError("No network.")

    monkeypatch.setattr(cli, "prepare_model", fail)
    assert cli.main([]) == 1
    assert capsys.readouterr() == ("", "Error: No network.\n")
    assert served.settings == []


def test_where_the_page_is_does_not_hang_on_the_log_level(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--log-level", "error"]) == 0
    assert capsys.readouterr() == ("", "It is here.\n")


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Settings)])
def test_an_error_names_a_flag_that_exists(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--open-browser and --allowed-hosts were named, and are none."""
    with pytest.raises(SettingsError) as refused:
        resolve({name: object()}, {}, tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["chat", "--help"])
    assert f"{str(refused.value).split()[0]} " in capsys.readouterr().out.replace(",", " ")


def test_a_model_that_is_nowhere_is_told_before_the_page_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = ModuleType("app.server")
    server.serve = lambda *_: pytest.fail("served")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.server", server)
    monkeypatch.setenv("HF_HUB_OFFLINE", "")  # put back afterwards
    assert cli.main(["--model", "somebody/no-such-model", "--offline"]) == 1
    assert "'somebody/no-such-model'" in capsys.readouterr().err
    assert cli.main(["--model", str(tmp_path)]) == 1
    assert "holds no config.json" in capsys.readouterr().err


def test_ctrl_c_ends_cleanly(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    served.during = lambda: signal.raise_signal(signal.SIGINT)
    assert cli.main([]) == 130
    assert capsys.readouterr().err == "It is here.\nStopped.\n"
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.real
def test_a_second_ctrl_c_ends_at_once() -> None:
    script = (
        "import sys, time, types\n"
        "from app import cli\n"
        "def serve(*_):\n"
        "    try:\n"
        "        print('up', flush=True); time.sleep(60)\n"
        "    finally:\n"
        "        print('closing', flush=True); time.sleep(60)\n"
        "sys.modules['app.server'] = types.SimpleNamespace(serve=serve)\n"
        "cli.prepare_model = lambda *_, **__: None\n"
        "sys.exit(cli.main([]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "closing\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130


class ScriptedJob:
    """An import that goes through the given snapshots."""

    def __init__(self, *snapshots: ImportSnapshot) -> None:
        self._snapshots = list(snapshots)

    def snapshot(self) -> ImportSnapshot:
        return self._snapshots[0]

    def wait_for_change(self, version: int, timeout: float | None = None) -> ImportSnapshot:
        self._snapshots.pop(0)
        return self._snapshots[0]


class ScriptedService:
    """Stands where the chat service is."""

    job: ScriptedJob
    state = EngineState("loading", "Loading the weights", "a-model")
    events: ClassVar[list[str]]

    def __init__(self, config: Any) -> None:
        self.config = config

    def start(self) -> None:
        self.events.append("start")

    def import_paths(self, paths: list[Path], *, is_deeper: bool) -> ScriptedJob:
        self.events.append(f"import {paths[0].name}" + (" deeper" if is_deeper else ""))
        return self.job

    def close(self) -> None:
        self.events.append("close")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedService]:
    class Service(ScriptedService):
        events: ClassVar[list[str]] = []

    module = ModuleType("app.services.chat_service")
    module.ChatService = Service  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.services.chat_service", module)
    monkeypatch.setattr(cli, "prepare_model", lambda *_, **__: Path())
    waiting = ImportSnapshot(0, "waiting")
    running = ImportSnapshot(
        1, "running", num_files_done=1, num_files_total=3, num_tokens=1234, seconds_left=130.0
    )
    done = ImportSnapshot(
        2,
        "complete",
        3,
        3,
        num_documents=2,
        num_tokens=5678,
        skipped=(("x.bin", "binary"),),
        num_dropped=1,
    )
    Service.job = ScriptedJob(waiting, running, done)
    return Service


def test_import_tells_progress_and_what_was_skipped(
    service: type[ScriptedService], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.out == "Imported 2 of 3 files, 5,678 tokens.\n"
    assert (
        "Loading the weights\nImporting: 1 of 3 files, 1,234 tokens, about 2 minutes left\n"
        in told.err
    )
    assert "Skipped x.bin: binary\n" in told.err
    assert "1 earlier version deleted" in told.err
    assert service.events == ["start", f"import {tmp_path.name}", "close"]


def test_import_can_be_deeper(service: type[ScriptedService], tmp_path: Path) -> None:
    assert cli.main(["import", str(tmp_path), "--deeper"]) == 0
    assert f"import {tmp_path.name} deeper" in service.events


def test_an_interrupted_import_says_how_to_go_on(
    service: type[ScriptedService],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(service.job, "wait_for_change", interrupt)
    assert cli.main(["import", str(tmp_path)]) == 130
    assert "The same command goes on" in capsys.readouterr().err
    assert service.events[-1] == "close"


def test_import_prints_json_alone_on_stdout(
    service: type[ScriptedService], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["num_documents"], result["skipped"]) == (2, [["x.bin", "binary"]])


def test_import_of_a_missing_path_loads_nothing(
    service: type[ScriptedService], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", "/nowhere/at/all"]) == 1
    assert "/nowhere/at/all: no such file or folder" in capsys.readouterr().err
    assert service.events == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(("", "is empty"), (" ", "is empty"), ("x" * 300, "no such file or folder")),
        ("~no-such-user/x", "home folder"),
    ],
)
def test_import_refuses_a_path_that_cannot_be_one(
    service: type[ScriptedService], capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    """The empty path was the current folder, the others a traceback."""
    assert cli.main(["import", name]) == 1
    told = capsys.readouterr().err
    assert (said in told, told.count("\n")) == (True, 1)
    assert service.events == []


@pytest.mark.parametrize("folder", ["DATA", "CACHE", "CONFIG"])
def test_a_folder_of_nobody_is_told(
    served: Served, folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"LOOKAHEAD_CHAT_{folder}_DIR", "~no-such-user/x")
    assert cli.main([]) == 1
    assert "home folder" in capsys.readouterr().err
    assert served.settings == []


@pytest.mark.parametrize("error", [DatabaseDamagedError, SchemaTooNewError, ServiceClosedError])
def test_what_the_database_and_the_services_refuse_is_told_in_one_sentence(
    served: Served, error: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged database ended in a traceback."""

    def fail() -> None:
        raise error("It cannot be used.")

    served.during = fail
    assert cli.main([]) == 1
    assert capsys.readouterr().err == "It is here.\nError: It cannot be used.\n"


def test_names_of_files_cannot_write_on_the_terminal(
    service: type[ScriptedService], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name with a line end began a line of its own, and escape sequences were obeyed."""
    name = "a\n\x1b[31m\x9b2J\u202e\udce9.png"
    service.job = ScriptedJob(ImportSnapshot(1, "complete", skipped=((name, "binary"),)))
    assert cli.main(["import", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert told == "Skipped a\\n\\x1b[31m\\x9b2J\\u202e\\udce9.png: binary\n"
    assert cli.main(["import", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["skipped"] == [[name.replace("\udce9", "?"), "binary"]]
    assert (printed.isascii(), printed.count("\n")) == (True, 1)


def test_import_without_a_model_says_why_and_closes(
    service: type[ScriptedService], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.job = ScriptedJob(ImportSnapshot(1, "failed", error="There is no such model."))
    assert cli.main(["import", str(tmp_path), "--json"]) == 1
    assert capsys.readouterr() == ("", "Error: There is no such model.\n")
    assert service.events == ["start", f"import {tmp_path.name}", "close"]


def test_the_tests_are_run_by_pytest_with_the_arguments_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[bool] = []
    monkeypatch.setattr(cli, "ensure_embedded_model", lambda **_: prepared.append(True))
    commands: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], cwd: Path) -> None:
            commands.append([*command, str(cwd)])

        def wait(self) -> int:
            assert prepared == [True]
            return 5

    monkeypatch.setattr(cli.subprocess, "Popen", Process)
    assert cli.main(["test", "--slow", "-k", "trie", "--version"]) == 5
    assert commands == [
        [sys.executable, "-m", "pytest", "--slow", "-k", "trie", "--version", str(ROOT)]
    ]
