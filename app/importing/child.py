"""The child process that reads files: within limits, one after the other, told by its parent.

Knows no database and no page. Started by the reader. A request is a line of JSON with a path and a
name; an answer is a line of JSON (`reason` and `is_read`, or `sha256` and `num_bytes`), then the
text in UTF-8.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO

from app.importing.converting import convert
from app.importing.errors import UnreadableError, explain_failure
from app.importing.limits import ReadingLimits
from app.importing.opening import open_file

__all__ = ["main"]

_NICENESS = 10  # chats come first
_PATIENCE = 2.0  # times the limit: the parent, which counts the seconds, may have died


def main() -> None:
    """Serve requests from standard input until it ends; the first line holds the limits."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a converter may print
    limits = ReadingLimits(**json.loads(requests.readline()))
    _limit_process(limits)
    while line := requests.readline():
        _serve(json.loads(line), limits, answers)


def request_line(values: dict[str, object]) -> bytes:
    """A request as it is sent; half surrogate pairs in names survive."""
    return json.dumps(values).encode("ascii") + b"\n"


def limits_line(limits: ReadingLimits) -> bytes:
    """The first line that a child is sent."""
    return request_line(dataclasses.asdict(limits))


def _limit_process(limits: ReadingLimits) -> None:
    """What the system itself can hold it to; on some it holds to less, and the parent looks on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, most in (
        ("RLIMIT_AS", limits.memory_bytes),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", 0),  # it has nothing to write
    ):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(getattr(resource, name), (most, most))


def _serve(request: dict[str, str], limits: ReadingLimits, answers: BinaryIO) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, _PATIENCE * limits.seconds)
    text, sha256, reason, is_read = b"", "", "", False
    try:
        with open_file(Path(request["path"]), limits.container_bytes) as file:
            data = file.read(limits.container_bytes + 1)
        sha256 = hashlib.sha256(data).hexdigest()
        text = convert(data, request["name"], limits).encode("utf-8")
    except UnreadableError as error:
        reason, is_read = str(error), bool(sha256)
    except MemoryError:
        reason = "needs too much memory to be read"
    except (OSError, RuntimeError, ValueError) as error:
        reason = explain_failure(error)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
    num_bytes = 0 if reason else len(text)
    header = {"reason": reason, "is_read": is_read, "sha256": sha256, "num_bytes": num_bytes}
    answers.write(request_line(header))
    if not reason:
        answers.write(text)
    answers.flush()
