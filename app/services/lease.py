"""The leases of a data folder: which of several running programs does what only one may do.

The holder of "answering" alone may take answers that are still "streaming" for interrupted ones;
the holder of "indexing" alone writes the cached index and purges what was deleted. Knows no
database. Held by what is open of the folder.
"""

import logging
import threading
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["DataFolderLease"]

logger = logging.getLogger(__name__)


class DataFolderLease:
    """A lock file in the folder; the system frees it however the process ends.

    Usable from any thread.

    Args:
        name: what the holder does.
    """

    def __init__(self, data_dir: Path, name: str) -> None:
        self._name = name
        self._lock = FileLock(data_dir / f"{name}.lock", mode=0o600, thread_local=False)
        self._guard = threading.Lock()
        self._is_held = False
        self._is_told = False

    def take(self) -> bool:
        """Hold the lease until `release`; False where another program has it, for now.

        Two programs may well work in one folder, so that one is not turned away: each writes its
        own answers, one transaction at a time.
        """
        with self._guard:
            if self._is_held:
                return True
            try:
                self._lock.acquire(blocking=False)
            except Timeout:
                self._tell(f"Another Lookahead Chat with the same data folder is {self._name}")
                return False
            except (OSError, NotImplementedError) as error:  # the file system knows no locks
                self._tell(f"The data folder cannot be locked: {error}")
            self._is_held = True
            return True

    def release(self) -> None:
        """Give it back. Idempotent."""
        with self._guard:
            self._is_held = False
            self._lock.release()

    def _tell(self, sentence: str) -> None:
        if not self._is_told:
            logger.warning("%s", sentence)
            self._is_told = True
