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
        probabilities: shares by token id, added up from all kinds; they sum to 1 at most.
        kinds: by token id, in the same order, which kinds of evidence name it.
        left: what no evidence has taken yet.
        turns: what each kind of evidence said.
    """

    __slots__ = ("_calibration", "_shares", "kinds", "left", "probabilities", "turns")

    def __init__(self, calibration: Calibration) -> None:
        self._shares = calibration.shares
        self._calibration = calibration
        self.probabilities: dict[int, float] = {}
        self.kinds: dict[int, int] = {}
        self.left = 1.0
        self.turns: list[Turn] = []

    def take_matches(
        self, groups: Mapping[int, Sized], num_seen: int, cell: int, kind: int
    ) -> None:
        """Places that match the context, by the token they go on with."""
        taken = self.left * self._shares[cell]
        each = taken / num_seen
        shares = [each * len(group) for group in groups.values()]
        self._take(list(groups), shares, [cell] * len(shares), kind)
        self.left -= taken

    def take_row(
        self,
        token_ids: Sequence[int],
        first_cell: int,
        own_ids: Collection[int],
        *,
        row_length: int,
        kind: int,
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
        self._take(token_ids, [scale * share for share in shares], cells, kind)
        self.left -= scale * total

    def weighed(self) -> list[float]:
        """What is believed in the end of each token in `probabilities`, 1 at most together."""
        agreement = self._calibration.agreement
        return agreement.weigh(list(self.probabilities.values()), list(self.kinds.values()))

    def learn(self, token_id: int) -> None:
        """Tell the calibration which token came."""
        self._calibration.learn(self.turns, token_id)
        self._calibration.agreement.learn(
            list(self.probabilities.values()),
            list(self.kinds.values()),
            list(self.probabilities).index(token_id) if token_id in self.probabilities else None,
        )

    def _take(
        self, token_ids: Sequence[int], shares: Sequence[float], cells: Sequence[int], kind: int
    ) -> None:
        self.turns.append((token_ids, shares, cells))
        probabilities, kinds = self.probabilities, self.kinds
        for token_id, share in zip(token_ids, shares, strict=True):
            probabilities[token_id] = probabilities.get(token_id, 0.0) + share
            kinds[token_id] = kinds.get(token_id, 0) | kind
