"""The worker's housekeeping: begun when nothing is asked, done in one go."""

import threading
from typing import Any

import pytest

from app.services import EngineState, worker
from app.services.worker import Worker

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
