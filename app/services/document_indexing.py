"""Gives documents that were imported under another tokenizer their tokens, piece by piece.

Knows the database, the Trie's keeper and a tokenizer, no model. Owned by the workbench, used in
the worker's thread while nothing is asked.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

from app.prompting import find_control_ids
from app.services.document_tokens import encode_batches, joined
from app.services.trie_keeper import TrieKeeper
from storage import (
    Database,
    RecordDamagedError,
    RecordExistsError,
    RecordNotFoundError,
    StorageError,
)

__all__ = ["DocumentIndexing"]

logger = logging.getLogger(__name__)


class DocumentIndexing:
    """Indexes one document after the other."""

    def __init__(self, database: Database, keeper: TrieKeeper, tokenizer: Any) -> None:
        self._database = database
        self._keeper = keeper
        self._tokenizer = tokenizer
        self._done_up_to = 0  # document ids: those up to it have tokens, or yield none
        self._at_work: tuple[int, Iterator[int]] | None = None  # a document and its pieces
        self._has_come_back = threading.Event()  # a document, perhaps one without tokens

    def look_again(self) -> None:
        """Some were brought back: all documents are looked at anew. Any thread."""
        self._has_come_back.set()

    def work(self) -> bool:
        """Index a piece; whether there was one."""
        if self._at_work is None:
            if self._has_come_back.is_set():
                self._has_come_back.clear()
                self._done_up_to = 0
            source_id = self._database.sources.next_without_sequence(
                self._keeper.tokenizer_id, after=self._done_up_to
            )
            if source_id is None:
                return False
            self._at_work = (source_id, self._pieces(source_id))
        source_id, pieces = self._at_work
        try:
            # deleted or indexed in this moment, or damaged: then there is nothing to index
            with contextlib.suppress(RecordNotFoundError, RecordExistsError, RecordDamagedError):
                if next(pieces, None) is not None:
                    return True
        except StorageError as error:
            logger.warning("a document could not be indexed, and will be later: %s", error)
            self._at_work = None
            return False
        self._at_work, self._done_up_to = None, source_id
        return True

    def _pieces(self, source_id: int) -> Iterator[int]:
        """Index one document; yields between batches, so that nobody waits for a long one."""
        sources, tokenizer = self._database.sources, self._tokenizer
        batches = []
        for batch in encode_batches(
            tokenizer, sources.text(source_id), find_control_ids(tokenizer)
        ):
            batches.append(batch)
            yield len(batches)
        token_ids = joined(batches)
        sources.add_sequence(source_id, token_ids, self._keeper.tokenizer_id)
