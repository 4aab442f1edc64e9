"""Keeps the Trie of one tokenizer in step with the database and with the segment cache.

The sequences in the database are the truth: what the cached segment lacks is added, what it holds
too much is forgotten. Knows no model. Used by the workbench and the import job, from any thread.
"""

import logging
import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lookahead.draft import TokenSource
from lookahead.segment import Segment, SegmentFormatError
from lookahead.trie import Trie
from storage import Database, SegmentCache

__all__ = ["TrieKeeper"]

NamedSequence = tuple[int, TokenSource, Sequence[int] | NDArray[np.int32]]

logger = logging.getLogger(__name__)


class TrieKeeper:
    """One Trie and the places where it is kept.

    Attributes:
        trie: the Trie. Only ever changed through its own methods, which lock.
        tokenizer_id: the row id of its tokenizer.
    """

    def __init__(self, database: Database, cache: SegmentCache, tokenizer_id: int) -> None:
        self._database = database
        self._cache = cache
        self.tokenizer_id = tokenizer_id
        self._saved_segment: Segment | None = None
        self._save_lock = threading.Lock()
        self._change_lock = threading.Lock()
        self.trie = self._open()
        self._newest_id = max(self.trie.sequence_ids, default=0)

    def _open(self) -> Trie:
        wanted = set(self._database.sequences.ids(self.tokenizer_id))
        trie = self._load()
        trie.forget_many(trie.sequence_ids - wanted)
        missing = wanted - trie.sequence_ids
        if missing:
            rows = self._database.sequences.all(self.tokenizer_id, after=min(missing) - 1)
            trie.add_many(
                (sequence_id, TokenSource(kind), token_ids)
                for sequence_id, kind, token_ids in rows
                if sequence_id in missing
            )
        return trie

    def _load(self) -> Trie:
        """The Trie of the cached segment, or an empty one."""
        data = self._cache.load(self.tokenizer_id)
        if data is None:
            return Trie()
        try:
            segment = Segment.from_bytes(data)
        except SegmentFormatError as error:
            logger.warning("the cached Trie segment is not usable and is rebuilt: %s", error)
            return Trie()
        self._saved_segment = segment
        return Trie.from_segment(segment)

    def add_history(self, sequence_id: int, token_ids: Sequence[int]) -> None:
        """Make a saved exchange known to drafting."""
        self._add([(sequence_id, TokenSource.HISTORY, token_ids)])

    def add_documents(self, sequences: Iterable[tuple[int, Sequence[int]]]) -> None:
        """Make saved documents known to drafting, with one sort for all of them."""
        self._add([(sequence_id, TokenSource.DOCUMENT, ids) for sequence_id, ids in sequences])

    def catch_up(self) -> None:
        """Add what others saved since, such as an import started from the command line."""
        rows = list(self._database.sequences.all(self.tokenizer_id, after=self._newest_id))
        if rows:
            self._add([(row[0], TokenSource(row[1]), row[2]) for row in rows])
            self._newest_id = rows[-1][0]

    def _add(self, sequences: list[NamedSequence]) -> None:
        with self._change_lock:
            known = self.trie.sequence_ids
            self.trie.add_many(sequence for sequence in sequences if sequence[0] not in known)

    def forget(self, sequence_ids: Iterable[int]) -> None:
        """Take deleted sequences out; those of other tokenizers are not here, and passed over."""
        with self._change_lock:
            self.trie.forget_many(self.trie.sequence_ids.intersection(sequence_ids))

    def seal_and_save(self, *, only_if_due: bool = False) -> None:
        """Sort the tail into the segment, and save the segment if it is another than the saved one.

        Args:
            only_if_due: leave a short tail unsorted, since that costs little when drafting.
        """
        with self._save_lock:
            if self.trie.needs_sealing or not only_if_due:
                self.trie.seal()
            segment = self.trie.segment
            if segment is not self._saved_segment:
                covered = segment.log.sequence_ids.tolist()
                self._cache.save(self.tokenizer_id, segment.to_bytes(), covered)
                self._saved_segment = segment
