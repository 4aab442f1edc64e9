"""Whether the file and the rows in it are as they were written.

SQLite has no checksums of its own: a page that the disk gave back otherwise is noticed only where
it breaks the structure. Knows no store. Called by `connections.py` and by the stores.
"""

import logging
import sqlite3
import time
import zlib
from pathlib import Path

from sqlite_utils import Database as Connection

from storage.errors import damaged

__all__ = ["check_structure", "checksum", "is_whole"]

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0  # at start; a gigabyte takes some
STEPS_BETWEEN_LOOKS = 10_000  # of SQLite's machine, at the clock
TABLES = (  # what cannot be had again first
    "settings",
    "conversations",
    "messages",
    "sources",
    "document_texts",
    "sequences",
    "generations",
    "steps",
)


def checksum(*parts: str | bytes) -> int:
    """CRC-32 of what a row holds: against the disk, not against people."""
    total = 0
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total = zlib.crc32(data, total)
    return total


def is_whole(stored: int | None, *parts: str | bytes) -> bool:
    """Whether a row holds what was written; rows of earlier versions do not tell."""
    return stored is None or stored == checksum(*parts)


def check_structure(connection: Connection, path: Path) -> None:
    """Look for broken tables, for CHECK_SECONDS at most. Raises DatabaseDamagedError."""
    end = time.monotonic() + CHECK_SECONDS
    connection.conn.set_progress_handler(lambda: time.monotonic() > end, STEPS_BETWEEN_LOOKS)
    try:
        for table in TABLES:
            found = connection.execute(f"PRAGMA quick_check('{table}')").fetchall()
            if found != [("ok",)]:
                raise damaged(path, "; ".join(str(row[0]) for row in found[:3]))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        logger.info("%s is large: not all of it was checked at start", path.name)
    finally:
        connection.conn.set_progress_handler(None, 0)
