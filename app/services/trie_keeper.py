"""Keeps the Trie of one tokenizer in step with the database and with the segment cache.

The sequences in the database are the truth: everything is saved there first, and read from there
under one lock, so that what is deleted meanwhile cannot come back. Knows no model. Used by the
workbench and the import job, from any thread.
"""

import logging
import threading
from collections.abc import Iterable

from lookahead.draft import TokenSource
from lookahead.segment import Segment, SegmentFormatError
from lookahead.trie import MAX_TAIL_LENGTH, Trie
from storage import Database, SegmentCache

__all__ = ["TrieKeeper"]

logger = logging.getLogger(__name__)

_FIRST_BATCH_LENGTH = 250_000  # tokens before the Trie is told; later batches grow with the Trie


class TrieKeeper:
    """One Trie and the places where it is kept.

    Attributes:
        trie: the Trie. Read by anybody, changed only here.
        tokenizer_id: the row id of its tokenizer.
    """

    def __init__(self, database: Database, cache: SegmentCache, tokenizer_id: int) -> None:
        self._database = database
        self._cache = cache
        self.tokenizer_id = tokenizer_id
        self._saved_segment: Segment | None = None
        self._lock = threading.Lock()
        self._num_waiting = 0  # tokens saved that the Trie was not told of
        self._newest_id = 0  # of the sequences read so far
        self.trie = self._load()
        self.reconcile()

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

    def reconcile(self) -> None:
        """Make the Trie hold exactly what the database holds; may have to sort, or wait for it."""
        with self._lock:
            self._reconcile()

    def _reconcile(self) -> None:
        self._num_waiting = 0
        wanted = set(self._database.sequences.ids(self.tokenizer_id))
        held = self.trie.sequence_ids
        self.trie.forget_many(held - wanted)
        missing = wanted - held
        if missing:
            self.trie.add_many(
                (sequence_id, TokenSource(kind), token_ids)
                for sequence_id, kind, token_ids in self._database.sequences.all(
                    self.tokenizer_id, after=min(missing) - 1
                )
                if sequence_id in missing
            )
        self._newest_id = max(wanted, default=0)

    def catch_up(self) -> None:
        """Add what was saved since, as far as it can be done at once.

        What would have to be sorted in, or waits for another thread's sort, is left to `tidy`:
        somebody is waiting for an answer.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            room = MAX_TAIL_LENGTH - self.trie.statistics().tail_length
            rows = []
            for row in self._database.sequences.all(self.tokenizer_id, after=self._newest_id):
                room -= len(row[2]) + 1  # and the border behind it
                if room < 0:
                    break
                rows.append(row)
            if rows:
                self.trie.add_many((row[0], TokenSource(row[1]), row[2]) for row in rows)
                self._newest_id = rows[-1][0]
        finally:
            self._lock.release()

    def expect(self, num_tokens: int) -> None:
        """So many more were saved; once it is worth a sort, the Trie is told of all."""
        self._num_waiting += num_tokens
        if self._num_waiting > max(_FIRST_BATCH_LENGTH, self.trie.statistics().num_tokens):
            self.reconcile()

    def forget(self, sequence_ids: Iterable[int]) -> None:
        """Take deleted sequences out; those of other tokenizers are not here, and passed over."""
        with self._lock:
            self.trie.forget_many(self.trie.sequence_ids.intersection(sequence_ids))

    def tidy(self) -> None:
        """Housekeeping while nothing is asked; put off where another thread is at the Trie."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._reconcile()
            if self.trie.needs_sealing:  # a short tail costs little when drafting
                self.trie.seal()
        finally:
            self._lock.release()
        self._save()

    def close(self) -> None:
        """Sort everything into the segment and save it."""
        with self._lock:
            self.trie.seal()
        self._save()

    def _save(self) -> None:
        segment = self.trie.segment
        if segment is not self._saved_segment:
            self._cache.save(self.tokenizer_id, segment.to_bytes())
            self._saved_segment = segment
