"""The Trie against plain lists of windows; its promises about ids, borders and forgetting."""

import threading
from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lookahead import trie as trie_module
from lookahead.draft import TokenSource
from lookahead.segment import MERGE_DEPTH, Merge, Segment
from lookahead.token_log import MAX_TOKEN_ID, TokenLog, as_words
from lookahead.trie import MAX_SEGMENTS, MERGE_RATIO, Trie
from lookahead.trie_snapshot import SAMPLE_SIZE
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


def reopened(trie: Trie) -> Trie:
    """The Trie as it comes back from stored bytes; what is in the tail is lost."""
    segments: list[Segment] = []
    for segment in trie.segments:
        end_place = segments[-1].log.end_place if segments else 0
        segments.append(Segment.from_bytes(segment.to_bytes(), end_place))
    return Trie.from_segments(segments)


class TrieMachine(RuleBasedStateMachine):
    """Any order of operations leaves the Trie knowing what a list of sequences knows.

    Tails, tiers and the pieces of a merge are so short that all of them are passed through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for name, value in (
            ("TAIL_LENGTH", 8),
            ("MAX_TAIL_LENGTH", 16),
            ("MERGE_RATIO", 3),
            ("PROMPT_MERGE_LENGTH", 20),
            ("MAX_SEGMENTS", 4),
        ):
            self.patch.setattr(trie_module, name, value)
        self.trie = Trie()
        self.sequences: dict[int, list[int]] = {}
        self.sources: dict[int, TokenSource] = {}
        self.hidden: set[int] = set()
        self.places: dict[int, tuple[int, int]] = {}  # log positions seen: what stands there

    def teardown(self) -> None:
        self.patch.undo()

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
            self.trie.forget_many([sequence_id])
            self.drop({sequence_id})

    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        sequence_ids = self.some(data, max_size=3)
        self.trie.forget_many(sequence_ids)
        self.drop(sequence_ids)

    def drop(self, sequence_ids: set[int]) -> None:
        for sequence_id in sequence_ids:
            del self.sequences[sequence_id], self.sources[sequence_id]
        self.hidden -= sequence_ids

    @rule(data=st.data())
    def hide(self, data: st.DataObject) -> None:
        sequence_ids = self.some(data, max_size=2)
        self.trie.hide(sequence_ids)
        self.hidden |= sequence_ids

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        sequence_ids = self.some(data, max_size=2)
        self.trie.restore(sequence_ids)
        self.hidden -= sequence_ids

    def some(self, data: st.DataObject, max_size: int) -> set[int]:
        """Ids of a few sequences, drawn from those that live."""
        if not self.sequences:
            return set()
        return data.draw(st.sets(st.sampled_from(sorted(self.sequences)), max_size=max_size))

    @rule()
    def seal(self) -> None:
        self.trie.seal()
        assert self.trie.statistics().tail_length == 0

    @rule(num_entries=st.integers(1, 40))
    def merge(self, num_entries: int) -> None:
        assert self.trie.merge(num_entries) is self.trie.needs_merging

    @rule()
    def reopen(self) -> None:
        self.trie.seal()
        self.trie = reopened(self.trie)
        self.hidden.clear()
        self.places.clear()

    @rule(context=st.lists(st.integers(0, 3), min_size=1, max_size=6), data=st.data())
    def look_up(self, context: list[int], data: st.DataObject) -> None:
        masked = self.some(data, max_size=2)
        expected = found_in(self.sequences, context, DEPTH, masked | self.hidden)
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
        assert statistics.num_hidden_tokens == sum(len(self.sequences[id_]) for id_ in self.hidden)
        assert statistics.num_segments <= trie_module.MAX_SEGMENTS
        assert statistics.tail_length <= trie_module.MAX_TAIL_LENGTH

    @invariant()
    def every_order_is_whole_and_sorted(self) -> None:
        for segment in self.trie.segments:
            assert segment._is_consistent()
            words = segment.log.words.tolist()
            found = [words[begin : words.index(0, begin)] for begin in segment.order.tolist()]
            assert found == sorted(found)
            assert max(map(len, found), default=0) < MERGE_DEPTH

    @invariant()
    def a_position_names_the_same_token_as_long_as_it_lives(self) -> None:
        snapshot = self.trie.snapshot
        for token in range(4):
            found = snapshot.candidates(np.array([token]), 1, snapshot.edges_of(()))
            for position in found.positions.tolist():
                location = self.trie.locate(position)
                place = (location.sequence_id, location.offset)
                assert location.source is self.sources[location.sequence_id]
                assert self.places.setdefault(position, place) == place
        for position, (sequence_id, offset) in list(self.places.items()):
            if sequence_id in self.sequences:
                located = self.trie.locate(position)
                assert (located.sequence_id, located.offset) == (sequence_id, offset)
            else:
                with pytest.raises(KeyError):
                    self.trie.locate(position)
                del self.places[position]


TestTrieMachine = TrieMachine.TestCase
TestTrieMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


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


def test_merged_segments_are_what_sorting_it_all_gives() -> None:
    generator = np.random.default_rng(1)
    sequences = [1_009 * generator.integers(0, 70, 400) for _ in range(20)]
    merged, whole = Trie(), Trie()
    for tokens in sequences:
        merged.add(tokens)
        merged.seal()
    whole.add_many((None, TokenSource.HISTORY, tokens) for tokens in sequences)
    whole.seal()
    while merged.merge(num_entries=1_000):
        pass
    assert not merged.needs_merging
    [expected] = whole.segments
    [found] = merged.segments if len(merged.segments) == 1 else [_all_in_one(merged)]
    np.testing.assert_array_equal(found.log.places, expected.log.places)
    np.testing.assert_array_equal(np.sort(found.order), np.sort(expected.order))
    np.testing.assert_array_equal(_following(found), _following(expected))


def _following(segment: Segment) -> np.ndarray:
    """What stands behind each position of the order, up to its sequence's border."""
    words = np.concatenate((segment.log.words, np.zeros(MERGE_DEPTH, np.int32)))
    following = words[segment.order[:, None] + np.arange(MERGE_DEPTH)]
    following[np.logical_or.accumulate(following == 0, axis=1)] = 0
    return following


def _all_in_one(trie: Trie) -> Segment:
    first, *others = trie.segments
    for other in others:
        merged = Merge(first, other).advance(10**9)
        assert merged is not None
        first = merged
    return first


def test_segments_stay_few_however_much_is_sealed_between_two_merges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trie_module, "PROMPT_MERGE_LENGTH", 3_000)
    trie = Trie()
    for _ in range(60):
        trie.add([1, 2] * 1_250)
        assert len(trie.segments) <= MAX_SEGMENTS
    while trie.merge():
        pass
    lengths = [len(segment) for segment in trie.segments]
    assert all(older >= MERGE_RATIO * newer for older, newer in pairwise(lengths))
    assert sum(lengths) == 60 * 2_501


def test_a_merge_that_is_overtaken_by_forgetting_does_not_bring_anything_back() -> None:
    trie = Trie()
    trie.add([1, 2] * 50_000)
    secret = trie.add([1, 3] * 50_000)
    assert trie.merge(num_entries=1_000), "not done with one piece"
    trie.forget_many([secret])
    for _ in range(5):  # as often as it would take to end it
        trie.merge()
    assert trie.sequence_ids == {1}
    assert all(len(segment) == 100_001 for segment in trie.segments)
    assert len(found_by(trie, [3])) == 0


def test_what_is_hidden_is_not_drafted_from_until_it_is_restored() -> None:
    trie = Trie()
    kept, hidden = trie.add([1, 2]), trie.add([1, 3], source=TokenSource.DOCUMENT)
    for _ in range(2):
        trie.hide([hidden])
        assert found_by(trie, [1]) == {(kept, 1): (1, (2,))}
        assert hidden in trie.sequence_ids
        trie.restore([hidden])
        assert found_by(trie, [1]) == {(kept, 1): (1, (2,)), (hidden, 1): (1, (3,))}
        trie.seal()
    trie.hide([hidden])
    trie.forget_many([hidden])
    trie.add([1, 4], sequence_id=hidden)
    assert found_by(trie, [1])[(hidden, 1)] == (1, (4,)), "another sequence, not hidden"
    for refused in (trie.hide, trie.restore):
        with pytest.raises(KeyError, match="9"):
            refused([kept, 9])
    assert trie.snapshot.hidden == frozenset()


def test_a_sample_is_in_proportion_over_all_segments() -> None:
    trie = Trie()
    trie.add_many((None, TokenSource.HISTORY, [1, 2]) for _ in range(3_000))
    trie.add_many((None, TokenSource.HISTORY, [1, 3]) for _ in range(1_000))
    assert len(trie.segments) == 1
    trie = Trie.from_segments(
        Segment.sort(
            TokenLog.of(
                [(first + i, TokenSource.HISTORY, as_words([1, token])) for i in range(number)],
                10 * first,
            )
        )
        for first, number, token in ((0, 3_000, 2), (3_000, 1_000, 3))
    )
    found = list(found_by(trie, [1]).values())
    assert len(found) == SAMPLE_SIZE
    assert found.count((1, (2,))) == 3 * found.count((1, (3,)))


def test_each_match_length_has_a_sample_of_its_own() -> None:
    """The few long matches are not lost in a sample of the many short ones."""
    trie = Trie()
    trie.add_many((None, TokenSource.HISTORY, [8, 1, 5]) for _ in range(5_000))
    trie.add([7, 1, 6])
    trie.seal()
    found = list(found_by(trie, [7, 1]).values())
    assert set(found) == {(1, (5,)), (2, (6,))}
    assert found.count((2, (6,))) == 1


def test_stored_segments_that_overlap_are_refused() -> None:
    one, same, other = (
        Segment.sort(TokenLog.of([(number, TokenSource.HISTORY, as_words([1, 2]))], place))
        for number, place in ((1, 0), (1, 50), (2, 0))
    )
    for both in ([one, same], [one, other]):
        with pytest.raises(ValueError, match="twice"):
            Trie.from_segments(both)


def test_a_log_position_keeps_its_meaning_through_seal_and_forget() -> None:
    trie = Trie()
    first, second = trie.add([1, 2, 3]), trie.add([4, 5], source=TokenSource.DOCUMENT)
    found = trie.snapshot.candidates(np.array([4]), 1, trie.snapshot.edges_of(()))
    place = int(found.positions[0])
    located = trie.locate(place)
    assert (located.sequence_id, located.offset) == (second, 1)
    trie.seal()
    trie.forget_many([first])
    trie.add([9])
    while trie.merge():
        pass
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
    trie.forget_many([secret])
    assert found_by(trie, [1]) == {(43, 1): (1, (3,))}
    assert len(old.candidates(np.array([1]), 1, old.edges_of(())).positions) == 2
    trie.seal()
    for segment in trie.segments:
        assert not np.isin(segment.log.words, [77_777, 77_778]).any()
        assert segment._is_consistent()
    with pytest.raises(KeyError, match="42"):
        trie.forget_many([secret])
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


def test_an_id_that_the_trie_gives_was_never_used_before() -> None:
    """Looking for a free one among all ids took longer with every sequence."""
    trie = Trie()
    trie.add([1, 2], sequence_id=7)
    trie.forget_many([trie.add([3])])
    assert trie.add([4]) == 9, "8 was somebody's, and may stand in a draft"
    trie.seal()
    assert Trie.from_segments(trie.segments).add([5]) == 10


def test_the_largest_and_the_smallest_token_id_are_ordinary() -> None:
    trie = Trie()
    trie.add([0, MAX_TOKEN_ID, 0, 0])
    for _ in range(2):
        assert found_by(trie, [0, MAX_TOKEN_ID]) == {(1, 2): (2, (0, 0))}
        trie.seal()


def test_a_long_tail_asks_for_sealing_and_a_longer_one_seals_itself() -> None:
    trie = Trie()
    trie.add([1] * 1_023)
    assert not trie.needs_sealing
    trie.add([2] * 500)
    assert trie.needs_sealing
    trie.add([3] * 600)
    assert not trie.needs_sealing
    assert trie.statistics().tail_length == 0


def test_masking_finds_what_a_masked_chat_would_crowd_out() -> None:
    trie = Trie()
    history = TokenSource.HISTORY
    [mine, _] = trie.add_many([(None, history, [1, 2, 3] * 1_000), (None, history, [1, 2, 4])])
    assert len(trie.segments) == 1
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
            trie.forget_many([sequence_id])

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
