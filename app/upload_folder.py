"""The folder in which a program receives uploads: its own, within the data folder.

Knows no upload and no import. Copies of documents must outlive no deletion, so they lie where the
next start finds what a killed program left. Used by the server.
"""

import contextlib
import logging
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["upload_folder"]

logger = logging.getLogger(__name__)

_GUARD_SECONDS = 10.0
_NAME = re.compile("[0-9a-f]{16}")  # with a lock beside it, a folder was made here


@contextlib.contextmanager
def upload_folder(data_dir: Path, *, otherwise: Path) -> Iterator[Path]:
    """A new folder for this program alone, private to its user; gone at the end.

    What ended programs left is removed first. Those that run keep theirs: each holds the lock of
    its folder.

    Args:
        otherwise: taken where nothing can be made, or locked, in the data folder.
    """
    root = data_dir / "uploads"
    folder = root / secrets.token_hex(8)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(root / "guard.lock", timeout=_GUARD_SECONDS, mode=0o600):
            _clear_leftovers(root)
            lock = _lock_of(folder)
            lock.acquire(blocking=False)
            folder.mkdir(mode=0o700)
    except (OSError, NotImplementedError) as error:  # Timeout is an OSError
        logger.warning("uploads are not received in the data folder: %s", error)
        yield otherwise
        return
    try:
        yield folder
    finally:
        _remove(folder, lock)


def _clear_leftovers(root: Path) -> None:
    """Whatever else lies there is the user's."""
    for path in root.glob("*.lock"):
        folder = path.with_suffix("")
        if not _NAME.fullmatch(folder.name):
            continue
        lock = _lock_of(folder)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            continue
        if folder.exists():
            logger.info("copies of uploads that an ended program left are removed")
        _remove(folder, lock)


def _lock_of(folder: Path) -> FileLock:
    return FileLock(folder.with_suffix(".lock"), mode=0o600, thread_local=False)


def _remove(folder: Path, lock: FileLock) -> None:
    """The folder and its lock file; where the folder cannot be removed, the next start tries."""
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    with contextlib.suppress(OSError):
        if folder.exists():
            Path(lock.lock_file).touch(mode=0o600)  # a release may have removed it
        else:
            Path(lock.lock_file).unlink(missing_ok=True)
