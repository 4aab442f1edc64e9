"""Calibration: how far to believe each kind of evidence for the next token, learned by counting.

At a node of a draft several kinds of evidence speak in turn, each about the probability that those
before it left. Every kind is a *cell*: how often it was asked, and how often it was right. So
estimates are right on average, whatever the model, and begin with priors that fade as counts come.
Knows numbers and token ids; asked while a draft grows, told by the drafter what came.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

import numpy as np

from lookahead.agreement import Agreement
from lookahead.blob import BlobFormatError, pack_arrays, unpack_arrays
from lookahead.candidates import MATCH_LENGTHS, MAX_MATCH_LENGTH
from lookahead.successors import NUM_SUCCESSORS

__all__ = [
    "MAX_DISTINCT",
    "MAX_RECENT_DEPTH",
    "MAX_SEEN",
    "NUM_RECENT",
    "Calibration",
    "CalibrationFormatError",
    "Turn",
]

HEADER = "calibration 1"
NUM_RECENT = 12  # near misses asked at a node
MAX_RECENT_DEPTH = 3  # nodes at which they are asked lie above it
MAX_SEEN = 16  # above it the number of sightings tells nothing more
MAX_DISTINCT = 3  # different continuations told apart: one, two, more

Turn = tuple[Sequence[int], Sequence[float], Sequence[int]]
"""What one kind of evidence said of a node's children: token ids, shares of the whole, cells."""

_PRIOR_WEIGHT = 30.0  # times that a prior counts as asked
_MAX_ASKED = 2_000.0  # above it counts are halved: what was long ago weighs less
_LEAST_SHARE = 1e-6  # so far from never and always a cell stays, however often it was asked
_COUNTS = (1, 2, 4, 8)  # sightings told apart: one, two, up to four, up to eight, more

_LEVEL = [bisect_right(MATCH_LENGTHS, length) - 1 for length in range(MAX_MATCH_LENGTH + 1)]
_COUNT_CLASS = [bisect_right(_COUNTS, count - 1) for count in range(MAX_SEEN + 1)]
_NUM_COUNTS = len(_COUNTS) + 1
_NUM_MATCH_CELLS = 2 * len(MATCH_LENGTHS) * _NUM_COUNTS * MAX_DISTINCT
_PAIRS_AT = _NUM_MATCH_CELLS
_TOKENS_AT = _PAIRS_AT + 2 * 2 * NUM_SUCCESSORS
_RECENT_AT = _TOKENS_AT + 3 * 2 * NUM_SUCCESSORS
_NUM_CELLS = _RECENT_AT + MAX_RECENT_DEPTH * 2 * NUM_RECENT


class CalibrationFormatError(BlobFormatError):
    """The calibration's bytes are damaged or of another version. Start with the priors."""


class Calibration:
    """Counts of how often each kind of evidence was right, and the shares that follow from them.

    Attributes:
        shares: by cell, float64; compiled code reads them where they stand.
    """

    def __init__(self) -> None:
        self.shares = array("d", _prior_shares())
        self.agreement = Agreement()
        self._asked = [_PRIOR_WEIGHT] * _NUM_CELLS
        self._right = [share * _PRIOR_WEIGHT for share in self.shares]

    @staticmethod
    def match_cell(is_own: bool, match_length: int, num_seen: int, num_distinct: int) -> int:
        """The cell of places where the context was seen before.

        Args:
            is_own: seen in this conversation; otherwise in history or documents.
            match_length: tokens that agree, drafted ones included.
            num_seen: how often the match was seen to continue.
            num_distinct: with how many different tokens.
        """
        cell = is_own * len(MATCH_LENGTHS) + _LEVEL[min(match_length, MAX_MATCH_LENGTH)]
        cell = cell * _NUM_COUNTS + _COUNT_CLASS[min(num_seen, MAX_SEEN)]
        return cell * MAX_DISTINCT + min(num_distinct, MAX_DISTINCT) - 1

    @staticmethod
    def pair_cell(match_length: int) -> int:
        """The first cell of a row of successors of two tokens, behind a match this long.

        Of any row of candidates the cell of rank r is the first one + r, and `len(row)` further
        where the token occurs in the conversation.
        """
        return _PAIRS_AT + (match_length >= 2) * 2 * NUM_SUCCESSORS

    @staticmethod
    def token_cell(*, has_matches: bool, has_pair: bool) -> int:
        """The first cell of a row of successors of one token, by what spoke before it."""
        return _TOKENS_AT + (2 if has_pair else int(has_matches)) * 2 * NUM_SUCCESSORS

    @staticmethod
    def recent_cell(depth: int) -> int:
        """The first cell of the near misses, for children of a node at `depth`."""
        return _RECENT_AT + depth * 2 * NUM_RECENT

    def learn(self, turns: Sequence[Turn], token_id: int) -> None:
        """Count what came after a node at which these turns were taken.

        The token is credited to the turns in proportion to what they gave it, and a turn counts as
        asked as far as those before it were not right: a step of expectation maximisation.
        """
        given = [
            sum(share for token, share in zip(tokens, shares, strict=True) if token == token_id)
            for tokens, shares, _ in turns
        ]
        total = sum(given)
        reach = 1.0
        for (tokens, _, cells), share in zip(turns, given, strict=True):
            for cell in set(cells):
                self._count(cell, asked=reach)
            if share > 0.0:
                self._count(cells[tokens.index(token_id)], right=share / total)
                reach -= share / total
            if reach < 1e-6:
                break

    def _count(self, cell: int, asked: float = 0.0, right: float = 0.0) -> None:
        asked += self._asked[cell]
        right += self._right[cell]
        if asked > _MAX_ASKED:
            asked, right = asked / 2, right / 2
        right = min(max(right, _LEAST_SHARE * asked), (1 - _LEAST_SHARE) * asked)
        self._asked[cell], self._right[cell] = asked, right
        self.shares[cell] = right / asked

    def to_bytes(self) -> bytes:
        """Serialize."""
        arrays = {"asked": np.array(self._asked), "right": np.array(self._right)}
        return pack_arrays(HEADER, arrays | self.agreement.arrays())

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Read what `to_bytes` wrote. Raises CalibrationFormatError for anything else."""
        try:
            arrays = unpack_arrays(HEADER, blob)
            counts = np.array([arrays["asked"], arrays["right"]])  # [2, cells]
            agreement = Agreement()
            if "foretold" in arrays:  # earlier versions knew no agreement
                agreement = Agreement.from_arrays(arrays["foretold"], arrays["came"])
        except (BlobFormatError, KeyError, ValueError) as error:
            raise CalibrationFormatError(f"{error} Start with the priors.") from error
        if counts.shape != (2, _NUM_CELLS) or counts.dtype != np.float64:
            raise CalibrationFormatError("These are no counts of ours. Start with the priors.")
        asked, right = counts.astype(np.float64)
        if not ((right >= 0) & (right <= asked) & (asked > 0) & np.isfinite(asked)).all():
            raise CalibrationFormatError("These counts are not possible. Start with the priors.")
        right = np.clip(right, _LEAST_SHARE * asked, (1 - _LEAST_SHARE) * asked)
        calibration = cls()
        calibration.agreement = agreement
        calibration._asked, calibration._right = asked.tolist(), right.tolist()
        calibration.shares = array("d", right / asked)
        return calibration


def _prior_shares() -> list[float]:
    """What half of the recorded answers say, smoothed (docs/lab-log.md).

    Matches follow PPM's method C: seen n times with d different continuations, the odds that the
    next token is among them grow with n, fall with d, and begin with those of a lone sighting.
    """
    shares = []
    for odds, growth in ((0.075, 1.05), (0.30, 1.2)):  # history and documents, the conversation
        for length in MATCH_LENGTHS:
            for num_seen in (1, 2, 4, 8, MAX_SEEN):
                for num_distinct in (1, 2, 4):
                    agreement = num_seen / min(num_seen, num_distinct) ** 1.25
                    weight = odds * length**growth * agreement
                    shares.append(weight / (1.0 + weight))
    for row in _PRIOR_ROWS:
        shares += row
    for new, known in _PRIOR_RECENT:
        for first in (new, known):
            shares += [first / (1.0 + 0.2 * rank) for rank in range(NUM_RECENT)]
    return shares


# By rank, of tokens new to the conversation and of tokens known there.
_PRIOR_ROWS = (
    # successors of two tokens, behind no match or one of a single token
    (0.10, 0.04, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01),
    (0.53, 0.14, 0.07, 0.05, 0.04, 0.04, 0.03, 0.02),
    # behind a longer one
    (0.05, 0.05, 0.03, 0.01, 0.01, 0.01, 0.01, 0.01),
    (0.28, 0.19, 0.11, 0.06, 0.05, 0.03, 0.03, 0.02),
    # successors of one token, where nothing spoke before
    (0.09, 0.05, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01),
    (0.21, 0.12, 0.09, 0.07, 0.06, 0.06, 0.04, 0.04),
    # behind matches
    (0.03, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01, 0.01),
    (0.19, 0.13, 0.09, 0.06, 0.05, 0.04, 0.04, 0.03),
    # behind successors of two
    (0.04, 0.04, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01),
    (0.19, 0.10, 0.08, 0.04, 0.03, 0.03, 0.03, 0.03),
)
_PRIOR_RECENT = ((0.03, 0.07), (0.02, 0.04), (0.01, 0.04))  # of the first one, by depth
