"""What every drafter keeps, whatever its method."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.drafters import Learner, make, names
from lookahead.request_view import RequestView
from lookahead.successors import SuccessorTable
from lookahead.trie import Trie
from lookahead.verify import accept
from tests.lookahead.drafters.streams import LIMITS, drafted, paths, request_of

VOCAB_SIZE = 5
TOKENS = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=14)
EVERY = pytest.mark.parametrize("name", names())


def drafter_of(name: str) -> Learner:
    return make(name, vocab_size=VOCAB_SIZE)


def read(
    drafter: Learner, prompt: Sequence[int], answer: Sequence[int], limits: DraftLimits
) -> list[DraftTree]:
    """Decode a known answer as the loop does; every draft on the way."""
    drafter.begin(prompt)
    drafter.observe_prompt(prompt, top_ids(prompt))
    whole = [*prompt, *answer]
    drafts = []
    length = len(prompt) + 1  # the first token comes with the prefill
    while length <= len(whole):
        drafts.append(drafter.draft(request_of(prompt, whole[len(prompt) : length]), limits))
        left = iter([*whole[length:], -1])
        acceptance = accept(drafts[-1], lambda _, __, left=left: next(left, -1))
        drafter.observe(drafts[-1], acceptance.nodes, top_ids(drafts[-1].token_ids))
        length += len(acceptance.token_ids)
    return drafts


def top_ids(token_ids: Sequence[int]) -> np.ndarray:
    """What a model of few words might think likely: eight tokens, the last three unknown."""
    ids = np.full((len(token_ids), 8), -1, np.int32)
    ids[:, :VOCAB_SIZE] = (np.array(token_ids)[:, None] + np.arange(1, 1 + VOCAB_SIZE)) % VOCAB_SIZE
    return ids


@EVERY
@given(
    st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(0, 6),
    st.sets(st.integers(0, VOCAB_SIZE - 1), max_size=2),
    st.booleans(),
)
def test_every_draft_keeps_to_its_limits(
    name: str,
    conversations: list[tuple[list[int], list[int]]],
    max_width: int,
    max_depth: int,
    excluded: set[int],
    with_history: bool,
) -> None:
    drafter = drafter_of(name)
    limits = DraftLimits(max_width, max_depth, frozenset(excluded))
    for prompt, answer in conversations:
        for tree in read(drafter, prompt, answer, limits):
            assert tree.width <= max_width
            assert max(tree.depths) <= max_depth
            assert not excluded.intersection(tree.token_ids[1:])
            assert min(tree.token_ids) >= 0
            assert tree.parents[0] == -1
            assert len(paths(tree)) == tree.width - 1, "siblings differ"
            for node in range(1, tree.width):
                assert tree.parents[node] in tree.path(node - 1), "depth-first"
                assert 0 < tree.probabilities[node] <= tree.probabilities[tree.parents[node]]
        if with_history:
            drafter.remember([*prompt, *answer])


@EVERY
@given(TOKENS, TOKENS)
def test_drafts_begin_at_the_last_token_and_are_the_same_twice(
    name: str, prompt: list[int], answer: list[int]
) -> None:
    drafter = drafter_of(name)
    for tree in read(drafter, prompt, answer, LIMITS):
        assert tree.token_ids[0] in answer
    request = request_of(prompt, answer)
    assert drafter.draft(request, LIMITS) == drafter.draft(request, LIMITS)


@EVERY
def test_an_empty_request_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        drafter_of(name).draft(RequestView(), LIMITS)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="prompt-lookup"):
        make("prompt_lookup", vocab_size=VOCAB_SIZE)


def test_our_own_learns_into_the_stores_it_was_given() -> None:
    trie, successors = Trie(), SuccessorTable(VOCAB_SIZE)
    drafter = make("trie", vocab_size=VOCAB_SIZE, trie=trie, successors=successors)
    drafter.observe_prompt([4], top_ids([4]))
    assert successors.successors(4)[:5] == [0, 1, 2, 3, 4]
    drafter.remember([4, 2, 2])
    assert trie.statistics().num_tokens == 3
    masked = make("trie", vocab_size=VOCAB_SIZE, trie=trie, masked_sequence_ids={1})
    assert drafted(masked, [4]) == []


def test_nothing_is_drafted_by_none() -> None:
    assert drafted(drafter_of("none"), [1, 1, 1, 1]) == []
