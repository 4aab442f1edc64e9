"""The draft policy on trees and costs made by hand: how much is verified, and when it is not."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from lookahead.draft import DraftTree, TokenSource
from lookahead.draft_policy import DraftPolicy, PolicyStep
from lookahead.step_costs import CostPrior, StepCurve, StepShapes

CONTEXT = 300
FLAT = CostPrior((1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), context=0.0, row_context=0.0)
DEAR = CostPrior((1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0), context=0.0, row_context=0.0)
JUMP = CostPrior((1.0, 3.0, 3.0, 3.0, 3.1, 3.1, 3.1), context=0.0, row_context=0.0)
STRICT = CostPrior((1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), 0.0, 0.0, node=0.3)


def policy(prior: CostPrior, row_class: Sequence[int] = (), interval: int = 8) -> DraftPolicy:
    curve = StepCurve.from_prior(prior)
    return DraftPolicy(curve, row_class, max_width=32, probe_interval=interval)


def chain(*shares: float, source: TokenSource = TokenSource.HISTORY) -> DraftTree:
    """Tokens 1, 2, 3, … behind token 0, each with its probability behind the one before."""
    probabilities = [1.0]
    for share in shares:
        probabilities.append(probabilities[-1] * share)
    width = len(probabilities)
    return DraftTree(
        token_ids=tuple(range(width)),
        parents=tuple(range(-1, width - 1)),
        sources=(TokenSource.MODEL, *[source] * (width - 1)),
        probabilities=tuple(probabilities),
        positions=(-1,) * width,
    )


def tell(
    policy: DraftPolicy,
    token_ids: Sequence[int],
    *,
    width: int = 1,
    rows: int | None = None,
    look: float = 0.01,
    seconds: float = 0.05,
) -> bool:
    """A step as the policy is told of it: 50 ms, and before it a look of `look` times as long."""
    step = PolicyStep(
        rows=rows or width,
        width=width,
        context_length=CONTEXT,
        token_ids=token_ids,
        look_seconds=0.05 * look,
        seconds=seconds,
    )
    return policy.observe(step)


def test_where_rows_are_free_all_of_a_draft_is_verified() -> None:
    draft = chain(0.9, 0.5, 0.5, 0.1)
    assert policy(FLAT).choose(draft, CONTEXT) == draft


def test_nothing_is_verified_that_costs_more_than_it_gives() -> None:
    chosen = policy(DEAR)
    assert chosen.choose(chain(0.95, 0.9), CONTEXT).width == 1, "a row costs a whole step"
    assert tell(chosen, [1]), "drafting is paused, and says so"


def test_nodes_are_taken_up_to_the_one_that_costs_more_than_it_gives() -> None:
    tree = policy(STRICT).choose(chain(0.9, 0.8, 0.8, 0.3, 0.9), CONTEXT)
    assert tree.width == 4, "0.9, 0.72 and 0.58 are more than 0.3, 0.17 is not"


def test_a_jump_in_the_cost_is_crossed_by_all_that_stands_behind_it() -> None:
    """No single node is worth the second row's price of two steps; eleven of them are."""
    assert policy(JUMP).choose(chain(0.9, 0.9), CONTEXT).width == 1
    assert policy(JUMP).choose(chain(*[0.95] * 11), CONTEXT).width == 12


def test_rows_that_are_padded_anyway_are_filled() -> None:
    draft = chain(0.5, 0.3, 0.3, 0.3)
    assert policy(DEAR).choose(draft, CONTEXT).width == 1
    assert policy(DEAR, row_class=(4, 8)).choose(draft, CONTEXT).width == 4


def test_a_likely_branch_goes_before_an_unlikely_one() -> None:
    draft = DraftTree(
        token_ids=(0, 1, 2, 3),
        parents=(-1, 0, 1, 0),
        sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * 3),
        probabilities=(1.0, 0.5, 0.1, 0.4),
        positions=(-1,) * 4,
    )
    tree = policy(STRICT).choose(draft, CONTEXT)
    assert (tree.token_ids, tree.parents) == ((0, 1, 3), (-1, 0, 0))


def test_further_branches_are_charged_for_and_a_chain_is_not() -> None:
    """Strict attention rearranges keys for every branch but the first."""
    dear_branches = CostPrior(FLAT.rows, 0.0, 0.0, leaf=0.3)
    star = DraftTree(
        token_ids=(0, 1, 2, 3),
        parents=(-1, 0, 0, 0),
        sources=(TokenSource.MODEL, *[TokenSource.HISTORY] * 3),
        probabilities=(1.0, 0.25, 0.25, 0.25),
        positions=(-1,) * 4,
    )
    assert policy(dear_branches).choose(star, CONTEXT).width == 2
    assert policy(dear_branches).choose(chain(0.25, 0.9, 0.9), CONTEXT).width == 4


def test_the_faster_it_goes_the_more_a_row_must_give() -> None:
    """A step that takes longer is paid for with the tokens that others would give meanwhile."""
    draft = chain(*[0.9] * 12)
    chosen = policy(STRICT)
    at_first = chosen.choose(draft, CONTEXT).width
    for _ in range(30):
        chosen.choose(draft, CONTEXT)
        tell(chosen, range(1, 13), width=12)
    # Trust that grew would hide it: the next draft is of another source.
    tree = chosen.choose(chain(*[0.9] * 12, source=TokenSource.OUTPUT), CONTEXT)
    assert tree.width < at_first


def test_a_source_that_is_always_wrong_is_believed_less_and_the_others_as_before() -> None:
    chosen = policy(STRICT)
    for _ in range(12):
        chosen.choose(chain(0.9, 0.9), CONTEXT)
        tell(chosen, [77])
    assert chosen.choose(chain(0.9, 0.9), CONTEXT).width == 1
    assert chosen.choose(chain(0.9, 0.9, source=TokenSource.OUTPUT), CONTEXT).width == 3


def test_a_draft_that_was_left_out_is_a_free_probe() -> None:
    """Nothing of it is verified, but the model's next token tells whether it was right."""
    chosen = policy(STRICT)
    for _ in range(12):
        chosen.choose(chain(0.9, 0.9), CONTEXT)
        tell(chosen, [77])
    widths = []
    for _ in range(9):
        widths.append(chosen.choose(chain(0.9, 0.9), CONTEXT).width)
        tell(chosen, [1])
    assert widths[0] == 1, "it is left out"
    assert widths[-1] > 1, "and comes back"


def looks(
    chosen: DraftPolicy, num_steps: int, draft: DraftTree, token_id: int, look: float = 0.01
) -> list[int]:
    """The steps of a run in which a draft was looked for."""
    found = []
    for step in range(num_steps):
        if chosen.is_due:
            found.append(step)
            chosen.choose(draft, CONTEXT)
        else:
            chosen.pause()
        tell(chosen, [token_id], look=look)
    return found


def test_where_looking_gives_nothing_it_is_done_now_and_then_only() -> None:
    chosen = policy(DEAR, interval=8)
    steps = looks(chosen, 200, chain(0.2), token_id=77)
    late = [step for step in steps if step >= 100]
    assert 10 <= len(late) <= 14
    assert {later - earlier for earlier, later in pairwise(late)} == {8}


def test_what_promises_more_than_it_costs_and_never_comes_is_given_up_within_twenty_steps() -> None:
    """Where rows are free, all that seems possible is verified; what counts is what comes of it."""
    chosen = policy(FLAT, interval=8)
    steps = looks(chosen, 100, chain(0.05), token_id=77, look=0.03)
    assert {later - earlier for earlier, later in pairwise(steps) if later >= 20} == {8}


def test_the_machine_is_watched_while_looking_rests() -> None:
    """Else a slow moment is taken for a wide draft that costs nothing, or the other way round."""
    curve = StepCurve.from_prior(FLAT)
    chosen = DraftPolicy(curve, (), max_width=32, probe_interval=8)
    for _ in range(20):
        chosen.choose(chain(0.2), CONTEXT)
        tell(chosen, [77])
    for _ in range(60):
        chosen.pause()
        tell(chosen, [77], seconds=0.2)
    plain = curve.milliseconds(StepShapes((1,), (1,), (1,)), CONTEXT)[0]
    assert plain == pytest.approx(200, rel=0.1)


def test_one_slow_look_does_not_end_looking() -> None:
    """The first one in a program may have to be compiled; a machine may stand still."""
    chosen = policy(FLAT, interval=8)
    chosen.choose(chain(0.5), CONTEXT)
    tell(chosen, [1, 2], width=2, look=600.0)
    num_looks = 0
    for step in range(60):
        if not chosen.is_due:
            chosen.pause()
            tell(chosen, [77])
            continue
        num_looks += 1
        chosen.choose(chain(0.5), CONTEXT)
        tell(chosen, [1, 2] if step % 2 else [77], width=2)
    assert num_looks > 50


def test_a_look_that_was_right_brings_back_the_next_ones() -> None:
    chosen = policy(DEAR, interval=8)
    looks(chosen, 100, chain(0.2), token_id=77)
    steps = looks(chosen, 20, chain(0.2), token_id=1)
    assert steps[0] < 8
    assert steps == list(range(steps[0], 20))


def test_what_is_drafted_at_all_follows_the_rate_down_again() -> None:
    """Fast copying priced everything out, and since nothing was found then, for good."""
    chosen = policy(STRICT)
    for _ in range(10):
        chosen.choose(chain(*[0.9] * 12), CONTEXT)
        tell(chosen, range(1, 14), width=12)
    fast = chosen.min_probability
    for _ in range(40):
        chosen.choose(DraftTree.root_only(0), CONTEXT)
        tell(chosen, [77])
    assert chosen.min_probability < fast / 2


def test_a_narrow_draft_prices_no_wide_one_out() -> None:
    """The first node is the dearest here; a draft of one node once spoke for all widths."""
    chosen = policy(JUMP)
    for _ in range(10):
        chosen.choose(chain(*[0.9] * 12), CONTEXT)
        tell(chosen, range(1, 14), width=12)
    wide = chosen.min_probability
    for narrow in (chain(0.5), DraftTree.root_only(0)):
        chosen.choose(narrow, CONTEXT)
        assert chosen.min_probability == pytest.approx(wide)


def test_nothing_found_is_not_a_pause() -> None:
    chosen = policy(FLAT)
    chosen.choose(DraftTree.root_only(0), CONTEXT)
    assert not tell(chosen, [5])
    chosen.pause()
    assert tell(chosen, [5])
    assert not tell(chosen, [5]), "at an end without room for a draft nothing is asked"


def test_certainty_is_not_believed() -> None:
    chosen = policy(STRICT)
    for _ in range(20):
        chosen.choose(chain(1.0, 1.0), CONTEXT)
        tell(chosen, [77])
    assert chosen.choose(chain(1.0, 1.0), CONTEXT).width == 1
