"""The compiled growth against the slow truth: the same drafts, and the same learned from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.foresight import Foresight
from lookahead.learned import Learned
from lookahead.request_view import RequestView
from lookahead.trie import Trie
from tests.lookahead.reference_drafter import ReferenceDrafter

SOURCES = (TokenSource.PROMPT, TokenSource.OUTPUT, TokenSource.DOCUMENT)
VOCAB_SIZE = 50_000
MAX_DEPTH = 31  # what the widest verifying forward leaves


class World:
    """Two equal sets of stores, of which one drafter each learns, and a text that goes on."""

    def __init__(self, seed: int, num_kinds: int, *, with_rows: bool = True) -> None:
        self.chance = np.random.default_rng(seed)
        # Tokens that are nearly said, of which some are: few make many ties, many rare matches.
        self.near_ids = self.chance.permutation(VOCAB_SIZE)[: max(40, num_kinds)]
        self.ids = self.near_ids[:num_kinds]
        self.trie = Trie()
        for number in range(1, self.chance.integers(1, 12)):
            source = TokenSource.DOCUMENT if number % 3 == 0 else TokenSource.HISTORY
            length = 60 if self.chance.random() < 0.7 else 900
            self.trie.add(self.text(length), source=source, sequence_id=number)
            if self.chance.random() < 0.3:
                self.trie.seal()
        known = sorted(self.trie.sequence_ids)
        self.trie.hide(self.chance.permutation(known)[: len(known) // 5].tolist())
        masked = frozenset(self.chance.permutation(known)[: len(known) // 4].tolist())
        self.learned = [Learned.empty(VOCAB_SIZE), Learned.empty(VOCAB_SIZE)]
        own = self.learned if with_rows else [None, None]
        self.fast = TrieDrafter(self.trie, own[0], masked)
        self.slow = ReferenceDrafter(self.trie, own[1], masked)
        self.request = RequestView()
        for source in SOURCES:
            self.request.append(self.text(80 if num_kinds < 300 else 500), source)

    def text(self, length: int) -> list[int]:
        """Tokens with passages that return."""
        tokens = self.chance.choice(self.ids, length).tolist()
        for _ in range(length // 12):
            span = int(self.chance.choice([8, 8, 8, 40]))
            begin, to = self.chance.integers(0, length - span, 2)
            tokens[to : to + span] = tokens[begin : begin + span]
        return [int(token) for token in tokens[: self.chance.integers(1, length + 1)]]

    def limits(self) -> DraftLimits:
        """Any; with foresight every other time."""
        chance = self.chance
        foresight = Foresight(int(chance.integers(1 << 40)), len(self.request))
        return DraftLimits(
            max_width=int(chance.integers(1, 70)),
            max_depth=int(chance.integers(0, MAX_DEPTH + 1)),
            excluded_ids=frozenset(chance.choice(self.ids, 2).tolist()),
            min_probability=float(chance.choice([0.004, 1e-4, 0.05])),
            foresight=foresight if chance.random() < 0.5 else None,
        )

    def go_on(self, draft: DraftTree) -> None:
        """Say something, often what was drafted, and let both drafters learn."""
        chance = self.chance
        top_ids = np.array(
            [chance.permutation(self.near_ids)[:8] for _ in range(draft.width)], np.int32
        )
        top_ids[chance.random(draft.width) < 0.2] = -1
        top_ids[chance.random(draft.width) < 0.2, 5:] = -1
        accepted, node = [], 0
        while (children := list(draft.children()[node].values())) and chance.random() < 0.7:
            node = int(chance.choice(children))
            accepted.append(node)
        said = [draft.token_ids[node] for node in accepted]
        said.append(int(chance.choice(self.ids)))
        self.request.append(said, TokenSource.OUTPUT)
        for drafter in (self.fast, self.slow):
            drafter.observe(draft, accepted, top_ids)


def assert_same(fast: DraftTree, slow: DraftTree) -> None:
    assert fast.token_ids == slow.token_ids
    assert fast.parents == slow.parents
    assert fast.sources == slow.sources
    assert fast.positions == slow.positions
    assert fast.match_length == slow.match_length
    assert fast.probabilities == pytest.approx(slow.probabilities, rel=1e-12, abs=0)


@given(st.integers(0, 1 << 32), st.sampled_from([2, 3, 6, 20, 40, 300, 4_000]), st.booleans())
@settings(deadline=None)
def test_drafts_and_what_is_learned_from_them_are_those_of_the_slow_truth(
    seed: int, num_kinds: int, with_rows: bool
) -> None:
    world = World(seed, num_kinds, with_rows=with_rows)
    for _ in range(6):
        limits = world.limits()
        draft = world.fast.draft(world.request, limits)
        assert_same(draft, world.slow.draft(world.request, limits))
        world.go_on(draft)
    fast, slow = world.fast._calibration, world.slow.calibration
    assert list(fast.shares) == pytest.approx(list(slow.shares), rel=1e-12)
    assert fast.agreement.factors == pytest.approx(slow.agreement.factors, rel=1e-12)
