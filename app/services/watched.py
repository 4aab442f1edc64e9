"""A picture of running work that one thread repaints and others wait for.

Knows nothing of the work. The bases of all jobs.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

__all__ = ["Stoppable", "Watched"]

SnapshotT = TypeVar("SnapshotT", bound=Any)


class Watched(Generic[SnapshotT]):
    """Holds a frozen snapshot with a `version` and an `is_over`."""

    def __init__(self, snapshot: SnapshotT) -> None:
        self._snapshot = snapshot
        self._changed = threading.Condition()

    def snapshot(self) -> SnapshotT:
        """The work as it stands now."""
        return self._snapshot

    def wait_for_change(self, version: int, timeout: float | None = None) -> SnapshotT:
        """The snapshot once it is newer than `version` or over, or after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._snapshot.version > version or self._snapshot.is_over, timeout
            )
            return self._snapshot

    def wait_until_over(self, timeout: float | None = None) -> SnapshotT:
        """The last snapshot, or the present one after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._snapshot.is_over, timeout)
            return self._snapshot

    def show(self, **changes: Any) -> None:
        """Repaint. What is over stays as it is."""
        with self._changed:
            if not self._snapshot.is_over:
                version = self._snapshot.version + 1
                self._snapshot = replace(self._snapshot, version=version, **changes)
                self._changed.notify_all()


class Stoppable(Watched[SnapshotT]):
    """Work that somebody may ask to end; its snapshot has an `is_stopping`.

    Args:
        on_stop: told when that happens.
    """

    def __init__(
        self, snapshot: SnapshotT, on_stop: Callable[[Any], None] = lambda job: None
    ) -> None:
        super().__init__(snapshot)
        self._on_stop = on_stop
        self._stop = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody asked it to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End within one step; what was done so far is kept. Returns at once."""
        self._stop.set()
        self.show(is_stopping=True)
        self._on_stop(self)
