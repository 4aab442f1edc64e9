"""The draft policy: how much of a draft to verify here and now, and whether to draft at all.

Knows draft trees, costs and what came of earlier steps of the same answer; no model, no store. The
decode loop asks it before every step and tells it after. Nothing it does changes a text.

Cost is counted in plain steps: what a step with nothing drafted takes at the same moment. Of every
draft the subtree is taken that maximises tokens − rate × cost, where the rate is the tokens per
plain step lately achieved: the best choice for a long run, where a step's own ratio is not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import MIN_PROBABILITY
from lookahead.step_costs import StepCurve, StepShapes

__all__ = ["DraftPolicy", "PolicyStep"]

_RATE_MEMORY = 8.0  # steps over which the rate is taken
_LOOK_MEMORY = 16  # looks over which is taken what looking gives and costs
_HOPE = 0.1  # tokens that a look gives before one gave any;
_HOPE_WEIGHT = 5  # looks that this counts as: text that nobody can guess gets some twenty
_TRUST_STEP = 0.5  # log-odds that a surprise moves the trust in a source
_MAX_TRUST = 6.0  # log-odds up or down
_NEVER, _SURELY = 1e-6, 0.99  # of a child behind its parent; certainty is not believed
_DOUBT = 0.5  # of a node's mean price: a draft may leave out what is less likely still


@dataclass(frozen=True, slots=True)
class PolicyStep:
    """A decode step as the policy wants it told.

    Args:
        rows: of the forward, padding included; `width` without it.
        context_length: committed tokens before it.
        token_ids: accepted tokens and the bonus.
        look_seconds: looking for a draft and choosing; `seconds`: the rest of the step.
    """

    rows: int
    width: int
    context_length: int
    token_ids: Sequence[int]
    look_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Choice:
    """What was chosen for one step; `draft` is the whole of what was found, None: not looked for.

    Args:
        cost: of the step, in plain steps.
        plain_milliseconds: what a plain step would take.
        is_paused: nothing is verified, since it would not pay.
    """

    draft: DraftTree | None = None
    num_leaves: int = 1
    cost: float = 1.0
    plain_milliseconds: float = 1.0
    is_paused: bool = False


class DraftPolicy:
    """The choice for one answer.

    Args:
        curve: costs in this answer's mode; learns from every step.
        row_class: row counts allowed, ascending; empty: any.
        max_width: nodes of a draft at most, root included.
        probe_interval: steps from one look to the next while looking does not pay.
    """

    def __init__(
        self, curve: StepCurve, row_class: Sequence[int], *, max_width: int, probe_interval: int
    ) -> None:
        self._curve = curve
        self._probe_interval = probe_interval
        self._rows = [
            next((rows for rows in row_class if rows >= width), width)
            for width in range(1, max_width + 1)
        ]
        self._trust: dict[TokenSource, float] = {}
        self._tokens = self._cost = _RATE_MEMORY  # one token a plain step, to begin with
        self._look_value = _HOPE  # tokens that a look gave lately, verifying paid for
        self._look_cost = 0.0  # plain steps that it took
        self._num_looks = _HOPE_WEIGHT  # that both are of
        self._steps_since_look = 0
        self._is_promising = True  # the last look had the next token
        self._choice = _Choice()
        self._node_price = 0.0  # plain steps that a node costs, on average over all widths

    @property
    def is_due(self) -> bool:
        """Whether to look for a draft in this step: not while looking costs more than it gives."""
        return (
            self._is_promising
            or self._look_value >= self._rate * self._look_cost
            or self._steps_since_look >= self._probe_interval - 1
        )

    @property
    def is_resting(self) -> bool:
        """Whether nothing is looked for in this step, since it is not due."""
        return self._choice.is_paused and self._choice.draft is None

    @property
    def min_probability(self) -> float:
        """Probability below which a node is hardly worth its row, whatever else is in the tree."""
        return max(MIN_PROBABILITY, _DOUBT * self._rate * self._node_price)

    @property
    def _rate(self) -> float:
        """Tokens per plain step lately achieved; a plain step gives one."""
        return max(1.0, self._tokens / self._cost)

    def pause(self) -> None:
        """Nothing is looked for in this step, since it is not due."""
        self._choice = _Choice(is_paused=True)

    def choose(self, draft: DraftTree, context_length: int) -> DraftTree:
        """The subtree of a draft that is worth verifying; the root alone where none is."""
        reached = self._reached(draft)
        order = sorted(range(draft.width), key=lambda node: (-reached[node], node))
        order = order[: len(self._rows)]
        widths = range(1, len(self._rows) + 1)
        leaves = _leaf_counts(draft.parents, order)
        leaves += leaves[-1:] * (len(self._rows) - len(leaves))  # were its last branch longer
        costs = self._curve.milliseconds(StepShapes(self._rows, widths, leaves), context_length)
        plain_milliseconds = float(costs[0])
        costs /= plain_milliseconds
        self._node_price = float(costs[-1] - costs[0]) / len(costs)
        worth = np.cumsum([reached[node] for node in order]) - self._rate * costs[: len(order)]
        best = int(np.argmax(worth))
        self._choice = _Choice(
            *(draft, leaves[best], float(costs[best]), plain_milliseconds),
            is_paused=best == 0 < len(order) - 1,
        )
        return draft.subtree(sorted(order[: best + 1]))

    def observe(self, step: PolicyStep) -> bool:
        """Learn what the step took, and whether the draft, verified or not, had what came.

        Returns whether drafting is paused: nothing was verified, since it would not have paid.
        """
        choice, self._choice = self._choice, _Choice()
        self._curve.observe(
            *(step.rows, step.width, choice.num_leaves),
            context_length=step.context_length,
            milliseconds=1000 * step.seconds,
        )
        if choice.draft is None:
            self._steps_since_look += 1
            self._count(step, choice.cost)
            return choice.is_paused
        look_cost = min(1.0, 1000 * step.look_seconds / choice.plain_milliseconds)
        self._steps_since_look = 0
        gained = len(step.token_ids) - 1 - self._rate * (choice.cost - 1)
        self._num_looks = min(self._num_looks + 1, _LOOK_MEMORY)
        self._look_value += (gained - self._look_value) / self._num_looks
        self._look_cost += (look_cost - self._look_cost) / self._num_looks
        self._count(step, choice.cost + look_cost)
        self._is_promising = self._compare(choice.draft, step.token_ids)
        return choice.is_paused

    def _count(self, step: PolicyStep, cost: float) -> None:
        """Take a step of this cost into the rate."""
        self._tokens += len(step.token_ids) - self._tokens / _RATE_MEMORY
        self._cost += cost - self._cost / _RATE_MEMORY

    def _reached(self, draft: DraftTree) -> list[float]:
        """Probability of each node, by how far its source was to be trusted in this answer."""
        shares = [
            1.0 if parent < 0 else self._trusted(_share(draft, node), draft.sources[node])
            for node, parent in enumerate(draft.parents)
        ]
        totals = [0.0] * draft.width
        for node, parent in enumerate(draft.parents[1:], 1):
            totals[parent] += shares[node]
        reached = [1.0]
        for node, parent in enumerate(draft.parents[1:], 1):
            reached.append(reached[parent] * shares[node] / max(1.0, totals[parent]))
        return reached

    def _trusted(self, share: float, source: TokenSource) -> float:
        odds = share / (1 - share) * math.exp(self._trust.get(source, 0.0))
        return odds / (1 + odds)

    def _compare(self, draft: DraftTree, token_ids: Sequence[int]) -> bool:
        """Move the trust in each source by what came; whether the draft had the first token.

        A node's children are judged wherever the model's own token behind that node is known, also
        those that were not verified: so a draft that was left out is a free probe.
        """
        children = draft.children()
        node = 0
        for depth, token_id in enumerate(token_ids):
            for child_id, child in children[node].items():
                source = draft.sources[child]
                trusted = self._trusted(_share(draft, child), source)
                moved = self._trust.get(source, 0.0) + _TRUST_STEP * (
                    (child_id == token_id) - trusted
                )
                self._trust[source] = min(max(moved, -_MAX_TRUST), _MAX_TRUST)
            found = children[node].get(token_id)
            if found is None:
                return depth > 0
            node = found
        return True


def _share(draft: DraftTree, node: int) -> float:
    """Probability of a node among those behind its parent, between never and surely."""
    share = draft.probabilities[node] / max(draft.probabilities[draft.parents[node]], _NEVER)
    return min(max(share, _NEVER), _SURELY)


def _leaf_counts(parents: Sequence[int], order: Sequence[int]) -> list[int]:
    """Leaves of the tree of the first 1, 2, … nodes of `order`, in which a parent comes first."""
    counts: list[int] = []
    has_child = [False] * len(parents)
    leaves = 1
    for node in order:
        parent = parents[node]
        if parent >= 0:
            leaves += has_child[parent]
            has_child[parent] = True
        counts.append(leaves)
    return counts
