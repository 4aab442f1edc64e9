"""Rows in, rows out: chats, documents, sequences and what was learned, in one SQLite file.

Knows no torch, no page, no decoding. `Database` is the precious file, `SegmentCache` the disposable
one; everything given back is a frozen dataclass of `storage.records`.
"""

from storage.database import DATABASE_NAME, FIRST_UNSAVED_ID, Database
from storage.errors import (
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseDamagedError,
    DatabaseFullError,
    DataFolderError,
    MigrationError,
    RecordDamagedError,
    RecordExistsError,
    RecordNotFoundError,
    SchemaTooNewError,
    StorageError,
)
from storage.records import (
    ERASED_TOKEN_ID,
    AnswerTotals,
    Conversation,
    DeeperReading,
    Deletion,
    DocumentMatch,
    DocumentPassage,
    DraftRecord,
    GenerationRecord,
    Message,
    NewSequence,
    SequenceOrigin,
    SequenceRecord,
    Source,
    StepRecord,
)
from storage.segment_cache import SegmentCache

__all__ = [
    "DATABASE_NAME",
    "ERASED_TOKEN_ID",
    "FIRST_UNSAVED_ID",
    "AnswerTotals",
    "Conversation",
    "DataFolderError",
    "Database",
    "DatabaseBusyError",
    "DatabaseClosedError",
    "DatabaseDamagedError",
    "DatabaseFullError",
    "DeeperReading",
    "Deletion",
    "DocumentMatch",
    "DocumentPassage",
    "DraftRecord",
    "GenerationRecord",
    "Message",
    "MigrationError",
    "NewSequence",
    "RecordDamagedError",
    "RecordExistsError",
    "RecordNotFoundError",
    "SchemaTooNewError",
    "SegmentCache",
    "SequenceOrigin",
    "SequenceRecord",
    "Source",
    "StepRecord",
    "StorageError",
]
