"""The work of an import: files become documents in the database and sequences in the Trie.

Knows the importer, the database, the Trie's keeper and a tokenizer, no model. Runs in a thread of
its own, so that chats go on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.importing import DocumentFile, FoundFile, SkippedFile, find_files, read_document
from app.prompting import encode_text, find_control_ids
from app.services.jobs import ImportJob
from app.services.trie_keeper import TrieKeeper
from storage import Database, RecordExistsError

__all__ = ["ImportWork"]

_FIRST_BATCH_LENGTH = 250_000  # tokens before the Trie is told; later batches grow with the Trie


@dataclass
class ImportWork:
    """One import. Each document is saved in a transaction of its own.

    Args:
        tokenizer: used by no other thread meanwhile.
    """

    database: Database
    keeper: TrieKeeper
    tokenizer: Any
    job: ImportJob
    _control_ids: frozenset[int] = field(init=False)
    _skipped: list[tuple[str, str]] = field(default_factory=list)
    _pending: list[tuple[int, list[int]]] = field(default_factory=list)
    _num_documents: int = 0
    _num_tokens: int = 0

    def __post_init__(self) -> None:
        self._control_ids = find_control_ids(self.tokenizer)

    def run(self, paths: Iterable[Path]) -> None:
        """Take in what the paths name; what was saved before an error or a cancel stays."""
        self.job.show(status="running")
        try:
            files = self._find(paths)
            for num_done, found in enumerate(files):
                if self.job.is_cancelled:
                    break
                self.job.show(current=str(found.path), num_files_done=num_done)
                self._take(found)
                self._show_counts(num_done + 1)
        finally:
            self._tell_trie()
        status = "cancelled" if self.job.is_cancelled else "complete"
        self.job.show(status=status, current="", skipped=tuple(self._skipped))

    def _find(self, paths: Iterable[Path]) -> list[FoundFile]:
        files: list[FoundFile] = []
        for found in find_files(paths):
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
        document = read_document(found)
        if isinstance(document, SkippedFile):
            self._skip(document)
            return
        same = self.database.sources.find_by_sha256(document.sha256)
        if same is not None:
            is_same_place = same.uri == document.uri
            reason = "imported already" if is_same_place else f"the same content as {same.name}"
            self._skip(SkippedFile(found.path, reason))
            return
        older = self.database.sources.find_by_uri(document.uri)
        if self._save(document) and older is not None:  # the file changed since it was imported
            self.keeper.forget(self.database.sources.delete(older.id))

    def _save(self, document: DocumentFile) -> bool:
        """Save one document; False where another program was faster."""
        token_ids = encode_text(self.tokenizer, document.text, self._control_ids)
        try:
            _, sequence_ids = self.database.sources.add_document(
                name=document.name,
                uri=document.uri,
                sha256=document.sha256,
                text=document.text,
                token_ids=token_ids,
                tokenizer_id=self.keeper.tokenizer_id,
            )
        except RecordExistsError:
            self._skip(SkippedFile(document.path, "imported already"))
            return False
        self._num_documents += 1
        self._num_tokens += len(token_ids)
        self._pending += [(sequence_id, token_ids) for sequence_id in sequence_ids]
        num_pending = sum(len(ids) for _, ids in self._pending)
        if num_pending > max(_FIRST_BATCH_LENGTH, self.keeper.trie.statistics().num_tokens):
            self._tell_trie()
        return True

    def _tell_trie(self) -> None:
        pending, self._pending = self._pending, []
        self.keeper.add_documents(pending)

    def _skip(self, skipped: SkippedFile) -> None:
        self._skipped.append((str(skipped.path), skipped.reason))

    def _show_counts(self, num_done: int) -> None:
        self.job.show(
            num_files_done=num_done,
            num_documents=self._num_documents,
            num_tokens=self._num_tokens,
            skipped=tuple(self._skipped),
        )
