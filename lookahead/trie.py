"""The Trie: every window of every sequence added, as paths with counts, without storing a node.

One sealed segment found by binary search, and an unsorted tail found by scanning. One writer at a
time; readers take `snapshot`, which never changes, so drafting takes no lock. Knows token ids and
sequence ids only: no text, no file, no model. Filled by the decoding loop and by the app's
services, read by the drafter.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock

import numpy as np

from lookahead.candidates import Candidates, IntArray, rank, scan
from lookahead.draft import TokenSource
from lookahead.segment import Segment
from lookahead.token_log import BORDER, Location, TokenLog, as_words

__all__ = ["Trie", "TrieSnapshot", "TrieStatistics"]

TAIL_LENGTH = 2_048  # words above which sealing is due
MAX_TAIL_LENGTH = 16 * TAIL_LENGTH  # words above which `add` seals by itself
SOURCES = (TokenSource.HISTORY, TokenSource.DOCUMENT)


@dataclass(frozen=True, slots=True)
class TrieStatistics:
    """What a Trie holds. `tail_length` counts words not yet sorted, `num_bytes` its memory."""

    num_sequences: int
    num_tokens: int
    num_tokens_by_source: Mapping[TokenSource, int]
    tail_length: int
    num_bytes: int


class TrieSnapshot:
    """The Trie as it was at one moment; safe to read from any thread.

    Log positions run through the segment and on through the tail. They keep their meaning while
    their sequence lives, in later snapshots too.
    """

    def __init__(self, segment: Segment, tail: TokenLog) -> None:
        self.segment = segment
        self.tail = tail

    def edges_of(self, sequence_ids: Collection[int]) -> tuple[IntArray, IntArray]:
        """Where these sequences lie in segment and tail, as `candidates` wants it for masking."""
        return self.segment.log.edges_of(sequence_ids), self.tail.edges_of(sequence_ids)

    def candidates(
        self, suffix: IntArray, depth: int, masked_edges: tuple[IntArray, IntArray]
    ) -> Candidates:
        """Continuations of a context's last tokens, `depth` tokens long, never across a border.

        Args:
            suffix: token ids at the end of the context, oldest first; at least one.
            depth: tokens of each continuation.
            masked_edges: the sequences to leave out, from `edges_of`.
        """
        words = as_words(suffix)
        sealed, sealed_lengths = self.segment.find(words, masked_edges[0])
        fresh, fresh_lengths = self._scan_tail(words, masked_edges[1])
        windows = np.concatenate(
            (self.segment.log.windows(sealed, depth), self.tail.windows(fresh, depth))
        )
        positions = np.concatenate((sealed, fresh + len(self.segment.log)))
        match_lengths = np.concatenate((sealed_lengths, fresh_lengths))
        ranks = rank(positions, match_lengths)
        return Candidates(positions[ranks], match_lengths[ranks], windows[ranks], sys.maxsize)

    def locate(self, position: int) -> Location:
        """Provenance of a log position. Raises KeyError where no living sequence has a token."""
        sealed_length = len(self.segment.log)
        if position < sealed_length:
            return self.segment.log.locate(position)
        return self.tail.locate(position - sealed_length)

    def _scan_tail(self, suffix: IntArray, masked_edges: IntArray) -> tuple[IntArray, IntArray]:
        positions, match_lengths = scan(self.tail.words, suffix)
        keep = self.tail.words[positions] != BORDER
        keep &= np.searchsorted(masked_edges, positions, side="right") % 2 == 0
        return positions[keep], match_lengths[keep]


class Trie:
    """All that was read and written with one tokenizer, ready to be drafted from."""

    def __init__(self) -> None:
        nothing = TokenLog.of(())
        self._snapshot = TrieSnapshot(Segment.sort(nothing), nothing)
        self._sequence_ids: set[int] = set()
        self._lock = Lock()

    @classmethod
    def from_segment(cls, segment: Segment) -> "Trie":
        """A Trie that starts with a stored segment; see `sequence_ids` for what it covers."""
        trie = cls()
        trie._snapshot = TrieSnapshot(segment, TokenLog.of(()))
        trie._sequence_ids = set(segment.log.sequence_ids.tolist())
        return trie

    @property
    def snapshot(self) -> TrieSnapshot:
        """The current content, unchanged by whatever happens later."""
        return self._snapshot

    @property
    def segment(self) -> Segment:
        """The sealed part, to be stored; `seal` first to have everything in it."""
        return self._snapshot.segment

    @property
    def sequence_ids(self) -> frozenset[int]:
        """The sequences it holds."""
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
            sequence_id: the caller's name for it; None: the next free one.

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
        with self._lock:
            sequence_ids = self._name([given for given, _, _ in named])
            fresh = []
            for sequence_id, (_, source, words) in zip(sequence_ids, named, strict=True):
                if source not in SOURCES:
                    raise ValueError(f"A sequence is HISTORY or DOCUMENT, not {source!r}.")
                fresh.append((sequence_id, source, words))
            tail = self._snapshot.tail.joined(TokenLog.of(fresh))
            self._snapshot = TrieSnapshot(self._snapshot.segment, tail)
            self._sequence_ids.update(sequence_ids)
            if len(tail) > MAX_TAIL_LENGTH:
                self._seal()
        return sequence_ids

    def forget(self, sequence_id: int) -> None:
        """Wipe one sequence; the next draft does not know it. Raises KeyError for an unknown id."""
        self.forget_many([sequence_id])

    def forget_many(self, sequence_ids: Collection[int]) -> None:
        """Wipe sequences in one go. Raises KeyError, and wipes none, where one is unknown."""
        with self._lock:
            unknown = set(sequence_ids) - self._sequence_ids
            if unknown:
                raise KeyError(f"The Trie holds no sequence {min(unknown)}.")
            segment, tail = self._snapshot.segment, self._snapshot.tail
            if np.isin(segment.log.sequence_ids, list(sequence_ids)).any():
                segment = segment.without(sequence_ids)
            self._snapshot = TrieSnapshot(segment, tail.without(sequence_ids))
            self._sequence_ids.difference_update(sequence_ids)

    @property
    def needs_sealing(self) -> bool:
        """Whether the tail has grown long enough to be worth sealing when decoding is idle."""
        return len(self._snapshot.tail) > TAIL_LENGTH

    def seal(self) -> None:
        """Sort the tail into the segment; drafts and log positions keep their meaning."""
        with self._lock:
            self._seal()

    def _seal(self) -> None:
        snapshot = self._snapshot
        if len(snapshot.tail):
            segment = snapshot.segment.extended(snapshot.tail)
            self._snapshot = TrieSnapshot(segment, TokenLog.of(()))

    def locate(self, position: int) -> Location:
        """Provenance of a log position, from a draft for instance.

        Raises KeyError where no living sequence has a token, as after `forget`.
        """
        return self._snapshot.locate(position)

    def statistics(self) -> TrieStatistics:
        """Counts of what the Trie holds now."""
        snapshot = self._snapshot
        logs = (snapshot.segment.log, snapshot.tail)
        num_tokens = sum(int(log.lengths.sum()) for log in logs)
        num_documents = sum(int(log.lengths[log.is_document == 1].sum()) for log in logs)
        return TrieStatistics(
            num_sequences=sum(len(log.starts) for log in logs),
            num_tokens=num_tokens,
            num_tokens_by_source={
                TokenSource.HISTORY: num_tokens - num_documents,
                TokenSource.DOCUMENT: num_documents,
            },
            tail_length=len(snapshot.tail),
            num_bytes=snapshot.segment.order.nbytes + sum(log.num_bytes for log in logs),
        )

    def _name(self, given_ids: Sequence[int | None]) -> list[int]:
        """The given ids, with the next free ones for None. Raises ValueError where one is taken."""
        given = [sequence_id for sequence_id in given_ids if sequence_id is not None]
        if len(set(given)) < len(given) or not self._sequence_ids.isdisjoint(given):
            raise ValueError("A sequence id can be used once. Forget the old sequence first.")
        free = count(1 + max((0, *self._sequence_ids, *given)))
        return [next(free) if given_id is None else given_id for given_id in given_ids]
