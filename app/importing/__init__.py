"""Documents from disk: which files of a folder are documents, and what stands in them.

Knows no tokenizer and no database. Used by the import job. Files are only ever read, and only ever
taken apart in a child process with limits of its own (`reader.py` → `child.py` → `converting.py`).
"""

from app.importing.errors import ReadingCancelledError, UnreadableError
from app.importing.files import (
    DocumentFile,
    FoundFile,
    SkippedFile,
    displayable_name,
    find_files,
    uploaded_files,
)
from app.importing.limits import ReadingLimits
from app.importing.opening import file_sha256
from app.importing.reader import DocumentReader

__all__ = [
    "DocumentFile",
    "DocumentReader",
    "FoundFile",
    "ReadingCancelledError",
    "ReadingLimits",
    "SkippedFile",
    "UnreadableError",
    "displayable_name",
    "file_sha256",
    "find_files",
    "uploaded_files",
]
