"""A look into the Trie: how often a path occurs, and which tokens follow it how often.

For people, not for drafting: counts are exact, and sources are told of a sample. Knows token ids
and sequence ids only. Called by the app's services, on an immutable snapshot.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lookahead.candidates import MAX_MATCH_LENGTH, IntArray, evenly_spaced
from lookahead.draft import TokenSource
from lookahead.token_log import BORDER, TokenLog, as_words
from lookahead.trie_snapshot import TrieSnapshot

__all__ = ["Branch", "WalkedPath", "walk"]

SAMPLE_SIZE = 2_048  # places of a branch looked at for its sources
EXAMPLE_LENGTH = 16  # tokens of an example


@dataclass(frozen=True, slots=True)
class Branch:
    """A token that follows a path.

    Args:
        count: how often it does.
        num_by_source, num_by_sequence: of at most 2,048 of these, evenly spaced.
        example: tokens from it on, at one of the places.
    """

    token_id: int
    count: int
    num_by_source: dict[TokenSource, int]
    num_by_sequence: dict[int, int]
    example: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WalkedPath:
    """A path of the Trie.

    Args:
        count: how often it occurs.
        num_ends: how often a sequence ends behind it.
        num_branches: different tokens that follow it; `branches` are the most frequent ones.
    """

    count: int
    num_ends: int
    num_branches: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class _Runs:
    """The places of one log where the path goes on, by the word it goes on with.

    `places[begins[i] : ends[i]]` are those of `words[i]`, which rise.
    """

    log: TokenLog
    places: IntArray
    words: IntArray
    begins: IntArray
    ends: IntArray


def walk(snapshot: TrieSnapshot, path: Sequence[int], *, limit: int = 20) -> WalkedPath:
    """What follows a path. Raises ValueError for ids out of range, and for too long a path.

    Args:
        path: token ids, 32 at most; none: the root, whose branches are all tokens.
        limit: branches at most.
    """
    if len(path) > MAX_MATCH_LENGTH:
        raise ValueError(f"A path has {MAX_MATCH_LENGTH} tokens at most.")
    words = as_words(path)
    runs = [_runs(log, places, len(words)) for log, places in _found(snapshot, words)]
    counts: Counter[int] = Counter()
    for run in runs:
        counts.update(dict(zip(run.words.tolist(), (run.ends - run.begins).tolist(), strict=True)))
    num_ends = counts.pop(BORDER, 0)
    most = sorted(counts, key=lambda word: (-counts[word], word))[:limit]
    return WalkedPath(
        count=num_ends + counts.total(),
        num_ends=num_ends,
        num_branches=len(counts),
        branches=tuple(_branch(word, counts[word], runs) for word in most),
    )


def _found(snapshot: TrieSnapshot, words: IntArray) -> Iterator[tuple[TokenLog, IntArray]]:
    """Each log with the places behind the path in it, those of hidden sequences left out."""
    for segment in snapshot.segments:
        low, high = _range(segment.order, segment.log.words, words.tolist())
        behind = segment.order[low:high] + np.int32(len(words))
        yield segment.log, _shown(segment.log, behind, snapshot)
    tail = snapshot.tail
    places: IntArray = (
        np.flatnonzero(tail.words != BORDER) if not len(words) else np.arange(len(tail.words))
    )
    for offset, word in enumerate(words.tolist()):
        places = places[places + offset < len(tail.words)]
        places = places[tail.words[places + offset] == word]
    places = places + len(words)
    places = places[np.argsort(tail.words[places], kind="stable")]
    yield tail, _shown(tail, places, snapshot)


def _range(order: IntArray, words: IntArray, pattern: list[int]) -> tuple[int, int]:
    """The range of an order whose suffixes begin with the pattern."""
    length = len(pattern)

    def beginning(place: int) -> list[int]:
        start = int(order[place])
        found: list[int] = words[start : start + length].tolist()
        return found

    places = range(len(order))
    low = bisect_left(places, pattern, key=beginning)
    return low, bisect_right(places, pattern, lo=low, key=beginning)


def _shown(log: TokenLog, places: IntArray, snapshot: TrieSnapshot) -> IntArray:
    """The places that lie in no hidden sequence; its border counts as its own."""
    if not snapshot.hidden:
        return places
    edges = log.edges_of(snapshot.hidden)
    edges[1::2] += 1
    kept: IntArray = places[np.searchsorted(edges, places, side="right") % 2 == 0]
    return kept


def _runs(log: TokenLog, places: IntArray, depth: int) -> _Runs:
    following = log.words[places]
    begins = np.flatnonzero(np.r_[True, following[1:] != following[:-1]][: len(following)])
    return _Runs(log, places, following[begins], begins, np.r_[begins[1:], len(following)])


def _branch(word: int, count: int, runs: Sequence[_Runs]) -> Branch:
    by_source: Counter[TokenSource] = Counter()
    by_sequence: Counter[int] = Counter()
    example: tuple[int, ...] = ()
    for run in runs:
        at = int(np.searchsorted(run.words, word))
        if at == len(run.words) or run.words[at] != word:
            continue
        places = run.places[run.begins[at] : run.ends[at]]
        num_sampled = max(1, min(SAMPLE_SIZE, count) * len(places) // count)
        sample = evenly_spaced(places, num_sampled)
        indexes = np.searchsorted(run.log.starts, sample, side="right") - 1
        for index, times in zip(*np.unique(indexes, return_counts=True), strict=True):
            is_document = bool(run.log.is_document[index])
            by_source[TokenSource.DOCUMENT if is_document else TokenSource.HISTORY] += int(times)
            by_sequence[int(run.log.sequence_ids[index])] += int(times)
        example = _example(run.log, int(places[-1]))
    return Branch(int(word) - 1, count, dict(by_source), dict(by_sequence.most_common()), example)


def _example(log: TokenLog, place: int) -> tuple[int, ...]:
    tokens = log.words[place : place + EXAMPLE_LENGTH]
    ends = np.flatnonzero(tokens == BORDER)
    return tuple((tokens[: ends[0]] if len(ends) else tokens).astype(np.int64) - 1)
