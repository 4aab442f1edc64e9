"""The command line: reads the arguments, prepares the model, hands over to the server or a job.

Knows no page and no engine. Called by `launch.py`, by `python -m app` and by `lookahead-chat`.
"""

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app import __version__, paths
from app.bench import BenchError, add_bench_options, parse_bench_options
from app.bench import run as run_bench
from app.listening import PortTakenError, open_listening_socket
from app.plain_text import displayable
from app.services.errors import ServiceError
from app.settings import DTYPES, LOG_LEVELS, LOOPBACK_ADDRESSES, Settings, SettingsError, resolve
from app.terminal import Terminal
from app.trie_commands import add_trie_options, run_trie_command
from lookahead.embedded_model import EMBEDDED_MODEL_NAME, ensure_embedded_model
from lookahead.errors import LookaheadError
from lookahead.model_source import prepare_model
from storage.errors import StorageError

__all__ = ["main"]

_TOP_LEVEL_OPTIONS = ("-h", "--help", "--version")
_EXIT_INTERRUPTED = 130
_POLL_SECONDS = 1.0


class CommandError(Exception):
    """The command cannot be done. The message says why and what to do."""


_TOLD_ERRORS = (
    BenchError,
    CommandError,
    LookaheadError,
    PortTakenError,
    ServiceError,
    SettingsError,
    StorageError,
    paths.PathError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `chat` is the command where none is named."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or (arguments[0][0:1] == "-" and arguments[0] not in _TOP_LEVEL_OPTIONS):
        arguments.insert(0, "chat")
    terminal = Terminal()
    with _second_interrupt_ends_at_once():
        try:
            return _run(arguments, terminal)
        except KeyboardInterrupt:
            terminal.say("Stopped.")
            return _EXIT_INTERRUPTED
        except _TOLD_ERRORS as error:
            terminal.say(f"Error: {error}")
            return 1


def _run(arguments: list[str], terminal: Terminal) -> int:
    if arguments[0] == "test":  # what follows is for pytest
        return _test(arguments[1:], terminal)
    options = vars(_parser().parse_args(arguments))
    paths.cache_dir()  # refused here, before anything lies in it
    settings = resolve(options, os.environ, paths.config_dir())
    _start_logging(settings.log_level)
    if settings.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's client is imported
    if options["command"] == "import":
        return _import(settings, options, terminal)
    if options["command"] == "trie":
        _prepare_model(settings, terminal)
        return run_trie_command(settings, options, terminal)
    if options["command"] == "bench":
        return run_bench(parse_bench_options(options, settings), terminal)
    return _chat(settings, terminal)


def _chat(settings: Settings, terminal: Terminal) -> int:
    with open_listening_socket(settings.host, settings.port) as listening_socket:
        _prepare_model(settings, terminal)
        from app.server import serve  # only now: gradio takes seconds, other commands need none

        serve(settings, listening_socket, terminal.say)
    return 0


def _import(settings: Settings, options: Mapping[str, Any], terminal: Terminal) -> int:
    """Take documents in as the page does, and say what became of each."""
    names: list[str] = options["paths"]
    if not all(name.strip() for name in names):
        raise CommandError("A path is empty. Give a file or folder; . is the current folder.")
    named = [paths.expanded(name) for name in names]
    missing = [str(path) for path in named if not os.path.exists(path)]  # nor where it is too long
    if missing:
        raise CommandError(f"{', '.join(missing)}: no such file or folder. Check the path.")
    _prepare_model(settings, terminal)
    from app.numbers import counted, time_left
    from app.services.chat_service import ChatService
    from app.services.views import ServiceConfig

    service = ChatService(ServiceConfig(**settings.service_values(), can_answer=False))
    try:
        service.start()
        job = service.import_paths(named, is_deeper=options["deeper"])
        snapshot = job.snapshot()
        while not snapshot.is_over:
            if snapshot.status == "waiting":
                terminal.progress(service.state.detail)
            else:
                seconds = snapshot.seconds_left
                terminal.progress(
                    f"Importing: {snapshot.num_files_done} of {snapshot.num_files_total} files, "
                    f"{snapshot.num_tokens:,} tokens"
                    + (f", {time_left(seconds)}" if seconds is not None else "")
                )
            snapshot = job.wait_for_change(snapshot.version, _POLL_SECONDS)
    except KeyboardInterrupt:
        terminal.say("What was taken in stays. The same command goes on where this one stopped.")
        raise
    finally:
        service.close()
    if snapshot.error:
        raise CommandError(snapshot.error)
    if options["json"]:
        skipped = tuple((displayable(path), reason) for path, reason in snapshot.skipped)
        snapshot = dataclasses.replace(
            snapshot, skipped=skipped, current=displayable(snapshot.current)
        )
        terminal.result(json.dumps(dataclasses.asdict(snapshot)))
    else:
        for path, reason in snapshot.skipped:
            terminal.say(f"Skipped {path}: {reason}")
        if snapshot.num_dropped:
            terminal.say(
                f"{counted(snapshot.num_dropped, 'earlier version')} deleted, of files that hold "
                "no such text any more; for five minutes, Undo on the page brings it back."
            )
        terminal.result(
            f"Imported {snapshot.num_documents} of {snapshot.num_files_done} files, "
            f"{snapshot.num_tokens:,} tokens"
            + (f"; {snapshot.num_unchanged} unchanged." if snapshot.num_unchanged else ".")
        )
    return 0


def _test(pytest_arguments: list[str], terminal: Terminal) -> int:
    """Run the tests as a user would: the model prepared, one pytest process, fast tiers first."""
    root = Path(__file__).resolve().parent.parent
    if not (root / "tests").is_dir():
        raise CommandError("The tests come with the source code only: get it and run them there.")
    ensure_embedded_model(report=terminal.progress)
    terminal.end_progress()
    command = [sys.executable, "-m", "pytest", *pytest_arguments]
    process = subprocess.Popen(command, cwd=root)
    while True:
        with contextlib.suppress(KeyboardInterrupt):  # pytest got it too and ends by itself
            return process.wait()


def _prepare_model(settings: Settings, terminal: Terminal) -> None:
    """Fetch the model before anything else starts, so that a wrong name is told at once."""
    prepare_model(settings.model, terminal.progress, may_download=not settings.offline)
    terminal.end_progress()


def _start_logging(level: str) -> None:
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    for package in ("app", "lookahead", "storage"):
        logging.getLogger(package).setLevel(level.upper())


@contextlib.contextmanager
def _second_interrupt_ends_at_once() -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) raises KeyboardInterrupt: everything is closed in order."""

    def interrupt(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, lambda *_: os._exit(_EXIT_INTERRUPTED))
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _parser() -> argparse.ArgumentParser:
    launched = Path(sys.argv[0]).name == "launch.py"
    parser = argparse.ArgumentParser(
        prog="python launch.py" if launched else "lookahead-chat",
        description="Chat with a local model that answers several tokens per forward pass.",
        epilog="Without a command it chats: `chat --help` lists its options. Settings can also "
        "be given as LOOKAHEAD_CHAT_NAME in the environment or as name in config.toml.",
    )
    parser.add_argument("--version", action="version", version=f"lookahead-chat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chat = commands.add_parser("chat", help="open the chat in the browser (default)")
    chat.add_argument("--version", action="version", version=f"lookahead-chat {__version__}")
    _add_common_options(chat)
    _add_engine_options(chat)
    _add_chat_options(chat)
    importing = commands.add_parser("import", help="take documents in, to draft from them")
    importing.add_argument("paths", nargs="+", metavar="PATH", help="a file or folder")
    importing.add_argument(
        "--deeper",
        action="store_true",
        help="have the model read them, too, while the chat is open and nothing is asked",
    )
    importing.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_common_options(importing)
    trie = commands.add_parser("trie", help="look into the Trie, forget, carry it elsewhere")
    for parent in add_trie_options(trie):
        _add_common_options(parent)
    bench = commands.add_parser("bench", help="measure speed, side by side with the alternatives")
    add_bench_options(bench)
    _add_common_options(bench)
    _add_engine_options(bench)
    commands.add_parser("test", help="run the tests; what follows is for pytest (and --slow)")
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    """Values stay strings here: `resolve` checks those of all places alike."""
    parser.add_argument(
        "--model",
        help=f"a folder, a name on a model hub, or {EMBEDDED_MODEL_NAME} (default)",
    )
    parser.add_argument("--data-dir", metavar="FOLDER", help="folder of chats and documents")
    parser.add_argument("--offline", action="store_const", const=True, help="never ask the network")
    parser.add_argument("--log-level", help=f"{', '.join(LOG_LEVELS)} (default: info)")


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="auto (default), cpu, cuda, cuda:1, mps")
    parser.add_argument("--dtype", help=f"{', '.join(DTYPES)} (default: auto)")
    parser.add_argument("--context-length", metavar="N", help="tokens of context to use at most")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--strict", dest="strict", action="store_true", help="bit for bit plain decoding"
    )
    mode.add_argument(
        "--flexible", dest="strict", action="store_false", help="equal to it up to numerical ties"
    )
    parser.set_defaults(strict=None)


def _add_chat_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-lookahead",
        dest="lookahead",
        action="store_const",
        const=False,
        help="draft nothing unless the page says so",
    )
    parser.add_argument(
        "--no-idle-learning",
        dest="idle_learning",
        action="store_const",
        const=False,
        help="do not prepare drafts while nothing is asked",
    )
    parser.add_argument("--host", help=f"{', '.join(LOOPBACK_ADDRESSES)} (default: 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on (default: 7860, or the next free one)")
    parser.add_argument(
        "--allowed-host",
        dest="allowed_hosts",
        action="append",
        metavar="NAME",
        help="a further host name under which the page may be opened; can be repeated",
    )
    parser.add_argument(
        "--open",
        dest="open_browser",
        action=argparse.BooleanOptionalAction,
        help="open the page in the browser at start (default)",
    )
