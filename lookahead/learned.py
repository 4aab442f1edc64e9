"""What drafting has learned about one model; none of it changes a text.

Knows numbers and token ids only. Lent to a generation, which drafts from it and feeds it; one
thread writes and reads. Whoever keeps it from run to run saves each part by itself.
"""

import copy
from dataclasses import dataclass, replace
from typing import Self

from lookahead.calibration import Calibration
from lookahead.step_costs import StepCosts
from lookahead.successors import SuccessorTable

__all__ = ["Learned"]


@dataclass(slots=True)
class Learned:
    """Three kinds of experience with one model.

    Args:
        successors: what it last thought likeliest to follow each token.
        calibration: how far to believe what was seen after a match.
        step_costs: what a step takes here.
    """

    successors: SuccessorTable
    calibration: Calibration
    step_costs: StepCosts

    @classmethod
    def empty(cls, vocab_size: int) -> Self:
        """Nothing learned yet: no successors, and priors for the rest."""
        return cls(SuccessorTable(vocab_size), Calibration(), StepCosts())

    def copy(self) -> Self:
        """One that learns on its own from here."""
        return copy.deepcopy(self)

    def with_own_successors(self) -> Self:
        """One whose successors learn on their own; figures, which tell no text, are shared."""
        return replace(self, successors=copy.deepcopy(self.successors))
