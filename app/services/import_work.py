"""The work of an import: files become documents in the database and sequences in the Trie.

Knows the importer, the database, the Trie's keeper and a tokenizer, no model. Runs in a thread of
its own, so that chats go on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.importing import DocumentFile, FoundFile, SkippedFile, displayable_name, read_document
from app.prompting import encode_text, find_control_ids
from app.services.jobs import ImportJob
from app.services.trie_keeper import TrieKeeper
from storage import Database, RecordExistsError

__all__ = ["ImportWork"]


@dataclass
class ImportWork:
    """One import. Each document is saved in a transaction of its own.

    Args:
        tokenizer: used by no other thread meanwhile.
        is_deeper: whether the model is to read the documents, too, once nothing is asked.
    """

    database: Database
    keeper: TrieKeeper
    tokenizer: Any
    job: ImportJob
    is_deeper: bool = False
    _control_ids: frozenset[int] = field(init=False)
    _skipped: list[tuple[str, str]] = field(default_factory=list)
    _has_replaced: bool = False
    _num_documents: int = 0
    _num_tokens: int = 0

    def __post_init__(self) -> None:
        self._control_ids = find_control_ids(self.tokenizer)

    def run(self, files: Iterable[FoundFile | SkippedFile]) -> None:
        """Take in the files; what was saved before an error or a cancel stays."""
        self.job.show(status="running")
        try:
            for num_done, found in enumerate(self._collect(files)):
                if self.job.is_cancelled:
                    break
                self.job.show(current=displayable_name(str(found.path)), num_files_done=num_done)
                self._take(found)
                self._show_counts(num_done + 1)
        finally:
            if self._has_replaced:
                self.database.sources.erase_deleted_words()
            self.keeper.reconcile()
        status = "cancelled" if self.job.is_cancelled else "complete"
        self.job.show(status=status, current="", skipped=tuple(self._skipped))

    def _collect(self, found_files: Iterable[FoundFile | SkippedFile]) -> list[FoundFile]:
        files: list[FoundFile] = []
        for found in found_files:
            if self.job.is_cancelled:
                break
            if isinstance(found, SkippedFile):
                self._skip(found)
            else:
                files.append(found)
                if len(files) % 100 == 0:
                    self.job.show(num_files_total=len(files))
        self.job.show(num_files_total=len(files), skipped=tuple(self._skipped))
        return files

    def _take(self, found: FoundFile) -> None:
        older = self.database.sources.find_by_uri(found.uri)
        document = read_document(found)
        if isinstance(document, SkippedFile):
            self._skip(document)
            if document.is_read and older is not None:
                self._drop(found)
            return
        same = self.database.sources.find_by_sha256(document.sha256)
        if same is not None and self.is_deeper:
            self.database.deeper_readings.want(same.id)
        if same is None:
            self._save(document)
            self._has_replaced |= older is not None
        elif same.uri == found.uri:
            self._skip(SkippedFile(found.path, "imported already"))
        else:
            self._skip(SkippedFile(found.path, f"the same content as {same.name}"))
            if older is not None:
                self._drop(found)

    def _drop(self, found: FoundFile) -> None:
        """What the file held when it was imported, it holds no more."""
        self.database.sources.delete_versions(found.uri)
        self._has_replaced = True

    def _save(self, document: DocumentFile) -> None:
        token_ids = encode_text(self.tokenizer, document.text, self._control_ids)
        try:
            source_id, _ = self.database.sources.add_document(
                name=document.name,
                uri=document.uri,
                sha256=document.sha256,
                text=document.text,
                token_ids=token_ids,
                tokenizer_id=self.keeper.tokenizer_id,
            )
        except RecordExistsError:  # another program was faster
            self._skip(SkippedFile(document.path, "imported already"))
            return
        if self.is_deeper:
            self.database.deeper_readings.want(source_id)
        self._num_documents += 1
        self._num_tokens += len(token_ids)
        self.keeper.expect(len(token_ids))

    def _skip(self, skipped: SkippedFile) -> None:
        self._skipped.append(
            (displayable_name(str(skipped.path)), displayable_name(skipped.reason))
        )

    def _show_counts(self, num_done: int) -> None:
        self.job.show(
            num_files_done=num_done,
            num_documents=self._num_documents,
            num_tokens=self._num_tokens,
            skipped=tuple(self._skipped),
        )
