"""A comparison of plain and lookahead decoding: its picture, its verdict, its measured speed-up.

Frozen data and pure functions of token ids, digests and seconds. Made by the compare task, read by
the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from app.services.views import ANSWER_OVER, AnswerNumbers, AnswerStatus

__all__ = [
    "ArmName",
    "ArmRecord",
    "ArmSnapshot",
    "ComparisonSnapshot",
    "SpeedUp",
    "Verdict",
    "VerdictKind",
    "measured_speed_up",
    "verdict_of",
]

ArmName = Literal["plain", "lookahead"]


class VerdictKind(StrEnum):
    """What the comparison found."""

    IDENTICAL = "identical"  # the same tokens and the same end
    PARTIAL = "partial"  # stopped; the same tokens as far as both had come
    TIE = "tie"  # flexible: the two best logits are closer than rounding
    SAMPLED = "sampled"  # flexible, sampled: they part, and a tie is not to be told from a bug
    BUG = "bug"  # what must not happen


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared and what came of it.

    Args:
        num_equal: tokens from the start that are the same in both.
        num_equal_logits: of these tokens (and the end), from the start, those whose logits are
            the same bit for bit.
        is_bit_identical: whether all logits that were compared are.
        is_strict: whether it was promised.
        gap, noise: of a greedy difference in flexible mode, see `lookahead.divergence`.
    """

    kind: VerdictKind
    num_equal: int
    num_equal_logits: int
    is_bit_identical: bool
    is_strict: bool
    gap: float | None = None
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """Seconds that both arms took to decode the same tokens, the first one excluded: prefill's."""

    num_tokens: int
    plain_seconds: float
    lookahead_seconds: float

    @property
    def ratio(self) -> float:
        """Plain seconds / lookahead seconds."""
        return self.plain_seconds / self.lookahead_seconds


@dataclass(frozen=True, slots=True)
class ArmSnapshot:
    """One of the two answers as it stands now.

    Args:
        pieces: (characters, source) of the text of each token, in order.
    """

    name: ArmName
    status: AnswerStatus = "queued"
    text: str = ""
    numbers: AnswerNumbers | None = None
    pieces: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonSnapshot:
    """A comparison as it stands now, cumulative.

    Args:
        first: the arm that begins, in this run.
        seed: of both arms; None: greedy.
        verdict, speed_up: at the end, where there is something to say.
        error: one sentence, set where `status` is "failed".
    """

    version: int
    status: AnswerStatus
    prompt: str
    first: ArmName
    seed: int | None = None
    plain: ArmSnapshot = ArmSnapshot("plain")
    lookahead: ArmSnapshot = ArmSnapshot("lookahead")
    verdict: Verdict | None = None
    speed_up: SpeedUp | None = None
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ANSWER_OVER


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """What is compared of one arm.

    Args:
        digests: of the logits behind each token chosen, that of the end included.
        clock: (tokens, decode seconds) after prefill and after each step.
        is_whole: whether it came to its own end.
    """

    token_ids: tuple[int, ...]
    digests: Sequence[bytes]
    clock: Sequence[tuple[int, float]]
    is_whole: bool


def verdict_of(
    plain: ArmRecord, lookahead: ArmRecord, *, is_strict: bool, is_greedy: bool
) -> Verdict | None:
    """The verdict, None where there is nothing to compare.

    A greedy difference in flexible mode is given as a bug; whoever has the model can find that it
    is a tie.
    """
    shorter, longer = sorted((plain, lookahead), key=lambda arm: len(arm.token_ids))
    num_common = len(shorter.token_ids)
    num_equal = _shared_length(plain.token_ids, lookahead.token_ids)
    num_equal_logits = _shared_length(plain.digests, lookahead.digests)
    has_more = len(longer.token_ids) > num_common
    if num_equal < num_common or (has_more and shorter.is_whole):
        kind = VerdictKind.BUG if is_strict or is_greedy else VerdictKind.SAMPLED
        return Verdict(kind, num_equal, num_equal_logits, False, is_strict)
    if not num_common and not shorter.is_whole:
        return None
    are_both_whole = plain.is_whole and lookahead.is_whole
    # where one was stopped, the last digests of the other have none to stand beside
    num_digests = max(len(arm.digests) for arm in (plain, lookahead))
    num_compared = num_digests if are_both_whole else num_common
    is_bit_identical = num_equal_logits >= num_compared
    kind = VerdictKind.IDENTICAL if are_both_whole else VerdictKind.PARTIAL
    if is_strict and not is_bit_identical:
        kind = VerdictKind.BUG
    return Verdict(
        kind, num_equal, min(num_equal_logits, num_compared), is_bit_identical, is_strict
    )


def measured_speed_up(plain: ArmRecord, lookahead: ArmRecord) -> SpeedUp | None:
    """The seconds of both arms over the longest stretch of the same tokens that both have a time
    for; None where that is the first token alone.
    """
    if plain.is_whole and lookahead.is_whole and plain.token_ids == lookahead.token_ids:
        ends = plain.clock[-1], lookahead.clock[-1]
    else:
        num_equal = _shared_length(plain.token_ids, lookahead.token_ids)
        times = dict(reversed(plain.clock))  # of equal counts, the first
        ends = next(
            (
                ((count, times[count]), (count, seconds))
                for count, seconds in sorted(lookahead.clock, reverse=True)
                if count <= num_equal and count in times
            ),
            ((0, 0.0), (0, 0.0)),
        )
    (num_tokens, plain_seconds), (_, lookahead_seconds) = ends
    if num_tokens < 2 or not lookahead_seconds:
        return None
    return SpeedUp(num_tokens, plain_seconds, lookahead_seconds)


def _shared_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Entries from the start that are equal."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
