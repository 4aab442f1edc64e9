"""The one thread that owns the model: it loads it, then does one task after another.

Knows no model, no database and no text: it is given a function that loads a workbench, and tasks
that run on it. Started and closed by the chat service.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from app.services.errors import ServiceClosedError, ServiceError
from app.services.views import EngineState
from lookahead.errors import (
    ContextFullError,
    InvalidRequestError,
    LookaheadError,
    UnsupportedModeError,
)
from storage.errors import StorageError

__all__ = ["Bench", "Task", "Worker", "explain"]

logger = logging.getLogger(__name__)

# what was asked cannot be done, and says so: no fault of the program
_REFUSALS = (ContextFullError, InvalidRequestError, UnsupportedModeError, ServiceError)
IDLE_SECONDS = 1.0  # without a task before housekeeping starts


class Bench(Protocol):
    """What the tasks run on; used by the worker's thread only."""

    @property
    def ready_state(self) -> EngineState:
        """What to show once it is loaded, and after every piece of housekeeping."""
        ...

    def begin(self) -> None:
        """Other threads see it from now on; called before the first task."""
        ...

    def do_idle_work(self) -> bool:
        """A piece of housekeeping while nothing is asked; whether there is more to do at once."""
        ...

    def close(self) -> None:
        """Save what is to be kept."""
        ...


BenchT = TypeVar("BenchT", bound=Bench)
TaskBenchT = TypeVar("TaskBenchT", contravariant=True)


class Task(Protocol[TaskBenchT]):
    """One piece of work for the model."""

    def run(self, bench: TaskBenchT) -> None:
        """Do it. May raise: `fail` is called then."""
        ...

    def fail(self, sentence: str) -> None:
        """It will not be done, or was broken off; `sentence` says why."""
        ...

    def stop(self) -> None:
        """Come to an end soon."""
        ...

    def abandon(self) -> None:
        """It never began and will not, since the program is closing."""
        ...


class Worker(Generic[BenchT]):
    """Runs tasks in order of arrival, in one daemon thread.

    Args:
        load: makes the workbench, in the worker's thread; is given a function that shows the state.
        state: the state before anything has begun.
    """

    def __init__(
        self, load: Callable[[Callable[[EngineState], None]], BenchT], state: EngineState
    ) -> None:
        self._load = load
        self._state = state
        self._bench: BenchT | None = None
        self._tasks: deque[Task[BenchT]] = deque()
        self._running: Task[BenchT] | None = None
        self._has_idle_work = True
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="engine-worker", daemon=True)

    @property
    def state(self) -> EngineState:
        """Where the model stands."""
        return self._state

    @property
    def bench(self) -> BenchT | None:
        """The workbench once loaded; only its thread-safe parts may be used by other threads."""
        return self._bench

    def start(self) -> None:
        """Begin loading; returns at once."""
        self._thread.start()

    def wait_until_ready(self, timeout: float | None = None) -> EngineState:
        """The state once the model is ready or has failed, or after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._state.status in ("ready", "failed") or self._is_closing, timeout
            )
            return self._state

    def submit(self, task: Task[BenchT]) -> None:
        """Queue a task. Where the model could not be loaded it fails at once."""
        with self._changed:
            has_failed = self._state.status == "failed"
            if not has_failed and not self._is_closing:
                self._tasks.append(task)
                self._changed.notify_all()
                return
        if has_failed:
            task.fail(self._state.detail)
        else:
            task.abandon()

    def withdraw(self, task: Task[BenchT]) -> bool:
        """Take a task back; False if it is not waiting any more."""
        with self._changed:
            if task in self._tasks:
                self._tasks.remove(task)
                return True
            return False

    def request_idle_work(self) -> None:
        """Have the bench look for housekeeping once nothing is asked."""
        with self._changed:
            self._has_idle_work = True
            self._changed.notify_all()

    def close(self, timeout: float | None = None) -> bool:
        """Stop the running task, abandon those waiting, let the bench save; False if it hangs."""
        with self._changed:
            self._is_closing = True
            abandoned = list(self._tasks)
            self._tasks.clear()
            if self._running is not None:
                self._running.stop()
            self._changed.notify_all()
        for task in abandoned:
            task.abandon()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _show(self, state: EngineState) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def _show_loading(self, state: EngineState) -> None:
        """Told between two parts of loading: where it is broken off when the program closes."""
        if self._is_closing:
            raise ServiceClosedError("The program is closing.")
        self._show(state)

    def _work(self) -> None:
        try:
            self._bench = self._load(self._show_loading)
        except ServiceClosedError:
            return
        except Exception as error:  # the thread's boundary: logged, shown in a sentence
            logger.exception("the model could not be loaded")
            self._give_up(explain(error, "The model could not be loaded"))
            return
        self._guarded("preparing for the first task", self._bench.begin)
        self._show(self._bench.ready_state)
        try:
            while (task := self._next_task(self._bench)) is not None:
                self._do(task, self._bench)
        finally:
            self._guarded("saving at the end", self._bench.close)

    def _give_up(self, sentence: str) -> None:
        self._show(replace(self._state, status="failed", detail=sentence))
        with self._changed:
            tasks = list(self._tasks)
            self._tasks.clear()
        for task in tasks:
            self._guarded("marking a task as failed", partial(task.fail, sentence))

    def _next_task(self, bench: BenchT) -> Task[BenchT] | None:
        """Wait for a task, doing housekeeping while there is none; None: closing."""
        seconds = IDLE_SECONDS
        while True:
            with self._changed:
                while not self._tasks and not self._is_closing:
                    had_idle_work = self._has_idle_work
                    timeout = seconds if had_idle_work else None
                    if not self._changed.wait(timeout) and had_idle_work:
                        break
                if self._is_closing:
                    return None
                if self._tasks:
                    self._running = self._tasks.popleft()
                    self._has_idle_work = True
                    return self._running
                self._has_idle_work = False
            has_more = self._guarded("idle work", bench.do_idle_work)
            self._show(bench.ready_state)
            seconds = 0.0 if has_more else IDLE_SECONDS
            if has_more:
                self.request_idle_work()

    def _do(self, task: Task[BenchT], bench: BenchT) -> None:
        if self._state.background:  # it rests until nothing is asked again
            self._show(replace(self._state, background=""))
        try:
            task.run(bench)
        except Exception as error:  # one task's failure must not end the others
            if isinstance(error, _REFUSALS):
                logger.info("a task was refused: %s", error)
            else:
                logger.exception("a task failed")
            sentence = explain(error, "The model failed on this answer")
            self._guarded("marking a task as failed", partial(task.fail, sentence))
        finally:
            with self._changed:
                self._running = None

    def _guarded(self, what: str, work: Callable[[], Any]) -> Any:
        """What `work` returns; None where it failed, which is logged."""
        try:
            return work()
        except Exception:  # the thread goes on with what comes next
            logger.exception("%s failed", what)


def explain(error: BaseException, what: str) -> str:
    """One sentence for people: our own errors speak for themselves, others are named."""
    if isinstance(error, LookaheadError | StorageError | ServiceError):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"{what}: memory ran out. Close other programs, or choose a smaller model."
    return f"{what} ({type(error).__name__}). The log has the details."
