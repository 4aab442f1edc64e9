"""The work of an import: files become documents in the database and sequences in the Trie.

Knows the importer, the database, the Trie's keeper and a tokenizer, no model. Runs in a thread of
its own, so that chats go on.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from app.importing import (
    DocumentFile,
    DocumentReader,
    FoundFile,
    ReadingCancelledError,
    ReadingLimits,
    SkippedFile,
    UnreadableError,
    displayable_name,
    file_sha256,
)
from app.importing.errors import explain_failure
from app.importing.files import path_of_uri
from app.importing.kinds import kind_of_name
from app.prompting import find_control_ids
from app.services.document_tokens import encode_batches, joined
from app.services.import_clock import ImportClock
from app.services.import_requests import ImportRequest
from app.services.jobs import ImportJob
from app.services.trie_files import TRIE_FILE_SCHEME
from app.services.trie_keeper import TrieKeeper
from storage import Database, RecordExistsError, Source

__all__ = ["ImportWork"]

_SHOW_SECONDS = 0.2  # between two pictures of a running import
_PUT_OFF = timedelta(seconds=30)  # after which what is deleted counts as deleted now
_FROM_TRIE_FILE = f"{TRIE_FILE_SCHEME}:"  # whoever wrote that file chose text and digest
_GONE = "is there no more; its document stays until you delete it"


@dataclass
class ImportWork:
    """One import. Each document is saved in a transaction of its own.

    Args:
        tokenizer: used by no other thread meanwhile.
        keep_time: to be told when documents were deleted, which can be undone for some time.
        limits: what a file may cost.
    """

    database: Database
    keeper: TrieKeeper
    tokenizer: Any
    job: ImportJob
    request: ImportRequest
    keep_time: Callable[[], None]
    limits: ReadingLimits = field(default_factory=ReadingLimits)
    _control_ids: frozenset[int] = field(init=False)
    _clock: ImportClock = field(init=False)
    _paths: dict[str, Path] = field(default_factory=dict)  # of all files of this import, by URI
    _skipped: list[tuple[str, str]] = field(default_factory=list)
    _has_replaced: bool = False
    _sha256s: dict[str, str] = field(default_factory=dict)  # of those looked at so far
    # the one time of all that is deleted, so that one Undo brings all of it back
    _dropped_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _num_dropped: int = 0
    _num_documents: int = 0
    _num_unchanged: int = 0
    _num_tokens: int = 0
    _shown_at: float = 0.0

    def __post_init__(self) -> None:
        self._control_ids = find_control_ids(self.tokenizer)
        self._clock = ImportClock([])

    def run(self) -> bool:
        """Take in the files; what was saved before an error or a cancel stays.

        Returns whether it came to its end.
        """
        self.job.show(status="running")
        num_done = 0
        try:
            found_files = self._collect(self.request.files())
            self._clock = ImportClock(found_files)
            self._paths = {found.uri: found.path for found in found_files}
            with DocumentReader(self.limits, is_cancelled=lambda: self.job.is_cancelled) as reader:
                for found in found_files:
                    self._show(num_done, current=self.request.shown_path(found.path))
                    self._take(found, reader)
                    num_done += 1
            self._tell_gone()
        except ReadingCancelledError:
            return False
        finally:
            self._put_off()
            if self._has_replaced:
                self.database.sources.erase_deleted_words()
            self._show(num_done, current="", is_due=True)
            self.keeper.reconcile(lambda: self.job.is_cancelled)
        return True

    def _collect(self, found_files: Iterable[FoundFile | SkippedFile]) -> list[FoundFile]:
        files: list[FoundFile] = []
        for found in found_files:
            self._go_on()
            if isinstance(found, SkippedFile):
                self._skip(found)
            else:
                files.append(found)
                if len(files) % 100 == 0:
                    self.job.show(num_files_total=len(files))
        num_bytes = sum(found.num_bytes for found in files)
        self.job.show(num_files_total=len(files), num_bytes_total=num_bytes)
        return files

    def _tell_gone(self) -> None:
        """Name what was imported from a folder and is there no more: it may be a mistake."""
        folders = [] if self.request.is_upload else filter(Path.is_dir, self.request.paths)
        prefixes = tuple(f"{folder.resolve().as_uri()}/" for folder in folders)
        for source in self.database.sources.list() if prefixes else ():
            if source.uri.startswith(prefixes):
                path = path_of_uri(source.uri)
                if not os.path.lexists(path):
                    self._skip(SkippedFile(path, _GONE))

    def _go_on(self) -> None:
        if self.job.is_cancelled:
            raise ReadingCancelledError
        if datetime.now(UTC) - self._dropped_at > _PUT_OFF:
            self._put_off()

    def _take(self, found: FoundFile, reader: DocumentReader) -> None:
        self._go_on()
        started_at = time.monotonic()
        if self._is_known(found):
            self._clock.passed(found)
            return
        document = reader.read(found)
        self._go_on()
        if isinstance(document, SkippedFile):
            self._skip(document)
            if document.is_read:
                self._drop(found.uri)
        else:
            self._save(document)
        self._clock.took(found, time.monotonic() - started_at)

    def _is_known(self, found: FoundFile) -> bool:
        """Whether its content need not be read, since it is there, or cannot be."""
        try:
            sha256 = self._sha256s[found.uri] = self._sha256(found.path)
        except UnreadableError as error:
            self._skip(SkippedFile(found.path, str(error)))
            self._drop(found.uri)
            return True
        except (OSError, ValueError) as error:  # not opened: what it holds is not known
            self._skip(SkippedFile(found.path, explain_failure(error)))
            return True
        sources = self.database.sources
        same = sources.find_by_sha256(sha256)
        if same is None:
            same = sources.find_by_sha256(sha256, deleted_at=self._dropped_at)
            is_known = same is not None and self._move(same, found)
        elif same.uri == found.uri:
            self._num_unchanged += 1
            is_known = True
        elif self._still_holds(same):
            self._skip(SkippedFile(found.path, f"the same content as {same.name}"))
            self._drop(found.uri)
            is_known = True
        else:
            is_known = self._move(same, found)
        if is_known and same is not None and self.request.is_deeper:
            self.database.deeper_readings.want(same.id)
        return is_known

    def _sha256(self, path: Path) -> str:
        return file_sha256(path, self.limits.most_bytes(kind_of_name(path.name)))

    def _still_holds(self, source: Source) -> bool:
        """Whether a document's file holds it still; so where it is gone or cannot be opened."""
        if source.uri.startswith(_FROM_TRIE_FILE):
            return False
        is_file = source.uri.startswith("file:")
        path = self._paths.get(source.uri) or (path_of_uri(source.uri) if is_file else None)
        if path is None:
            return True
        try:
            return (self._sha256s.get(source.uri) or self._sha256(path)) == source.sha256
        except UnreadableError:  # it has grown too large
            return False
        except (OSError, ValueError):
            return True

    def _move(self, source: Source, found: FoundFile) -> bool:
        """Give a file the document of one that held its content; False: it is to be read."""
        assert source.sha256 is not None, "a document has its content's"
        is_as_read = kind_of_name(source.name) == kind_of_name(found.name)
        if not is_as_read or source.uri.startswith(_FROM_TRIE_FILE):
            self.database.deletions.hide_content(source.sha256, self._dropped_at)
            return False
        is_moved = self.database.sources.move(
            source.id, name=found.name, uri=found.uri, deleted_at=self._dropped_at
        )
        self._num_unchanged += is_moved
        return is_moved

    def _drop(self, uri: str) -> None:
        """What the file held when it was imported, it holds no more."""
        self.database.deletions.hide_versions(uri, self._dropped_at)

    def _put_off(self) -> None:
        """The time for undoing begins now, for all that was deleted so far."""
        present = datetime.now(UTC)
        self._num_dropped = self.database.deletions.put_off(self._dropped_at, present)
        self._dropped_at = present
        if self._num_dropped:
            self.keep_time()

    def _save(self, document: DocumentFile) -> None:
        batches = []
        for batch in encode_batches(self.tokenizer, document.text, self._control_ids):
            batches.append(batch)
            self._go_on()
        token_ids = joined(batches)
        is_upload = self.request.is_upload  # of which nobody may have another copy
        older = None if is_upload else self.database.sources.find_by_uri(document.uri)
        try:
            source_id, _ = self.database.sources.add_document(
                name=document.name,
                uri=document.uri,
                sha256=document.sha256,
                text=document.text,
                token_ids=token_ids,
                tokenizer_id=self.keeper.tokenizer_id,
                versions_deleted_at=self._dropped_at if is_upload else None,
            )
        except RecordExistsError:  # another program was faster, or the file changed meanwhile
            self._skip(SkippedFile(document.path, "imported already"))
            return
        if self.request.is_deeper:
            self.database.deeper_readings.want(source_id)
        self._has_replaced |= older is not None
        self._num_documents += 1
        self._num_tokens += len(token_ids)
        self.keeper.expect(len(token_ids), lambda: self.job.is_cancelled)

    def _skip(self, skipped: SkippedFile) -> None:
        self._skipped.append(
            (self.request.shown_path(skipped.path), displayable_name(skipped.reason))
        )

    def _show(self, num_done: int, *, current: str, is_due: bool = False) -> None:
        """Repaint, now and then: a folder may hold a hundred thousand files."""
        now = time.monotonic()
        if not is_due and now - self._shown_at < _SHOW_SECONDS:
            return
        self._shown_at = now
        self.job.show(
            current=current,
            num_files_done=num_done,
            num_documents=self._num_documents,
            num_unchanged=self._num_unchanged,
            num_dropped=self._num_dropped,
            num_tokens=self._num_tokens,
            seconds_left=self._clock.seconds_left(),
            skipped=tuple(self._skipped),
        )
