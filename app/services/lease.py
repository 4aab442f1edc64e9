"""The lease of a data folder: which of several running programs answers questions in it.

The holder alone may take answers that are still "streaming" for interrupted ones. Knows no
database. Used by the chat service.
"""

import logging
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["DataFolderLease"]

logger = logging.getLogger(__name__)


class DataFolderLease:
    """A lock file in the folder; the system frees it however the process ends."""

    def __init__(self, data_dir: Path) -> None:
        self._lock = FileLock(data_dir / "answering.lock", mode=0o600, thread_local=False)

    def take(self) -> bool:
        """Hold the lease until `release`; False where another program has it.

        Two programs may well work in one folder, so that one is not turned away: each writes its
        own answers, one transaction at a time.
        """
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            logger.warning("Another Lookahead Chat is running with the same data folder")
            return False
        except (OSError, NotImplementedError) as error:  # the file system knows no locks
            logger.warning("The data folder cannot be locked: %s", error)
        return True

    def release(self) -> None:
        """Give it back. Idempotent."""
        self._lock.release()
