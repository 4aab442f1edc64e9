"""A comparison as the page is shown it, made up: for tests of the page."""

from dataclasses import replace

from app.looks import LOOKS
from app.services.comparison import ArmSnapshot, SpeedUp, Verdict, VerdictKind
from app.services.jobs import CompareJob
from tests.app.scripted_service import NUMBERS

__all__ = ["LONG_ANSWER", "finish", "grow"]

LONG_ANSWER = "The pump is serviced in May and in October, once by hand.\n" * 12


def arms(text: str, status: str) -> dict[str, ArmSnapshot]:
    """Both arms with the same text; lookahead's has all looks."""
    looks = list(LOOKS)
    plain = "1 model\n" * len(text)
    drafted = "".join(f"1 {looks[index // 7 % len(looks)]}\n" for index in range(len(text)))
    numbers = replace(NUMBERS, num_drafted_tokens=173, num_accepted_tokens=107)
    return {
        "plain": ArmSnapshot("plain", status, text, numbers, plain),
        "lookahead": ArmSnapshot("lookahead", status, text, numbers, drafted),
    }


def grow(job: CompareJob, text: str) -> None:
    """Both have come this far."""
    job.show(status="decoding", **arms(text, "decoding"))


def finish(job: CompareJob, text: str = LONG_ANSWER) -> None:
    """Both are whole, and identical."""
    job.show(
        status="complete",
        verdict=Verdict(VerdictKind.IDENTICAL, 214, 214, True, True),
        speed_up=SpeedUp(214, 8.0, 3.2),
        **arms(text, "complete"),
    )
