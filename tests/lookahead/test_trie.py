"""The Trie against plain lists of windows; its promises about ids, borders and forgetting."""

import threading
from collections.abc import Collection, Sequence

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lookahead import trie as trie_module
from lookahead.draft import TokenSource
from lookahead.segment import SAMPLE_SIZE, Segment
from lookahead.token_log import MAX_TOKEN_ID
from lookahead.trie import Trie
from tests.lookahead.list_of_windows import Found, found_in

DEPTH = 4
TOKENS = st.lists(st.integers(0, 3), max_size=12)
SOURCES = st.sampled_from([TokenSource.HISTORY, TokenSource.DOCUMENT])


def found_by(trie: Trie, context: Sequence[int], masked: Collection[int] = ()) -> Found:
    """What the Trie finds, in the terms of the slow truth."""
    snapshot = trie.snapshot
    found = snapshot.candidates(np.array(context[-32:]), DEPTH, snapshot.edges_of(masked))
    result: Found = {}
    for position, length, window in zip(
        found.positions.tolist(), found.match_lengths.tolist(), found.windows.tolist(), strict=True
    ):
        location = trie.locate(position)
        place = (location.sequence_id, location.offset)
        assert place not in result, "a place was found twice"
        result[place] = (length, tuple(token for token in window if token >= 0))
    return result


class TrieMachine(RuleBasedStateMachine):
    """Any order of operations leaves the Trie knowing what a list of sequences knows."""

    def __init__(self) -> None:
        super().__init__()
        self.trie = Trie()
        self.sequences: dict[int, list[int]] = {}
        self.sources: dict[int, TokenSource] = {}

    @rule(tokens=TOKENS, source=SOURCES)
    def add(self, tokens: list[int], source: TokenSource) -> None:
        sequence_id = self.trie.add(tokens, source=source)
        self.remember(sequence_id, source, tokens)

    @rule(batch=st.lists(st.tuples(SOURCES, TOKENS), max_size=4), data=st.data())
    def add_many(self, batch: list[tuple[TokenSource, list[int]]], data: st.DataObject) -> None:
        free = st.one_of(st.none(), st.integers(100, 200).filter(lambda i: i not in self.sources))
        ids = data.draw(
            st.lists(free, min_size=len(batch), max_size=len(batch)).filter(
                lambda ids: len(set(ids) - {None}) == len(ids) - ids.count(None)
            )
        )
        batches = [(given, *rest) for given, rest in zip(ids, batch, strict=True)]
        named = self.trie.add_many(batches)
        for sequence_id, (given, source, tokens) in zip(named, batches, strict=True):
            assert given in (None, sequence_id)
            self.remember(sequence_id, source, tokens)

    def remember(self, sequence_id: int, source: TokenSource, tokens: list[int]) -> None:
        assert sequence_id not in self.sequences
        self.sequences[sequence_id] = tokens
        self.sources[sequence_id] = source

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        for sequence_id in self.some(data, max_size=1):
            self.trie.forget(sequence_id)
            del self.sequences[sequence_id], self.sources[sequence_id]

    @rule(data=st.data())
    def forget_many(self, data: st.DataObject) -> None:
        sequence_ids = self.some(data, max_size=3)
        self.trie.forget_many(sequence_ids)
        for sequence_id in sequence_ids:
            del self.sequences[sequence_id], self.sources[sequence_id]

    def some(self, data: st.DataObject, max_size: int) -> set[int]:
        """Ids of a few sequences, drawn from those that live."""
        if not self.sequences:
            return set()
        return data.draw(st.sets(st.sampled_from(sorted(self.sequences)), max_size=max_size))

    @rule()
    def seal(self) -> None:
        self.trie.seal()
        assert self.trie.statistics().tail_length == 0

    @rule()
    def reopen(self) -> None:
        self.trie.seal()
        self.trie = Trie.from_segment(Segment.from_bytes(self.trie.segment.to_bytes()))

    @rule(context=st.lists(st.integers(0, 3), min_size=1, max_size=6), data=st.data())
    def look_up(self, context: list[int], data: st.DataObject) -> None:
        masked = self.some(data, max_size=2)
        expected = found_in(self.sequences, context, DEPTH, masked)
        found = found_by(self.trie, context, masked)
        if sum(tokens.count(context[-1]) for tokens in self.sequences.values()) <= SAMPLE_SIZE:
            assert found == expected
        else:
            assert found.items() <= expected.items()

    @invariant()
    def statistics_count_what_is_there(self) -> None:
        statistics = self.trie.statistics()
        assert self.trie.sequence_ids == set(self.sequences)
        assert statistics.num_sequences == len(self.sequences)
        assert statistics.num_tokens == sum(map(len, self.sequences.values()))
        assert statistics.num_tokens_by_source[TokenSource.DOCUMENT] == sum(
            len(tokens)
            for sequence_id, tokens in self.sequences.items()
            if self.sources[sequence_id] is TokenSource.DOCUMENT
        )

    @invariant()
    def every_found_place_names_its_source(self) -> None:
        for sequence_id, tokens in self.sequences.items():
            if len(tokens) > 1:
                snapshot = self.trie.snapshot
                found = snapshot.candidates(np.array(tokens[:1]), 1, snapshot.edges_of(()))
                for position in found.positions.tolist():
                    location = self.trie.locate(position)
                    assert location.source is self.sources[location.sequence_id]
                assert sequence_id in self.trie.sequence_ids


TestTrieMachine = TrieMachine.TestCase
TestTrieMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_windows_never_cross_from_one_sequence_into_the_next() -> None:
    trie = Trie()
    trie.add([1, 2])
    trie.add([3, 1, 2, 4])
    for _ in range(2):
        assert found_by(trie, [1, 2]) == {(2, 3): (2, (4,))}
        assert found_by(trie, [2, 3]) == {(2, 1): (1, (1, 2, 4))}
        trie.seal()


def test_sealing_keeps_what_is_found_and_where() -> None:
    trie = Trie()
    for tokens in ([5, 6, 7, 8], [6, 7, 9], [0, 6, 7, 0, 0]):
        trie.add(tokens)
    snapshot = trie.snapshot
    trie.seal()
    before, after = (
        taken.candidates(np.array([6, 7]), DEPTH, taken.edges_of(()))
        for taken in (snapshot, trie.snapshot)
    )
    np.testing.assert_array_equal(before.positions, after.positions)
    np.testing.assert_array_equal(before.windows, after.windows)
    assert after.windows.tolist() == [[0, 0, -1, -1], [9, -1, -1, -1], [8, -1, -1, -1]]


def test_a_merged_tail_is_found_like_a_sorted_one() -> None:
    generator = np.random.default_rng(1)
    sequences = [1_009 * generator.integers(0, 70, 400) for _ in range(20)]
    merged, whole = Trie(), Trie()
    merged.add_many((None, TokenSource.HISTORY, tokens) for tokens in sequences[:19])
    merged.seal()
    merged.add(sequences[19][:300])
    whole.add_many((None, TokenSource.HISTORY, tokens) for tokens in sequences[:19])
    whole.add(sequences[19][:300])
    merged.seal()
    whole.seal()
    np.testing.assert_array_equal(merged.segment.order, whole.segment.order)


def test_a_log_position_keeps_its_meaning_through_seal_and_forget() -> None:
    trie = Trie()
    first, second = trie.add([1, 2, 3]), trie.add([4, 5], source=TokenSource.DOCUMENT)
    found = trie.snapshot.candidates(np.array([4]), 1, trie.snapshot.edges_of(()))
    place = int(found.positions[0])
    located = trie.locate(place)
    assert (located.sequence_id, located.offset) == (second, 1)
    trie.seal()
    trie.forget(first)
    trie.add([9])
    assert trie.locate(place) == located
    assert located.source is TokenSource.DOCUMENT
    for nowhere in (-1, 0, 1, 3, place + 1, 10_000):
        with pytest.raises(KeyError):
            trie.locate(nowhere)


@pytest.mark.parametrize("sealed", [False, True])
def test_forgetting_is_at_once_and_leaves_no_token_in_the_stored_bytes(sealed: bool) -> None:
    trie = Trie()
    secret = trie.add([1, 77_777, 2], sequence_id=42)
    trie.add([1, 3])
    if sealed:
        trie.seal()
    old = trie.snapshot
    trie.forget(secret)
    assert found_by(trie, [1]) == {(43, 1): (1, (3,))}
    assert len(old.candidates(np.array([1]), 1, old.edges_of(())).positions) == 2
    trie.seal()
    assert np.array([77_778], ">i4").tobytes() not in trie.segment.to_bytes()
    with pytest.raises(KeyError, match="42"):
        trie.forget(secret)
    with pytest.raises(KeyError, match="42"):
        trie.forget_many([secret, 43])
    assert trie.sequence_ids == {43}
    assert trie.add([1, 4], sequence_id=42) == 42


def test_an_id_names_one_sequence_and_a_refused_batch_changes_nothing() -> None:
    trie = Trie()
    trie.add([1, 2], sequence_id=7)
    assert trie.add([1]) == 8
    before = trie.snapshot
    history = TokenSource.HISTORY
    for batch in (
        [(9, history, [1]), (7, history, [2])],
        [(9, history, [1]), (9, history, [2])],
        [(9, history, [1]), (10, TokenSource.PROMPT, [2])],
        [(9, history, [1]), (10, history, [-1])],
        [(9, history, [1]), (10, history, [MAX_TOKEN_ID + 1])],
    ):
        with pytest.raises(ValueError, match=r"sequence|Token"):
            trie.add_many(batch)
    assert trie.snapshot is before
    assert trie.sequence_ids == {7, 8}


def test_the_largest_and_the_smallest_token_id_are_ordinary() -> None:
    trie = Trie()
    trie.add([0, MAX_TOKEN_ID, 0, 0])
    for _ in range(2):
        assert found_by(trie, [0, MAX_TOKEN_ID]) == {(1, 2): (2, (0, 0))}
        trie.seal()


def test_a_long_tail_asks_for_sealing_and_a_far_longer_one_seals_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trie_module, "TAIL_LENGTH", 8)
    monkeypatch.setattr(trie_module, "MAX_TAIL_LENGTH", 16)
    trie = Trie()
    trie.add([1] * 7)
    assert not trie.needs_sealing
    trie.add([2] * 7)
    assert trie.needs_sealing
    trie.add([3])
    assert not trie.needs_sealing
    assert trie.statistics().tail_length == 0


def test_masking_finds_what_a_masked_chat_would_crowd_out() -> None:
    trie = Trie()
    mine = trie.add([1, 2, 3] * 1_000)
    trie.add([1, 2, 4])
    trie.seal()
    trie.add([1, 2, 5])
    assert found_by(trie, [1, 2], [mine]) == {(2, 2): (2, (4,)), (3, 2): (2, (5,))}


def test_readers_need_no_lock_while_a_writer_adds_forgets_and_seals() -> None:
    trie = Trie()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            sequence_id = trie.add([1, 2, 3, 1, 2, 4])
            trie.seal()
            trie.add([1, 2, 5])
            trie.forget(sequence_id)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            snapshot = trie.snapshot
            found = snapshot.candidates(np.array([1, 2]), 2, snapshot.edges_of(()))
            assert set(found.windows[:, 0].tolist()) <= {3, 4, 5}
            for position in found.positions.tolist():
                assert snapshot.locate(position).offset in (2, 5)
    finally:
        stop.set()
        writer.join()
