"""A comparison of plain and lookahead decoding: its picture, its verdict, its measured speed-up.

Frozen data and pure functions of token ids, digests and seconds. Made by the compare task, read by
the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from app.services.views import ANSWER_OVER, AnswerNumbers, AnswerStatus
from lookahead.events import FinishReason

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

    IDENTICAL = "identical"  # the same tokens, and ended for the same reason
    PARTIAL = "partial"  # stopped; the same tokens as far as both had come
    TIE = "tie"  # flexible: the two best logits are closer than rounding
    SAMPLED = "sampled"  # flexible, sampled: they part, and a tie is not to be told from a bug
    BUG = "bug"  # what must not happen


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared and what came of it.

    Args:
        num_equal: tokens from the start that are the same in both.
        num_equal_logits: choices from the start whose logits are the same bit for bit. More than
            `num_equal` where the end, or what a stop string took back, was compared, too.
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
        pieces: a line for each token, in order: its characters in the text, and its look.
    """

    name: ArmName
    status: AnswerStatus = "queued"
    text: str = ""
    numbers: AnswerNumbers | None = None
    pieces: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonSnapshot:
    """A comparison as it stands now, cumulative.

    Args:
        first: the arm that begins, in this run.
        seed: of both arms; None: greedy.
        verdict, speed_up: at the end, where there is something to say.
        error: one sentence, set where `status` is "failed".
        is_stopping: somebody asked it to end.
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
    is_stopping: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ANSWER_OVER


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """What is compared of one arm.

    Args:
        digests: of the logits behind each token chosen, that of the end included, and those of
            tokens that were cut off at a stop string: lookahead may have chosen some behind it.
        clock: (tokens, decode seconds) after prefill and after each step.
        reason: why it ended.
    """

    token_ids: tuple[int, ...]
    digests: Sequence[bytes]
    clock: Sequence[tuple[int, float]]
    reason: FinishReason

    @property
    def is_whole(self) -> bool:
        """Whether it came to its own end."""
        return self.reason is not FinishReason.CANCELLED

    @property
    def reach(self) -> int:
        """Tokens that an unfinished answer may have and still come to the same end."""
        is_cut = self.reason is FinishReason.STOP
        return max(len(self.token_ids), len(self.digests) if is_cut else 0)


def verdict_of(
    plain: ArmRecord, lookahead: ArmRecord, *, is_strict: bool, is_greedy: bool
) -> Verdict | None:
    """The verdict, None where there is nothing to compare.

    A greedy difference in flexible mode is given as a bug; whoever has the model can find that it
    is a tie.
    """
    num_equal = _shared_length(plain.token_ids, lookahead.token_ids)
    num_equal_logits = _shared_length(plain.digests, lookahead.digests)
    if not _have_one_end(plain, lookahead, num_equal):
        kind = VerdictKind.BUG if is_strict or is_greedy else VerdictKind.SAMPLED
        return Verdict(kind, num_equal, num_equal_logits, False, is_strict)
    are_both_whole = plain.is_whole and lookahead.is_whole
    if not num_equal and not are_both_whole:
        return None
    # behind a stop string, or where one was stopped, a digest may have none to stand beside
    is_bit_identical = num_equal_logits == min(len(plain.digests), len(lookahead.digests))
    kind = VerdictKind.IDENTICAL if are_both_whole else VerdictKind.PARTIAL
    if is_strict and not is_bit_identical:
        kind = VerdictKind.BUG
    return Verdict(kind, num_equal, num_equal_logits, is_bit_identical, is_strict)


def _have_one_end(plain: ArmRecord, lookahead: ArmRecord, num_equal: int) -> bool:
    """Whether both are one answer, the first `num_equal` tokens alike, as far as they had come."""
    if plain.is_whole and lookahead.is_whole:
        return plain.token_ids == lookahead.token_ids and plain.reason == lookahead.reason
    shorter, longer = sorted((plain, lookahead), key=lambda arm: len(arm.token_ids))
    is_within = not shorter.is_whole or len(longer.token_ids) <= shorter.reach
    return num_equal == len(shorter.token_ids) and is_within


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
