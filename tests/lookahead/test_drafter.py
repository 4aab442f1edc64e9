"""The drafter: literal drafts, the slow truth, and what every draft keeps to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import DraftTree, TokenSource, quoted_position
from lookahead.drafter import MIN_PROBABILITY, DraftLimits, TrieDrafter
from lookahead.learned import Learned
from lookahead.request_view import RequestView
from lookahead.trie import Trie
from tests.lookahead.list_of_windows import found_in, found_in_request, probabilities
from tests.lookahead.lookups import pair_successors, path_to

VOCAB_SIZE = 6
TOKENS = st.lists(st.integers(0, 3), max_size=8)  # four of these are never sampled, only read
LIMITS = DraftLimits(max_width=16, max_depth=8, min_probability=1e-4)


def request_of(token_ids: list[int], source: TokenSource = TokenSource.PROMPT) -> RequestView:
    request = RequestView()
    request.append(token_ids, source)
    return request


def trie_of(*sequences: list[int]) -> Trie:
    trie = Trie()
    for tokens in sequences:
        trie.add(tokens)
    return trie


def learned_of(rows: dict[tuple[int, ...], list[int]]) -> Learned:
    """Successors of one token or of two; a pair's row is no row of its last token."""
    learned = Learned.empty(VOCAB_SIZE)
    for tokens, following in sorted(rows.items(), key=lambda item: -len(item[0])):
        row = np.array([following + [-1] * (8 - len(following))])
        learned.successors.update(tokens[-1:], row, tokens[:-1] or None)
        if len(tokens) == 2 and tokens[-1:] not in rows:
            learned.successors._top_ids[tokens[-1]] = -1
    return learned


def paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    """Drafted tokens from the root to each node, with the node's probability."""
    return {
        tuple(tree.token_ids[step] for step in path_to(tree, node)[1:]): tree.probabilities[node]
        for node in range(1, tree.width)
    }


def first_branch(tree: DraftTree) -> list[int]:
    branch = [0]
    for node in range(1, tree.width):
        if tree.parents[node] == branch[-1]:
            branch.append(node)
    return [tree.token_ids[node] for node in branch[1:]]


def test_a_passage_that_returns_is_drafted_on_from_where_it_stood() -> None:
    tree = TrieDrafter(None, None).draft(request_of([5, 6, 7, 8, 9, 4, 5, 6]), LIMITS)
    assert tree.token_ids == (6, 7, 8, 9, 4, 5, 6, 7, 8)
    assert tree.parents == (-1, 0, 1, 2, 3, 4, 5, 6, 7)
    assert tree.sources == (TokenSource.MODEL, *[TokenSource.PROMPT] * 8)
    assert tree.positions == (-1, 2, 3, 4, 5, 6, 7, 2, 3)
    assert tree.match_length == 2


def test_an_ambiguous_context_is_drafted_on_several_branches() -> None:
    trie = trie_of([1, 2, 3, 3], [1, 2, 4, 4], [1, 2, 4, 5])
    tree = TrieDrafter(trie, None).draft(request_of([9, 1, 2]), LIMITS)
    assert tree.token_ids == (2, 4, 5, 4, 3, 3)
    assert tree.parents == (-1, 0, 1, 1, 0, 4)
    assert tree.sources[1:] == (TokenSource.HISTORY,) * 5
    assert [trie.locate(position).sequence_id for position in tree.positions[1:]] == [3, 3, 2, 1, 1]


def test_the_longest_match_leads_and_shorter_ones_branch_off() -> None:
    trie = trie_of([7, 1, 2, 3], [8, 2, 4], [9, 2, 4], [6, 2, 4])
    tree = TrieDrafter(trie, None).draft(request_of([7, 1, 2]), LIMITS)
    assert first_branch(tree) == [3]
    assert (4,) in paths(tree)
    assert tree.match_length == 3


def test_token_id_0_is_drafted_like_any_other() -> None:
    own = TrieDrafter(None, None).draft(request_of([5, 0, 0, 6, 5]), LIMITS)
    assert first_branch(own)[:3] == [0, 0, 6]
    stored = TrieDrafter(trie_of([0, 0, 1]), None).draft(request_of([0]), LIMITS)
    assert paths(stored).keys() == {(0,), (1,), (0, 1)}
    recycled = TrieDrafter(None, learned_of({(3,): [0], (0,): [0]})).draft(request_of([3]), LIMITS)
    assert recycled.token_ids[:3] == (3, 0, 0)


def test_recycled_successors_speak_where_the_trie_is_silent() -> None:
    learned = learned_of({(1,): [2, 3], (2,): [4]})
    tree = TrieDrafter(Trie(), learned).draft(request_of([1]), LIMITS)
    assert tree.token_ids == (1, 2, 4, 3)
    assert tree.parents == (-1, 0, 1, 0)
    assert tree.sources == (TokenSource.MODEL, *[TokenSource.RECYCLED] * 3)
    assert tree.positions == (-1,) * 4
    assert tree.match_length == 0


def test_with_nothing_known_the_root_stands_alone() -> None:
    root = DraftTree.root_only(1)
    assert TrieDrafter(None, None).draft(request_of([1]), LIMITS) == root
    assert TrieDrafter(Trie(), Learned.empty(2)).draft(request_of([1]), LIMITS) == root
    known = TrieDrafter(trie_of([1, 2]), None)
    assert known.draft(request_of([1]), DraftLimits(1, 8)) == root
    assert known.draft(request_of([1]), DraftLimits(8, 0)) == root
    with pytest.raises(ValueError, match="empty"):
        known.draft(RequestView(), LIMITS)


def test_a_masked_chat_is_not_drafted_from() -> None:
    trie = trie_of([1, 2, 3], [1, 4, 4])
    for _ in range(2):
        assert paths(TrieDrafter(trie, None, {1}).draft(request_of([1]), LIMITS)).keys() == {
            (4,),
            (4, 4),
        }
        trie.seal()


def test_what_is_added_or_forgotten_shows_in_the_next_draft() -> None:
    trie = Trie()
    drafter = TrieDrafter(trie, None, {2})
    assert drafter.draft(request_of([1]), LIMITS).width == 1
    trie.add([1, 2])
    trie.add([1, 3])
    assert paths(drafter.draft(request_of([1]), LIMITS)).keys() == {(2,)}
    trie.forget_many([1])
    assert drafter.draft(request_of([1]), LIMITS).width == 1


def test_sources_and_positions_tell_where_each_token_stands() -> None:
    trie = Trie()
    trie.add([1, 2, 3], source=TokenSource.DOCUMENT, sequence_id=40)
    request = request_of([9, 1, 5])
    request.append([6, 1], TokenSource.OUTPUT)
    tree = TrieDrafter(trie, None).draft(request, LIMITS)
    children = tree.children()
    quoted, repeated = children[0][2], children[0][5]
    assert tree.sources[quoted] is TokenSource.DOCUMENT
    assert trie.locate(tree.positions[quoted]).sequence_id == 40
    assert trie.locate(tree.positions[quoted]).offset == 1
    assert (tree.sources[repeated], tree.positions[repeated]) == (TokenSource.PROMPT, 2)
    following = children[repeated][6]
    assert (tree.sources[following], tree.positions[following]) == (TokenSource.OUTPUT, 3)


def test_a_passage_in_the_prompt_counts_as_document_and_is_pointed_at() -> None:
    request = request_of([1, 2], TokenSource.DOCUMENT)
    request.append([1], TokenSource.PROMPT)
    tree = TrieDrafter(None, None).draft(request, LIMITS)
    assert tree.sources[1] is TokenSource.DOCUMENT
    assert tree.positions[1] < -1, "a log position of the Trie, or nowhere"
    assert quoted_position(tree.positions[1]) == 1


def test_observing_recycles_every_row_and_the_accepted_ones_have_the_last_word() -> None:
    learned = Learned.empty(5)
    tree = DraftTree((1, 2, 1), (-1, 0, 0), (TokenSource.MODEL,) * 3, (1.0, 0.5, 0.2), (-1,) * 3)
    drafter = TrieDrafter(None, learned)
    top_ids = np.arange(24).reshape(3, 8)
    drafter.observe(tree, [1], top_ids)
    assert learned.successors.successors(1) == top_ids[0].tolist()
    assert learned.successors.successors(2) == top_ids[1].tolist()
    drafter.observe(tree, [2], top_ids)
    assert learned.successors.successors(1) == top_ids[2].tolist()
    drafter.observe(tree, [2], None)
    TrieDrafter(None, None).observe(tree, [2], top_ids)


def test_what_the_model_nearly_chose_is_drafted_next() -> None:
    drafter, request = TrieDrafter(None, Learned.empty(50)), request_of([1])
    draft = drafter.draft(request, LIMITS)
    request.append([20], TokenSource.OUTPUT)
    drafter.observe(draft, [], np.array([range(20, 28)]))
    tree = drafter.draft(request, DraftLimits(16, 1, min_probability=1e-4))
    assert sorted(tree.token_ids[1:]) == list(range(21, 28)), "20 was chosen and is no near miss"


def test_two_tokens_in_a_row_are_followed_by_what_followed_them_not_either_alone() -> None:
    learned = Learned.empty(VOCAB_SIZE)
    for before, following in ((1, 4), (5, 3)):
        drafter = TrieDrafter(None, learned)
        root = drafter.draft(request_of([before, 2]), DraftLimits(1, 0))
        drafter.observe(root, [], np.array([[following] + [-1] * 7]))
    for before, following in ((1, 4), (5, 3), (0, 3)):
        draft = TrieDrafter(None, learned).draft(request_of([before, 2]), LIMITS)
        assert draft.token_ids[1] == following, "said behind both, else behind the last one alone"


def test_a_row_behind_steps_that_were_not_looked_at_is_no_row_of_two_tokens() -> None:
    """Where looking rests the drafter does not see what was said; a wrong pair was kept."""
    learned = Learned.empty(VOCAB_SIZE)
    drafter = TrieDrafter(None, learned)
    drafter.draft(request_of([1, 2]), DraftLimits(1, 0))
    drafter.observe(DraftTree.root_only(2), [], None)
    drafter.observe(DraftTree.root_only(3), [], np.array([[4] + [-1] * 7]))
    drafter.observe(DraftTree.root_only(4), [], np.array([[5] + [-1] * 7]))
    assert learned.successors.successors(3) == [4]
    assert pair_successors(learned.successors, 2, 3) == []
    assert pair_successors(learned.successors, 1, 3) == []
    assert pair_successors(learned.successors, 3, 4) == [5]


def test_evidence_that_was_wrong_is_believed_less_and_only_where_it_was_reached() -> None:
    learned = Learned.empty(VOCAB_SIZE)
    before = list(learned.calibration.shares)
    request = request_of([1, 2, 3, 4, 1, 2])
    drafter = TrieDrafter(None, learned)
    draft = drafter.draft(request, LIMITS)
    request.append([5], TokenSource.OUTPUT)
    drafter.observe(draft, [], None)
    cells = learned.calibration
    changed = {cell for cell, share in enumerate(before) if cells.shares[cell] != share}
    assert changed == {cells.match_cell(True, 2, 1, 1)}
    assert all(cells.shares[cell] < before[cell] for cell in changed)
    after = list(cells.shares)
    request.append([5], TokenSource.OUTPUT)
    drafter.observe(DraftTree.root_only(5), [], None)
    assert cells.shares.tolist() == after, "a step without a draft teaches nothing"


STORES = st.lists(TOKENS, max_size=4)
ROWS = st.dictionaries(
    st.lists(st.integers(0, 5), min_size=1, max_size=2).map(tuple),
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
)
REQUESTS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(STORES, REQUESTS, ROWS, st.sets(st.integers(1, 4)), st.booleans())
def test_an_unlimited_draft_is_what_lists_of_windows_give(
    sequences: list[list[int]],
    token_ids: list[int],
    rows: dict[tuple[int, ...], list[int]],
    masked: set[int],
    sealed: bool,
) -> None:
    depth = 3
    trie = trie_of(*sequences)
    if sealed:
        trie.seal()
    drafter = TrieDrafter(trie, learned_of(rows), masked)
    tree = drafter.draft(request_of(token_ids), DraftLimits(10_000, depth))
    own = found_in_request(token_ids, depth) if len(token_ids) > 1 else {}
    other = found_in(dict(enumerate(sequences, 1)), token_ids, depth, masked)
    expected = probabilities(own, other, rows, token_ids, depth, MIN_PROBABILITY)
    assert paths(tree) == pytest.approx(expected)
    assert tree.match_length == max((length for length, _ in (own | other).values()), default=0)


@given(
    STORES,
    REQUESTS,
    ROWS,
    st.integers(1, 12),
    st.integers(0, 6),
    st.sets(st.integers(0, 5), max_size=2),
)
def test_every_draft_keeps_its_promises(
    sequences: list[list[int]],
    token_ids: list[int],
    rows: dict[tuple[int, ...], list[int]],
    max_width: int,
    max_depth: int,
    excluded: set[int],
) -> None:
    drafter = TrieDrafter(trie_of(*sequences), learned_of(rows))
    limits = DraftLimits(max_width, max_depth, frozenset(excluded))
    tree = drafter.draft(request_of(token_ids), limits)
    assert drafter.draft(request_of(token_ids), limits) == tree, "drafting is deterministic"
    assert tree.width <= max_width
    assert max(tree.depths) <= max_depth
    assert tree.token_ids[0] == token_ids[-1]
    assert not excluded.intersection(tree.token_ids[1:])
    assert min(tree.probabilities) >= MIN_PROBABILITY
    assert len(paths(tree)) == tree.width - 1, "siblings differ"
    for node in range(tree.width):
        children = [child for child in range(tree.width) if tree.parents[child] == node]
        shares = [tree.probabilities[child] for child in children]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= tree.probabilities[node] + 1e-9
        if node:
            assert tree.parents[node] in path_to(tree, node - 1), "depth-first"
    unlimited = DraftLimits(10_000, max_depth, limits.excluded_ids)
    whole = paths(drafter.draft(request_of(token_ids), unlimited))
    best = sorted(whole.values(), reverse=True)[: max_width - 1]
    assert sorted(paths(tree).values(), reverse=True) == pytest.approx(best)


@given(STORES, REQUESTS, ROWS)
def test_sealing_changes_no_draft(
    sequences: list[list[int]], token_ids: list[int], rows: dict[tuple[int, ...], list[int]]
) -> None:
    trie = trie_of(*sequences)
    drafter = TrieDrafter(trie, learned_of(rows))
    before = drafter.draft(request_of(token_ids), LIMITS)
    trie.seal()
    assert drafter.draft(request_of(token_ids), LIMITS) == before
