"""The Trie: every window of every sequence added, as paths with counts, without storing a node.

A few sealed segments found by binary search, and a short unsorted tail found by scanning. One
writer at a time; readers take `snapshot`, which never changes, so drafting takes no lock. Knows
token ids and sequence ids only: no text, no file, no model. Filled by the decoding loop and by the
app's services, read by the drafter.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from threading import Lock

import numpy as np

from lookahead.candidates import IntArray
from lookahead.draft import TokenSource
from lookahead.segment import Merge, Segment
from lookahead.token_log import Location, TokenLog, as_words
from lookahead.trie_snapshot import TrieSnapshot

__all__ = ["Trie", "TrieSnapshot", "TrieStatistics"]

TAIL_LENGTH = 1_024  # words above which sealing is due
MAX_TAIL_LENGTH = 2_048  # words above which `add` seals by itself
MERGE_RATIO = 8  # a segment this many times longer than the next newer one is left alone
PROMPT_MERGE_LENGTH = 65_536  # words; segments of no more together are merged when one is sealed
MAX_SEGMENTS = 8  # above it sealing merges whatever is due
MERGE_PIECE_LENGTH = 100_000  # entries merged between two looks at whether somebody waits
MAX_SEGMENT_LENGTH = 100_000_000  # words; SQLite keeps no more than a gigabyte in one value
SOURCES = (TokenSource.HISTORY, TokenSource.DOCUMENT)


@dataclass(frozen=True, slots=True)
class TrieStatistics:
    """What a Trie holds. `tail_length` counts words not yet sorted, `num_bytes` its memory.

    Hidden sequences are counted in all but `num_hidden_tokens`, which counts them alone.
    """

    num_sequences: int
    num_tokens: int
    num_tokens_by_source: Mapping[TokenSource, int]
    num_hidden_tokens: int
    num_segments: int
    tail_length: int
    num_bytes: int


class Trie:
    """All that was read and written with one tokenizer, ready to be drafted from."""

    def __init__(self) -> None:
        self._snapshot = TrieSnapshot((), TokenLog.of(()), frozenset())
        self._sequence_ids: set[int] = set()
        self._end_place = 0  # of all sequences ever added: places are not used again
        self._next_id = 1  # above all of them too
        self._merge: Merge | None = None
        self._lock = Lock()

    @classmethod
    def from_segments(cls, segments: Iterable[Segment]) -> "Trie":
        """A Trie that starts with stored segments, the oldest first; each has its places.

        Raises:
            ValueError: a sequence or a place is in two of them.
        """
        trie = cls()
        kept = tuple(segment for segment in segments if len(segment))
        ids = [id_ for segment in kept for id_ in segment.log.sequence_ids.tolist()]
        trie._sequence_ids = set(ids)
        trie._next_id = 1 + max(ids, default=0)
        places = [(int(segment.log.places[0]), segment.log.end_place) for segment in kept]
        if len(ids) > len(trie._sequence_ids) or any(
            end > begin for (_, end), (begin, _) in pairwise(places)
        ):
            raise ValueError("The segments hold the same sequence twice. Rebuild them.")
        trie._end_place = max((end for _, end in places), default=0)
        trie._snapshot = TrieSnapshot(kept, TokenLog.of(()), frozenset())
        return trie

    @staticmethod
    def prepare() -> None:
        """Have search and merging compiled now, not at the first draft: seconds, once a machine."""
        trie = Trie()
        for _ in range(2):
            trie.add([0, 1] * MAX_TAIL_LENGTH)
            trie.add([0, 2])
            edges = trie.snapshot.edges_of([1])
            trie.snapshot.candidates(np.zeros(1, np.int64), 1, edges)

    @property
    def snapshot(self) -> TrieSnapshot:
        """The current content, unchanged by whatever happens later."""
        return self._snapshot

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The sealed parts, to be stored; `seal` first to have everything in them."""
        return self._snapshot.segments

    @property
    def sequence_ids(self) -> frozenset[int]:
        """The sequences it holds, hidden ones too."""
        with self._lock:
            return frozenset(self._sequence_ids)

    def add(
        self,
        token_ids: Sequence[int] | IntArray,
        *,
        source: TokenSource = TokenSource.HISTORY,
        sequence_id: int | None = None,
    ) -> int:
        """Add one sequence; it can be drafted from at once.

        Args:
            token_ids: its tokens.
            source: HISTORY or DOCUMENT.
            sequence_id: the caller's name for it; None: one above all that were ever used.

        Returns:
            its sequence id. Raises ValueError for an id that is taken, another source, or token
            ids out of range.
        """
        return self.add_many([(sequence_id, source, token_ids)])[0]

    def add_many(
        self, sequences: Iterable[tuple[int | None, TokenSource, Sequence[int] | IntArray]]
    ) -> list[int]:
        """Add sequences given as (sequence id or None, source, token ids): all of them or none."""
        named = [
            (given, TokenSource(source), as_words(token_ids))
            for given, source, token_ids in sequences
        ]
        for _, source, _ in named:
            if source not in SOURCES:
                raise ValueError(f"A sequence is HISTORY or DOCUMENT, not {source!r}.")
        with self._lock:
            sequence_ids = self._name([given for given, _, _ in named])
            fresh = TokenLog.of(
                [
                    (sequence_id, source, words)
                    for sequence_id, (_, source, words) in zip(sequence_ids, named, strict=True)
                ],
                self._end_place,
            )
            self._end_place = max(self._end_place, fresh.end_place)
            tail = self._snapshot.tail.joined(fresh)
            if len(tail) > MAX_TAIL_LENGTH:
                self._seal(tail)
            else:
                self._publish(tail=tail)
            self._sequence_ids.update(sequence_ids)
            self._next_id = max(self._next_id, 1 + max(sequence_ids, default=0))
        return sequence_ids

    def hide(self, sequence_ids: Collection[int]) -> None:
        """Draft from these no more, until `restore`. Raises KeyError where one is unknown."""
        with self._lock:
            self._check_known(sequence_ids)
            self._publish(hidden=self._snapshot.hidden.union(sequence_ids))

    def restore(self, sequence_ids: Collection[int]) -> None:
        """Draft from hidden sequences again. Raises KeyError, restoring none, for unknown ones."""
        with self._lock:
            self._check_known(sequence_ids)
            self._publish(hidden=self._snapshot.hidden.difference(sequence_ids))

    def forget(self, sequence_id: int) -> None:
        """Drop one sequence; the next draft does not know it. Raises KeyError for an unknown id."""
        self.forget_many([sequence_id])

    def forget_many(self, sequence_ids: Collection[int]) -> None:
        """Drop sequences for good. Raises KeyError, and drops none, where one is unknown.

        Nothing of them stays in memory but in snapshots that somebody still reads.
        """
        if not sequence_ids:
            return
        with self._lock:
            self._check_known(sequence_ids)
            snapshot = self._snapshot
            segments = (
                segment.without(sequence_ids) if segment.log.holds(sequence_ids) else segment
                for segment in snapshot.segments
            )
            self._publish(
                segments=tuple(segment for segment in segments if len(segment)),
                tail=snapshot.tail.without(sequence_ids),
                hidden=snapshot.hidden.difference(sequence_ids),
            )
            self._sequence_ids.difference_update(sequence_ids)
            if self._merge is not None and not self._is_under_way(self._merge):
                self._merge = None  # it would bring them back

    @property
    def needs_sealing(self) -> bool:
        """Whether the tail has grown long enough to be worth sealing when decoding is idle."""
        return len(self._snapshot.tail) > TAIL_LENGTH

    @property
    def needs_merging(self) -> bool:
        """Whether there are segments to be merged when decoding is idle."""
        return self._due_pair() is not None

    def seal(self) -> None:
        """Sort the tail into a segment; drafts and log positions keep their meaning."""
        with self._lock:
            self._seal(self._snapshot.tail)

    def merge(self, num_entries: int = MERGE_PIECE_LENGTH) -> bool:
        """Merge segments, so many entries of it, and say whether there is more to do.

        Drafts and log positions keep their meaning. Few segments are quicker to search.
        """
        with self._lock:
            if self._merge is None:
                pair = self._due_pair()
                if pair is None:
                    return False
                self._merge = Merge(*pair)
            self._advance(self._merge, num_entries)
            return self.needs_merging

    def locate(self, position: int) -> Location:
        """Provenance of a log position, from a draft for instance.

        Raises KeyError where no living sequence has a token, as after `forget`.
        """
        return self._snapshot.locate(position)

    def statistics(self) -> TrieStatistics:
        """Counts of what the Trie holds now."""
        snapshot = self._snapshot
        logs = snapshot.logs
        num_tokens = sum(int(log.lengths.sum()) for log in logs)
        num_documents = sum(int(log.lengths[log.is_document == 1].sum()) for log in logs)
        hidden = [log.edges_of(snapshot.hidden) for log in logs]
        return TrieStatistics(
            num_sequences=sum(len(log.lengths) for log in logs),
            num_tokens=num_tokens,
            num_tokens_by_source={
                TokenSource.HISTORY: num_tokens - num_documents,
                TokenSource.DOCUMENT: num_documents,
            },
            num_hidden_tokens=sum(int((edges[1::2] - edges[::2]).sum()) for edges in hidden),
            num_segments=len(snapshot.segments),
            tail_length=len(snapshot.tail),
            num_bytes=snapshot.num_bytes,
        )

    def _publish(
        self,
        *,
        segments: tuple[Segment, ...] | None = None,
        tail: TokenLog | None = None,
        hidden: frozenset[int] | None = None,
    ) -> None:
        old = self._snapshot
        self._snapshot = TrieSnapshot(
            old.segments if segments is None else segments,
            old.tail if tail is None else tail,
            old.hidden if hidden is None else hidden,
        )

    def _seal(self, tail: TokenLog) -> None:
        """Sort `tail` and publish it as the newest segment; merge what is quickly merged."""
        if not len(tail):
            return
        sealed = (*self._snapshot.segments, Segment.sort(tail))
        self._publish(segments=sealed, tail=TokenLog.of(()))
        while (pair := self._due_pair()) is not None and (
            len(pair[0]) + len(pair[1]) <= PROMPT_MERGE_LENGTH
            or len(self._snapshot.segments) > MAX_SEGMENTS
        ):
            self._advance(Merge(*pair), 2 * MAX_SEGMENT_LENGTH)

    def _due_pair(self) -> tuple[Segment, Segment] | None:
        """The newest two neighbours of which the older one is not much longer; None: none are."""
        segments = self._snapshot.segments
        for older, newer in reversed(list(pairwise(segments))):
            together = len(older) + len(newer)
            if len(older) < MERGE_RATIO * len(newer) and together <= MAX_SEGMENT_LENGTH:
                return older, newer
        return None

    def _advance(self, merge: Merge, num_entries: int) -> None:
        """Merge a piece; once all of it is merged, publish one segment instead of the two."""
        merged = merge.advance(num_entries)
        if merged is None:
            return
        index = self._snapshot.segments.index(merge.older)
        segments = list(self._snapshot.segments)
        segments[index : index + 2] = [merged]
        self._publish(segments=tuple(segments))
        if self._merge is not None and not self._is_under_way(self._merge):
            self._merge = None

    def _is_under_way(self, merge: Merge) -> bool:
        """Whether both of its segments are still there."""
        segments = self._snapshot.segments
        return any(merge.older is one for one in segments) and any(
            merge.newer is one for one in segments
        )

    def _check_known(self, sequence_ids: Collection[int]) -> None:
        unknown = set(sequence_ids) - self._sequence_ids
        if unknown:
            raise KeyError(f"The Trie holds no sequence {min(unknown)}.")

    def _name(self, given_ids: Sequence[int | None]) -> list[int]:
        """The given ids, with the next free ones for None. Raises ValueError where one is taken."""
        given = [sequence_id for sequence_id in given_ids if sequence_id is not None]
        if len(set(given)) < len(given) or not self._sequence_ids.isdisjoint(given):
            raise ValueError("A sequence id can be used once. Forget the old sequence first.")
        free = count(max(self._next_id, 1 + max(given, default=0)))
        return [next(free) if given_id is None else given_id for given_id in given_ids]
