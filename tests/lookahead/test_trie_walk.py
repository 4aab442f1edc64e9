"""A walk through the Trie against a plain list of windows."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import TokenSource
from lookahead.trie import Trie
from lookahead.trie_walk import SAMPLE_SIZE, walk

DOCUMENT, HISTORY = TokenSource.DOCUMENT, TokenSource.HISTORY

SEQUENCES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), max_size=12),
        st.sampled_from([DOCUMENT, HISTORY]),
        st.booleans(),  # sealed with what is before it
        st.booleans(),  # hidden in the end
    ),
    max_size=7,
)


def following(sequences: dict[int, list[int]], path: list[int]) -> Counter[int | None]:
    """What follows each occurrence of the path; None: the sequence ends there."""
    found: Counter[int | None] = Counter()
    for tokens in sequences.values():
        for start in range(len(tokens) - len(path) + 1):
            if tokens[start : start + len(path)] == path:
                end = start + len(path)
                found[tokens[end] if end < len(tokens) else None] += 1
    if not path:
        del found[None]  # the root has no end
    return found


@given(SEQUENCES, st.lists(st.integers(0, 3), max_size=4))
def test_counts_are_those_of_a_list_of_windows(
    added: list[tuple[list[int], TokenSource, bool, bool]], path: list[int]
) -> None:
    trie = Trie()
    kept, hidden = {}, []
    for sequence_id, (tokens, source, is_sealed, is_hidden) in enumerate(added, 1):
        trie.add(tokens, source=source, sequence_id=sequence_id)
        if is_sealed:
            trie.seal()
        if is_hidden:
            hidden.append(sequence_id)
        else:
            kept[sequence_id] = tokens
    trie.hide(hidden)
    expected = following(kept, path)
    walked = walk(trie.snapshot, path)
    assert walked.count == expected.total()
    assert walked.num_ends == expected.pop(None, 0)
    assert {branch.token_id: branch.count for branch in walked.branches} == expected
    assert walked.num_branches == len(expected)
    counts = [branch.count for branch in walked.branches]
    assert counts == sorted(counts, reverse=True)
    for branch in walked.branches:
        by_sequence = {
            sequence_id: times
            for sequence_id, tokens in kept.items()
            if (times := following({sequence_id: tokens}, path)[branch.token_id])
        }
        assert branch.num_by_sequence == by_sequence
        documents = sum(n for i, n in by_sequence.items() if added[i - 1][1] is DOCUMENT)
        assert branch.num_by_source.get(DOCUMENT, 0) == documents
        assert sum(branch.num_by_source.values()) == branch.count
        assert branch.example[0] == branch.token_id
        assert following(kept, [*path, *branch.example])


def test_many_places_are_counted_exactly_and_their_sources_told_of_a_sample() -> None:
    trie = Trie()
    trie.add(np.tile([1, 2], 5_000), source=DOCUMENT, sequence_id=7)
    trie.add(np.tile([1, 2], 15_000), source=HISTORY, sequence_id=8)
    trie.seal()
    (branch,) = walk(trie.snapshot, [1]).branches
    assert (branch.token_id, branch.count) == (2, 20_000)
    assert 0 < sum(branch.num_by_sequence.values()) <= SAMPLE_SIZE
    share = branch.num_by_sequence[7] / sum(branch.num_by_sequence.values())
    assert share == pytest.approx(0.25, abs=0.02)


def test_the_most_frequent_branches_are_named_and_all_are_counted() -> None:
    trie = Trie()
    trie.add([0, 1, 0, 1, 0, 2, 0, 3])
    walked = walk(trie.snapshot, [0], limit=1)
    assert ([b.token_id for b in walked.branches], walked.num_branches) == ([1], 3)


@pytest.mark.parametrize("path", [[-1], [2**31], [1] * 33])
def test_a_path_that_cannot_be_is_refused(path: list[int]) -> None:
    with pytest.raises(ValueError, match=r"path|ids"):
        walk(Trie().snapshot, path)
