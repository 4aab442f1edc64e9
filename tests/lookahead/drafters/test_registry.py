"""What every drafter keeps, whatever its method."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.drafters import OURS, Learner, make, names, published_names
from lookahead.learned import Learned
from lookahead.request_view import RequestView
from lookahead.trie import Trie
from lookahead.verify import accept
from tests.lookahead.drafters.streams import LIMITS, drafted, paths, request_of, top_ids_of
from tests.lookahead.lookups import path_to

VOCAB_SIZE = 5
TOKENS = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=14)
EVERY = pytest.mark.parametrize("name", names())
WITH_HISTORY = {"llma", "hierarchical-trie", "suffix", "trie"}


def drafter_of(name: str) -> Learner:
    return make(name, vocab_size=VOCAB_SIZE)


def read(
    drafter: Learner,
    prompt: Sequence[int],
    answer: Sequence[int],
    limits: DraftLimits,
    recycled: bool = True,
) -> list[DraftTree]:
    """Decode a known answer as the loop does; every draft on the way."""
    drafter.begin(prompt)
    drafter.observe_prompt(prompt, top_ids(prompt) if recycled else None)
    whole = [*prompt, *answer]
    drafts = []
    length = len(prompt) + 1  # the first token comes with the prefill
    while length <= len(whole):
        drafts.append(drafter.draft(request_of(prompt, whole[len(prompt) : length]), limits))
        left = iter([*whole[length:], -1])
        acceptance = accept(drafts[-1], lambda _, __, left=left: next(left, -1))
        rows = top_ids(drafts[-1].token_ids) if recycled else None
        drafter.observe(drafts[-1], acceptance.nodes, rows)
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
                assert tree.parents[node] in path_to(tree, node - 1), "depth-first"
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
def test_a_remembered_answer_can_be_drafted_from_where_the_method_has_a_history(name: str) -> None:
    drafter = make(name, vocab_size=100)
    drafter.begin([90, 91])
    assert drafted(drafter, [90, 91], [1]) == []
    drafter.remember([90, 91, 1, 2, 3, 4, 5])
    drafter.begin([92])
    found = drafted(drafter, [92], [1, 2, 3])
    assert found[:1] == ([4] if name in WITH_HISTORY else [])


@EVERY
def test_what_is_not_remembered_is_forgotten_when_a_request_begins(name: str) -> None:
    drafter = make(name, vocab_size=100)
    before = [7, 8, *range(20, 40)]
    for answer_length in (2, 8, 30):
        drafter.begin(before)
        drafted(drafter, before, [*range(40, 40 + answer_length), 7, 8])
    drafter.begin([1])
    for last in (8, 20, 40, 45):
        assert drafted(drafter, [1], [last]) == []


@EVERY
def test_another_request_is_noticed_without_begin(name: str) -> None:
    drafter = make(name, vocab_size=100)
    drafted(drafter, [7, 8, 9, *range(20, 40)], [*range(40, 60), 7, 8])
    for prompt, answer in (([1, 2, 3, 2], [2]), ([1, 2, 3, 2], [3]), ([8, 5, 1, 2], [1, 8])):
        fresh = make(name, vocab_size=100)
        assert drafted(drafter, prompt, answer) == drafted(fresh, prompt, answer)


@EVERY
def test_drafts_do_not_depend_on_how_often_one_was_asked_for(name: str) -> None:
    prompt, answer = [1, 2, 3, 4, 1, 2], [3, 1, 2, 3, 4, 4, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    asked, fresh = (make(name, vocab_size=VOCAB_SIZE) for _ in range(2))
    for length in range(1, len(answer) + 1):
        tree = asked.draft(request_of(prompt, answer[:length]), LIMITS)
    assert fresh.draft(request_of(prompt, answer), LIMITS) == tree


@EVERY
def test_id_0_is_a_token_like_any_other(name: str) -> None:
    """The ancestor took its match for missing where it was id 0."""

    def shapes(shift: int) -> list[list[tuple[int, ...]]]:
        drafter = make(name, vocab_size=20)
        found: list[list[tuple[int, ...]]] = []
        for answer in ([2, 1, 2, 1, 3, 1, 2], [1, 2, 1, 2, 1, 3, 4, 1, 2, 1, 2, 1, 3, 1, 1, 2]):
            prompt, shifted = [1 + shift, 2 + shift, 3 + shift], [token + shift for token in answer]
            for tree in read(drafter, prompt, shifted, LIMITS, recycled=False):
                found.append([tree.parents, tuple(token - shift for token in tree.token_ids)])
            drafter.remember([*prompt, *shifted])
        return found

    assert shapes(-1) == shapes(3)


@EVERY
def test_an_empty_request_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        drafter_of(name).draft(RequestView(), LIMITS)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="prompt-lookup"):
        make("prompt_lookup", vocab_size=VOCAB_SIZE)


def test_our_own_learns_into_the_stores_it_was_given() -> None:
    trie, learned = Trie(), Learned.empty(VOCAB_SIZE)
    drafter = make("trie", vocab_size=VOCAB_SIZE, trie=trie, learned=learned)
    drafter.observe_prompt([4], top_ids([4]))
    assert learned.successors.successors(4)[:5] == [0, 1, 2, 3, 4]
    drafter.remember([4, 2, 2])
    assert trie.statistics().num_tokens == 3
    masked = make("trie", vocab_size=VOCAB_SIZE, trie=trie, masked_sequence_ids={1})
    assert drafted(masked, [4]) == []


def test_nothing_is_drafted_by_none() -> None:
    assert drafted(drafter_of("none"), [1, 1, 1, 1]) == []


def test_a_published_drafter_is_neither_ours_nor_plain_decoding() -> None:
    assert sorted([*published_names(), *OURS, "none"]) == sorted(names())


def test_prompt_lookup_has_the_librarys_bigrams_and_the_originals_trigrams() -> None:
    prompt = [2, 3, 9, 1, 2, 3, 8, 1, 2, 3]
    assert drafted(drafter_of("prompt-lookup"), prompt)[0] == 9
    assert drafted(drafter_of("prompt-lookup-3"), prompt)[0] == 8


@given(TOKENS, TOKENS)
def test_our_drafter_on_the_own_context_is_ours_without_history_and_rows(
    prompt: list[int], answer: list[int]
) -> None:
    whole = drafter_of("trie")
    context = drafter_of("trie-own-context")
    assert not context.reads_rows
    context.remember([9, 8, *answer, *prompt])
    assert read(context, prompt, answer, LIMITS, recycled=True) == read(
        whole, prompt, answer, LIMITS, recycled=False
    )


def test_our_drafter_on_the_own_context_recycles_nothing() -> None:
    for name, expected in (("trie", [4]), ("trie-own-context", [])):
        drafter = make(name, vocab_size=10)
        drafter.observe_prompt([3], top_ids_of([4]))
        assert drafted(drafter, [1], [3])[:1] == expected
