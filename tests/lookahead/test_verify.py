"""The acceptance walk, on trees made by hand."""

from collections.abc import Sequence

from lookahead.draft import DraftTree, TokenSource
from lookahead.verify import accept


def tree(token_ids: Sequence[int], parents: Sequence[int]) -> DraftTree:
    width = len(token_ids)
    return DraftTree(
        tuple(token_ids),
        tuple(parents),
        (TokenSource.HISTORY,) * width,
        (1.0,) * width,
        (-1,) * width,
    )


#         root 9
#        /      \
#       1        2
#      / \      / \
#     3   0    3   4
FORKED = tree([9, 1, 3, 0, 2, 3, 4], [-1, 0, 1, 1, 0, 4, 4])


def walk(choices: dict[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    acceptance = accept(FORKED, lambda node, path: choices[node])
    return acceptance.nodes, acceptance.token_ids


def test_a_token_no_child_carries_is_the_bonus() -> None:
    assert walk({0: 7}) == ((), (7,))


def test_the_first_branch_is_followed_while_the_model_agrees() -> None:
    assert walk({0: 1, 1: 3, 2: 8}) == ((1, 2), (1, 3, 8))


def test_a_later_branch_is_found() -> None:
    assert walk({0: 2, 4: 4, 6: 6}) == ((4, 6), (2, 4, 6))


def test_equal_tokens_on_two_branches_are_told_apart() -> None:
    assert walk({0: 2, 4: 3, 5: 1}) == ((4, 5), (2, 3, 1))


def test_token_zero_is_accepted_like_any_other() -> None:
    assert walk({0: 1, 1: 0, 3: 0}) == ((1, 3), (1, 0, 0))


def test_the_walk_asks_once_per_emitted_token_and_tells_the_true_path() -> None:
    asked: list[tuple[int, tuple[int, ...]]] = []
    choices = {0: 2, 4: 3, 5: 1}

    def choose(node: int, path: Sequence[int]) -> int:
        asked.append((node, tuple(path)))
        return choices[node]

    accept(FORKED, choose)
    assert asked == [(0, ()), (4, (2,)), (5, (2, 3))]


def test_nothing_is_chosen_behind_an_end_token() -> None:
    """A logits processor was asked for tokens that no answer has."""
    acceptance = accept(FORKED, lambda node, path: {0: 2, 4: 3}[node], end_ids={3})
    assert (acceptance.nodes, acceptance.token_ids) == ((4,), (2, 3))
