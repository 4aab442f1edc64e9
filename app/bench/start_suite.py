"""The suite `start`: from the command to the page, to a ready model, to the first token.

Each start is a program of its own, with folders of its own: cold finds nothing measured and no
database, warm finds what the start before it left. The model's files are there in both. Called by
`app.bench`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from app.bench.errors import BenchError
from app.bench.options import BenchOptions
from app.bench.reports import Figure, SuiteReport, Table, format_number
from app.bench.statistics import estimate_median
from lookahead.model_source import prepare_model

__all__ = ["Start", "run_start_suite", "start_report"]

_NUM_STARTS = 3  # of each kind
_POLL_SECONDS = 0.02
_MOST_SECONDS = 600.0
_END_SECONDS = 30.0
_STAGES = (
    ("page_seconds", "page"),
    ("ready_seconds", "model ready"),
    ("first_token_seconds", "first token"),
)

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the command to each stage. `kind`: cold or warm."""

    kind: str
    page_seconds: float
    ready_seconds: float
    first_token_seconds: float


def run_start_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Start and end the app several times.

    Raises:
        BenchError: it did not start; the message has its last words.
    """
    model_path = prepare_model(options.settings.model, report)
    starts: list[Start] = []
    is_interrupted = False
    try:
        for number in range(options.limit or _NUM_STARTS):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                for kind in ("cold", "warm"):
                    report(f"Start {number + 1}, {kind}")
                    starts.append(_start(options, model_path, Path(folder), kind))
    except KeyboardInterrupt:
        if not starts:
            raise
        is_interrupted = True
    found = start_report(starts)
    found.options = {
        "model": Path(options.settings.model).name,
        "dtype": options.settings.dtype,
        "device": options.settings.device,
        "strict": options.settings.strict,
    }
    found.is_complete, found.is_interrupted = not is_interrupted, is_interrupted
    return found


def start_report(starts: list[Start]) -> SuiteReport:
    """Medians of each kind and stage."""
    kinds = [kind for kind in ("cold", "warm") if any(start.kind == kind for start in starts)]
    cells, figures = [], []
    for kind in kinds:
        own = [start for start in starts if start.kind == kind]
        row = [kind, str(len(own))]
        for field, _ in _STAGES:
            estimate = estimate_median([getattr(start, field) for start in own])
            figures.append(Figure.of(f"start.{kind}.{field}", estimate, "s"))
            row.append(format_number(estimate.value))
        cells.append(tuple(row))
    columns = ("caches", "starts", *(f"{title}, s" for _, title in _STAGES))
    table = Table("Seconds from the command, medians", columns, tuple(cells))
    return SuiteReport(
        suite="start",
        tables=[table],
        figures=figures,
        rows=[asdict(start) for start in starts],
        notes=[
            "Cold: nothing measured, no database; the model's files are there and the operating "
            "system may have them in memory. Warm: the start after it, with the same folders."
        ],
    )


def _start(options: BenchOptions, model_path: Path, folder: Path, kind: str) -> Start:
    """One start, from the command to the end of the program."""
    port = _free_port()
    with (folder / "output.txt").open("w+", encoding="utf-8", errors="replace") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            _command(options, model_path, port),
            cwd=Path(__file__).resolve().parents[2],
            env=_environment(folder),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            watched = _Watched(process, f"http://127.0.0.1:{port}", started)
            return Start(kind, watched.page(), watched.ready(), watched.first_token())
        except _NotStarted as error:
            output.seek(0)
            said = output.read().strip().splitlines() or ["nothing"]
            raise BenchError(f"The app did not start ({error}). It said: {said[-1]}") from None
        finally:
            _end(process)


def _command(options: BenchOptions, model_path: Path, port: int) -> list[str]:
    """The model is named by its folder, so that a fresh cache folder does not fetch it again."""
    settings = options.settings
    command = [sys.executable, "-m", "app", "chat", "--no-open", "--port", str(port)]
    command += ["--model", str(model_path), "--device", settings.device, "--dtype", settings.dtype]
    if settings.context_length is not None:
        command += ["--context-length", str(settings.context_length)]
    if settings.strict is not None:
        command.append("--strict" if settings.strict else "--flexible")
    return command


def _environment(folder: Path) -> dict[str, str]:
    own = {
        f"LOOKAHEAD_CHAT_{name}_DIR": str(folder / name.lower())
        for name in ("DATA", "CACHE", "CONFIG")
    }
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("LOOKAHEAD_CHAT_")
    }
    return {**kept, **own}


class _NotStarted(Exception):
    """The program ended, failed to load its model, or took too long."""


class _Watched:
    """Asks a starting program where it stands."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str, started: float) -> None:
        self._process = process
        self._address = address
        self._started = started
        # Proxies of the environment are not for this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def page(self) -> float:
        """Seconds until the page is there."""
        return self._until(lambda: self._get("/") is not None)

    def ready(self) -> float:
        """Seconds until the model is ready."""
        return self._until(self._is_ready)

    def first_token(self) -> float:
        """Seconds until a question has one token of an answer."""
        question = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 1}
        body = json.dumps(question).encode()
        if self._get("/v1/chat/completions", body) is None:
            raise _NotStarted("it did not answer")
        return time.perf_counter() - self._started

    def _is_ready(self) -> bool:
        state = json.loads(self._get("/health") or b"{}")
        if state.get("status") == "failed":
            raise _NotStarted(str(state.get("detail")))
        return bool(state.get("ready"))

    def _get(self, path: str, body: bytes | None = None) -> bytes | None:
        request = urllib.request.Request(self._address + path, body)
        request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=_MOST_SECONDS) as response:
                content: bytes = response.read()
                return content
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def _until(self, is_so: Callable[[], bool]) -> float:
        while not is_so():
            if self._process.poll() is not None:
                raise _NotStarted(f"it ended with status {self._process.returncode}")
            if time.perf_counter() - self._started > _MOST_SECONDS:
                raise _NotStarted(f"it took more than {_MOST_SECONDS:.0f} seconds")
            time.sleep(_POLL_SECONDS)
        return time.perf_counter() - self._started


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, as Ctrl-C does; a program that does not is killed."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
