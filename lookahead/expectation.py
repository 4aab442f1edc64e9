"""The expectation: what may follow at one node of a draft, as probabilities by token.

Kinds of evidence take turns, the strongest first; each takes its calibrated share of what those
before it left, and a token that several name gets it from each. Knows token ids and numbers, of
stores nothing. Made by the drafter at every node it expands; kept there to be learned from.
"""

from collections.abc import Collection, Mapping, Sequence, Sized

from lookahead.calibration import Calibration, Turn

__all__ = ["Expectation"]

_MOST = 0.95  # of what is left, taken by one row


class Expectation:
    """Probabilities of the tokens that may follow, given that the node is reached.

    Attributes:
        probabilities: by token id; they sum to 1 at most.
        left: what no evidence has taken yet.
        turns: what each kind of evidence said.
    """

    __slots__ = ("_shares", "left", "probabilities", "turns")

    def __init__(self, calibration: Calibration) -> None:
        self._shares = calibration.shares
        self.probabilities: dict[int, float] = {}
        self.left = 1.0
        self.turns: list[Turn] = []

    def take_matches(self, groups: Mapping[int, Sized], num_seen: int, cell: int) -> None:
        """Places that match the context, by the token they go on with."""
        taken = self.left * self._shares[cell]
        each = taken / num_seen
        shares = [each * len(group) for group in groups.values()]
        self._take(list(groups), shares, [cell] * len(shares))
        self.left -= taken

    def take_row(
        self, token_ids: Sequence[int], first_cell: int, own_ids: Collection[int], row_length: int
    ) -> None:
        """Likely tokens, likeliest first; `own_ids` are those that occur in the conversation."""
        cells = [
            cell + row_length if token_id in own_ids else cell
            for cell, token_id in enumerate(token_ids, first_cell)
        ]
        all_shares = self._shares
        shares = [all_shares[cell] for cell in cells]
        total = sum(shares)
        scale = self.left if total <= _MOST else self.left * _MOST / total
        self._take(token_ids, [scale * share for share in shares], cells)
        self.left -= scale * total

    def _take(
        self, token_ids: Sequence[int], shares: Sequence[float], cells: Sequence[int]
    ) -> None:
        self.turns.append((token_ids, shares, cells))
        probabilities = self.probabilities
        if not probabilities:
            probabilities.update(zip(token_ids, shares, strict=True))
            return
        for token_id, share in zip(token_ids, shares, strict=True):
            probabilities[token_id] = probabilities.get(token_id, 0.0) + share
