"""A picture of running work that one thread repaints and others wait for.

Knows nothing of the work. The base of the answer and import jobs.
"""

import threading
from dataclasses import replace
from typing import Any, Generic, TypeVar

__all__ = ["Watched"]

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
