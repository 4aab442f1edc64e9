"""A comparison as the page is shown it, made up: for tests of the page."""

from dataclasses import replace

from app.services.comparison import ArmSnapshot, SpeedUp, Verdict, VerdictKind
from app.services.jobs import CompareJob
from tests.app.scripted_service import NUMBERS

__all__ = ["LONG_ANSWER", "finish", "grow"]

LONG_ANSWER = "The pump is serviced in May and in October, once by hand.\n" * 12
SOURCES = ("model", "document", "history", "recycled", "prompt", "output")


def arms(text: str, status: str) -> dict[str, ArmSnapshot]:
    """Both arms with the same text; what lookahead accepted is of all sources."""
    plain = tuple((1, "model") for _ in text)
    drafted = tuple((1, SOURCES[index // 7 % len(SOURCES)]) for index in range(len(text)))
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
