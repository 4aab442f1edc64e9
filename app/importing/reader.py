"""The reader: takes the text out of files in a child process that may crash, hang or be killed.

Knows the child's protocol, no format. Used by the import job, from one thread.
"""

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil  # type: ignore[import-untyped]

import app
from app.importing.child import limits_line, request_line
from app.importing.errors import ReadingCancelledError
from app.importing.files import DocumentFile, FoundFile, SkippedFile
from app.importing.limits import MIB, ReadingLimits

__all__ = ["DocumentReader"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_CLOSE_SECONDS = 2.0
_PATIENCE = 10  # seconds by the clock for each of processor time
_RENEW_AFTER_BYTES = 256 * MIB  # read by one child: what its libraries leak goes with it
_START = "import sys; sys.path.insert(0, sys.argv[1]); from app.importing.child import main; main()"
_CRASHED = "its reader crashed (damaged, or made to do so)"


class DocumentReader:
    """Reads one file at a time; a context manager, so that no child outlives it.

    Args:
        is_cancelled: asked many times a second; once it is true, reading is broken off.
    """

    def __init__(
        self,
        limits: ReadingLimits | None = None,
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.limits = limits or ReadingLimits()
        self._is_cancelled = is_cancelled
        self._child: _Child | None = None

    def read(self, found: FoundFile) -> DocumentFile | SkippedFile:
        """The document, or the reason why there is none.

        Raises:
            ReadingCancelledError: nobody wants it any more.
        """
        child = self._child = self._child or _Child(self.limits)
        with child.watched(self.limits, self._is_cancelled):
            answer = child.ask(found)
        if child.verdict == "cancelled":
            self.close()
            raise ReadingCancelledError
        # killed just after its answer: it is of no use for the next file
        if answer is None or child.verdict or child.num_bytes_read > _RENEW_AFTER_BYTES:
            self.close()
        if answer is None:
            reason = child.verdict or _CRASHED
            logger.info("the reader of a file ended (%s): %s", child.exit_status, reason)
            return SkippedFile(found.path, reason)  # what it holds is not known
        header, text = answer
        if header["reason"]:
            return SkippedFile(found.path, header["reason"], is_read=header["is_read"])
        return DocumentFile(found.path, found.name, found.uri, text, header["sha256"])

    def close(self) -> None:
        """End the child. Idempotent; the next `read` starts another."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Child:
    """One child process.

    Attributes:
        verdict: why it was killed; "" where it was not.
        num_bytes_read: sizes of the files it has read, and of their texts.
        exit_status: of the ended process.
    """

    def __init__(self, limits: ReadingLimits) -> None:
        root = str(Path(app.__file__).resolve().parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.verdict = ""
        self.num_bytes_read = 0
        self.exit_status: int | None = None
        with contextlib.suppress(OSError):  # it has ended: told by what it does not answer
            self._pipe_in.write(limits_line(limits))
            self._pipe_in.flush()

    @property
    def _pipe_in(self) -> Any:
        return self._process.stdin

    @property
    def _pipe_out(self) -> Any:
        return self._process.stdout

    def ask(self, found: FoundFile) -> tuple[dict[str, Any], str] | None:
        """The child's answer about one file; None: it has ended without one."""
        try:
            self._pipe_in.write(request_line({"path": str(found.path), "name": found.path.name}))
            self._pipe_in.flush()
            line = self._pipe_out.readline()
            header = json.loads(line) if line.endswith(b"\n") else None
            text = self._pipe_out.read(header["num_bytes"]) if header else b""
        except OSError:
            return None
        if header is None or len(text) < header["num_bytes"]:
            return None
        self.num_bytes_read += found.num_bytes + len(text)
        return header, text.decode("utf-8")

    def watched(
        self, limits: ReadingLimits, is_cancelled: Callable[[], bool]
    ) -> contextlib.AbstractContextManager[None]:
        """While the child reads, somebody looks at the clock, at its memory and for a cancel."""
        return _Watch(self, limits, is_cancelled)

    def used_seconds(self) -> float:
        """Processor time that it has taken; 0 where it has ended."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def used_bytes(self) -> int:
        """Memory that it takes; 0 where it has ended."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def kill(self, verdict: str) -> None:
        """End it in the middle of its work."""
        self.verdict = verdict
        self._process.kill()

    def close(self) -> None:
        """End it, and wait for that."""
        with contextlib.suppress(OSError):
            self._pipe_in.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe_out.close()
        self.exit_status = self._process.returncode


class _Watch(contextlib.AbstractContextManager[None]):
    """A thread that kills a child which takes too much, for as long as one file is read."""

    def __init__(
        self, child: _Child, limits: ReadingLimits, is_cancelled: Callable[[], bool]
    ) -> None:
        self._child = child
        self._limits = limits
        self._is_cancelled = is_cancelled
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="import-watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _watch(self) -> None:
        seconds, memory_bytes = self._limits.seconds, self._limits.memory_bytes
        ends_at = time.monotonic() + _PATIENCE * seconds
        last_second = self._child.used_seconds() + seconds
        while not self._is_done.wait(_POLL_SECONDS):
            if self._is_cancelled():
                self._child.kill("cancelled")
            elif self._child.used_seconds() > last_second or time.monotonic() > ends_at:
                self._child.kill(f"takes longer than {seconds:g} seconds to be read")
            elif self._child.used_bytes() > memory_bytes:
                self._child.kill("needs too much memory to be read")
            else:
                continue
            return
