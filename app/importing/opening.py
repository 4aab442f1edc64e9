"""Opening a file that somebody else may swap, and its digest.

Knows no format. Called by the import job and by the child process.
"""

import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from app.importing.errors import UnreadableError
from app.importing.limits import too_large

__all__ = ["file_sha256", "open_file"]

_CHUNK_BYTES = 1024 * 1024


def open_file(path: Path, most_bytes: int) -> BinaryIO:
    """The opened file: no link, no pipe, not too large, checked on what was opened.

    Raises:
        UnreadableError: it is something else.
        OSError: the system does not give it.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    file = os.fdopen(descriptor, "rb")
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= most_bytes:
        return file
    file.close()
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError("not an ordinary file")
    raise UnreadableError(too_large(status.st_size, most_bytes))


def file_sha256(path: Path, most_bytes: int) -> str:
    """The digest of its bytes, a piece at a time. Raises as `open_file`."""
    digest = hashlib.sha256()
    with open_file(path, most_bytes) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
