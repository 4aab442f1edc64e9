"""Keeps the Trie of one tokenizer in step with the database and with the segment cache.

The sequences in the database are the truth: everything is saved there first, and read from there
under one lock, so that what is deleted meanwhile cannot come back. Knows no model. Used by the
workbench and the import job, from any thread.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from app.services.trie_budget import (
    DEFAULT_BUDGET_BYTES,
    ROOM_SHARE,
    Indexable,
    LeftOut,
    bytes_of,
    choose,
)
from lookahead.draft import TokenSource
from lookahead.segment import Segment, SegmentFormatError
from lookahead.token_log import as_words
from lookahead.trie import Trie
from storage import Database, SegmentCache

__all__ = ["CATCH_UP_LENGTH", "TrieKeeper"]

logger = logging.getLogger(__name__)

CATCH_UP_LENGTH = 32_768  # tokens that are sorted in before an answer, in some milliseconds
_FIRST_BATCH_LENGTH = 250_000  # tokens before the Trie is told; later batches grow with the Trie
_SORTED_LENGTH = 4_000_000  # tokens sorted in one go
_TIDIED_LENGTH = 400_000  # tokens sorted before it is looked whether somebody asks


class TrieKeeper:
    """One Trie and the places where it is kept.

    Attributes:
        trie: the Trie. Read by anybody, changed only here.
        tokenizer_id: the row id of its tokenizer.
        budget_bytes: memory that the Trie may take; what had to leave comes back with room.
    """

    def __init__(
        self,
        database: Database,
        cache: SegmentCache,
        tokenizer_id: int,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
    ) -> None:
        self._database = database
        self._cache = cache
        self.tokenizer_id = tokenizer_id
        self.budget_bytes = budget_bytes
        # In the cache. Weak, since a segment that was merged with another one is a second Trie.
        self._names: WeakKeyDictionary[Segment, str] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._num_waiting = 0  # tokens saved that the Trie was not told of
        self._newest_id = 0  # of the sequences read so far
        self._left_out: dict[int, int] = {}  # sequences without room: their tokens
        self._unusable: set[int] = set()  # sequences whose ids no model can have
        self._tidied_version: tuple[int, ...] = ()  # what was reconciled with to the end
        self.trie = self._load()
        self.reconcile()

    @property
    def left_out(self) -> LeftOut:
        """What the budget keeps out of the Trie. It is in the database all the same."""
        left_out = self._left_out
        return LeftOut(len(left_out), sum(left_out.values()))

    def _load(self) -> Trie:
        """The Trie of the cached segments that are whole; what was in others is missing."""
        end_place = 0
        segments: list[Segment] = []
        for name, data in self._cache.load(self.tokenizer_id):
            try:
                segment = Segment.from_bytes(data, end_place)
            except SegmentFormatError as error:
                logger.warning("a cached Trie segment is not usable and is rebuilt: %s", error)
                continue
            end_place = segment.log.end_place
            segments.append(segment)
            self._names[segment] = name
        try:
            return Trie.from_segments(segments)
        except ValueError as error:
            logger.warning("the cached Trie is not usable and is rebuilt: %s", error)
            self._names.clear()
            return Trie()

    def reconcile(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Make the Trie hold exactly what the database holds; may have to sort, or wait for it.

        Args:
            is_cancelled: asked now and then; what is not done then is left to `tidy`.
        """
        is_more = True
        while is_more:
            with self._lock:
                is_more = self._reconcile(_SORTED_LENGTH) and not is_cancelled()

    def _reconcile(self, most: int) -> bool:
        """Add so many tokens, or one sequence that has more; whether there are more to be added.

        What is to leave leaves at once.
        """
        self._num_waiting = 0
        rows = self._database.sequences.to_index(self.tokenizer_id)
        shown = [row[:4] for row in rows if not row[4] and row[0] not in self._unusable]
        hidden = {row[0] for row in rows if row[4]}
        wanted = self._choose(shown)
        held = self.trie.sequence_ids
        self.trie.forget_many(held - wanted - hidden)
        self._hide_just(held & hidden)
        missing = wanted - held
        self._newest_id = rows[-1][0] if rows else 0
        batch: list[tuple[int, TokenSource, Any]] = []
        room = most
        for sequence_id, kind, token_ids in (
            self._database.sequences.all(self.tokenizer_id, after=min(missing, default=1) - 1)
            if missing
            else ()
        ):
            if sequence_id not in missing:
                continue
            if room <= 0:
                break
            missing.discard(sequence_id)
            if self._is_usable(sequence_id, token_ids):
                batch.append((sequence_id, TokenSource(kind), token_ids))
                room -= len(token_ids)
        else:
            missing.clear()  # one that is damaged, or was deleted meanwhile, does not come
        self.trie.add_many(batch)
        return bool(missing)

    def _is_usable(self, sequence_id: int, token_ids: Any) -> bool:
        """Whether the Trie can hold it; one that it cannot is left alone from now on."""
        try:
            as_words(token_ids)
        except ValueError as error:
            logger.warning("sequence %d is left out of the Trie: %s", sequence_id, error)
            self._unusable.add(sequence_id)
            return False
        return True

    def _choose(self, shown: Sequence[Indexable]) -> set[int]:
        """The sequences that are to be held; when something must leave, some room is made."""
        if bytes_of(shown) <= ROOM_SHARE * self.budget_bytes:
            self._left_out = {}
        candidates = [row for row in shown if row[0] not in self._left_out or row[3]]
        if bytes_of(candidates) > self.budget_bytes:
            wanted = choose(shown, ROOM_SHARE * self.budget_bytes)
            self._left_out = {row[0]: row[2] for row in shown if row[0] not in wanted}
            return wanted
        wanted = {row[0] for row in candidates}
        self._left_out = {row[0]: row[2] for row in shown if row[0] not in wanted}
        return wanted

    def _hide_just(self, sequence_ids: set[int] | frozenset[int]) -> None:
        hidden = self.trie.snapshot.hidden
        self.trie.restore(hidden - sequence_ids)
        self.trie.hide(sequence_ids - hidden)

    def catch_up(self) -> None:
        """Add what was saved since, as far as it can be done at once.

        What takes longer to sort in, or waits for another thread's sort, is left to `tidy`:
        somebody is waiting for an answer.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            room = CATCH_UP_LENGTH
            newest_id, rows = self._newest_id, []
            for row in self._database.sequences.all(self.tokenizer_id, after=self._newest_id):
                room -= len(row[2]) + 1  # and the border behind it
                if room < 0:
                    break
                newest_id = row[0]
                if self._is_usable(row[0], row[2]):
                    rows.append(row)
            self.trie.add_many((row[0], TokenSource(row[1]), row[2]) for row in rows)
            self._newest_id = newest_id
        finally:
            self._lock.release()

    def expect(self, num_tokens: int, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """So many more were saved; once it is worth a sort, the Trie is told of all.

        `is_cancelled`: see `reconcile`.
        """
        self._num_waiting += num_tokens
        if self._num_waiting > max(_FIRST_BATCH_LENGTH, self.trie.statistics().num_tokens):
            self.reconcile(is_cancelled)

    def hide(self, sequence_ids: Iterable[int]) -> None:
        """Draft from deleted sequences no more, while that can be undone; unknown ones too."""
        with self._lock:
            self.trie.hide(self.trie.sequence_ids.intersection(sequence_ids))

    def restore(self, sequence_ids: Iterable[int]) -> None:
        """Draft again from sequences that were hidden; those dropped meanwhile are read anew."""
        with self._lock:
            self.trie.restore(self.trie.sequence_ids.intersection(sequence_ids))
        self.reconcile()

    def save_anew(self) -> bool:
        """Leave nothing in Trie and cache file that the database has no more; whether it is so."""
        with self._lock:
            self._forget_purged()
            return self._save()

    def tidy(self) -> bool:
        """A piece of housekeeping while nothing is asked; whether there is more to do.

        Put off where another thread is at the Trie.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self.trie.needs_merging:
                self.trie.merge()
                return True
            version = (self.budget_bytes, *self._database.version)
            if version != self._tidied_version:
                if self._reconcile(_TIDIED_LENGTH):
                    return True
                self._tidied_version = version
            if self.trie.needs_sealing:  # a short tail costs little when drafting
                self.trie.seal()
            if self.trie.needs_merging:
                return True
            self._save()
            return False
        finally:
            self._lock.release()

    def close(self) -> None:
        """Sort everything into segments and save them."""
        with self._lock:
            self._forget_purged()
            self.trie.seal()
            self._save()

    def _forget_purged(self) -> None:
        """Forget what was purged, by this program or another one: it must not be written anew."""
        rows = self._database.sequences.to_index(self.tokenizer_id)
        self.trie.forget_many(self.trie.sequence_ids.difference(row[0] for row in rows))

    def _save(self) -> bool:
        """Write the segments that the cache lacks, and drop from it those that are no more.

        What it holds is looked up: before this program might write it, another one may have.
        """
        segments = {
            self._names.setdefault(one, uuid.uuid4().hex): one for one in self.trie.segments
        }
        wanted_names = list(segments)
        cached_names = self._cache.names(self.tokenizer_id)
        if wanted_names == cached_names:
            return True
        if not self._cache.may_write():
            return False
        known = cached_names or ()
        contents = _Contents({name: one for name, one in segments.items() if name not in known})
        return self._cache.save(self.tokenizer_id, wanted_names, contents)


class _Contents(Mapping[str, bytes]):
    """The bytes of segments by name, made when asked for: all of them are a second Trie."""

    def __init__(self, segments: Mapping[str, Segment]) -> None:
        self._segments = segments

    def __getitem__(self, name: str) -> bytes:
        return self._segments[name].to_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)
