"""The worker's housekeeping: begun when nothing is asked, done in one go."""

import logging
import threading
from typing import Any

import pytest

from app.services import EngineState, worker
from app.services.errors import BusyError
from app.services.worker import Worker
from lookahead.errors import ContextFullError, LookaheadError

WAIT = 20.0


def test_housekeeping_that_has_begun_goes_on_without_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each piece waited for a second of idleness: a thousand documents took a quarter hour."""
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    is_done = threading.Event()
    order: list[str] = []

    class Bench:
        ready_state = EngineState("ready", "ready", "scripted")

        def begin(self) -> None:
            order.append("begin")

        def do_idle_work(self) -> bool:
            monkeypatch.setattr(worker, "IDLE_SECONDS", 3600.0)
            order.append("work")
            if order.count("work") == 5:
                is_done.set()
            return order.count("work") < 5

        def close(self) -> None:
            order.append("close")

    state = EngineState("preparing", "", "scripted")
    worker_thread: Worker[Any] = Worker(lambda show: Bench(), state)
    worker_thread.start()
    assert is_done.wait(WAIT)
    assert worker_thread.close(WAIT)
    assert order == ["begin", *["work"] * 5, "close"]


@pytest.mark.parametrize(
    ("error", "level", "has_traceback"),
    [
        (ContextFullError("The prompt does not fit."), logging.INFO, False),
        (BusyError("One runs already."), logging.INFO, False),
        (LookaheadError("A broken file."), logging.ERROR, True),
        (RuntimeError("secret"), logging.ERROR, True),
    ],
)
def test_a_refusal_is_one_line_in_the_log_and_a_failure_is_all_of_it(
    caplog: pytest.LogCaptureFixture, error: Exception, level: int, has_traceback: bool
) -> None:
    """A question that was too long filled the log with a traceback."""
    told: list[str] = []

    class Task:
        def run(self, bench: Any) -> None:
            raise error

        def fail(self, sentence: str) -> None:
            told.append(sentence)

    bench: Any = None
    task: Any = Task()
    with caplog.at_level(logging.INFO, logger="app.services.worker"):
        Worker(lambda show: bench, EngineState("ready", "", "scripted"))._do(task, bench)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (level, has_traceback)
    assert len(told) == 1


def test_while_a_task_runs_nothing_is_said_to_go_on_in_the_background() -> None:
    """The status line said "Preparing drafts" for as long as an answer was written."""
    state = EngineState("ready", "ready", "scripted", background="Preparing drafts: 12 %")
    bench: Any = None
    worker_thread = Worker(lambda show: bench, state)
    shown: list[str] = []

    class Task:
        def run(self, bench: Any) -> None:
            shown.append(worker_thread.state.background)

    task: Any = Task()
    worker_thread._do(task, bench)
    assert shown == [""]
