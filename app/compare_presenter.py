"""What the tab "Compare" shows, as plain dictionaries that become JSON.

Pure functions of a snapshot. Called by the tab's handlers; the page's script puts every string into
the document as text.
"""

from dataclasses import replace
from typing import Any

from app.looks import LOOKS, counts_by_look
from app.numbers import COMPARE_NUMBERS, counted, sampling_words
from app.plain_text import displayable
from app.services.comparison import (
    ArmSnapshot,
    ComparisonSnapshot,
    SpeedUp,
    Verdict,
    VerdictKind,
)
from app.services.views import ENDINGS

__all__ = ["comparison_value"]

_ARM_LINES = {
    "queued": "waiting",
    "prefill": "reading the prompt",
    "stopped": "stopped",
    "failed": "failed",
}
_NO_PROMISE = "Flexible mode promises the same text up to numerical ties"


def comparison_value(
    snapshot: ComparisonSnapshot | None, *, is_model_ready: bool = True
) -> dict[str, Any]:
    """The value of the comparison: both texts, the table, the verdict and the speed-up."""
    if snapshot is None:
        return {"status": "", "line": "", "prompt": "", "arms": {}, "rows": [], "verdict": None}
    arms = (snapshot.plain, snapshot.lookahead)
    return {
        "status": snapshot.status,
        "line": displayable(_line(snapshot, is_model_ready)),
        "prompt": displayable(snapshot.prompt),
        "arms": {arm.name: _arm(arm, is_over=snapshot.is_over) for arm in arms},
        "rows": [  # none where there is nothing to show
            {
                "name": shown.name,
                "definition": shown.definition,
                **{arm.name: shown.write(arm.numbers) if arm.numbers else "–" for arm in arms},
            }
            for shown in COMPARE_NUMBERS
            if any(arm.numbers for arm in arms)
        ],
        "verdict": None if snapshot.verdict is None else _verdict(snapshot.verdict),
        "speed_up": _speed_up(snapshot.speed_up, snapshot.verdict),
        "note": _note(snapshot),
    }


def _line(snapshot: ComparisonSnapshot, is_model_ready: bool) -> str:
    if snapshot.is_stopping and not snapshot.is_over:
        return "Stopping …"
    match snapshot.status:
        case "queued":
            if not is_model_ready:
                return "Waiting for the model to load …"
            return "Waiting for its turn: the model is busy with another answer …"
        case "prefill":
            return "Reading the prompt, once for each …"
        case "decoding":
            return "Both are answering; the one that has used less model time goes next."
        case "failed":
            return snapshot.error or "The comparison failed."
        case "stopped":
            return "Stopped."
        case _:
            return ""


def _arm(arm: ArmSnapshot, *, is_over: bool) -> dict[str, Any]:
    has_begun = arm.status not in ("queued", "prefill")
    status = "did not begin" if is_over and not has_begun else _ARM_LINES.get(arm.status, "")
    numbers = arm.numbers
    if numbers is not None and arm.status in ("decoding", "complete"):
        status = f"{numbers.num_tokens:,} tokens · {numbers.decode_seconds:.1f} s"
        if arm.status == "complete" and numbers.reason in ENDINGS:
            status += f" · {ENDINGS[numbers.reason]}"
    return {
        "line": status,
        "tokens": numbers.num_tokens if numbers is not None else 0,
        "text": displayable(arm.text),
        "pieces": arm.pieces,
    }


def _verdict(verdict: Verdict) -> dict[str, str]:
    return {"kind": verdict.kind.value, "text": _sentence(verdict)}


def _sentence(verdict: Verdict) -> str:
    tokens = counted(verdict.num_equal, "token")
    place = f"token {verdict.num_equal + 1:,}"
    match verdict.kind:
        case VerdictKind.IDENTICAL | VerdictKind.PARTIAL:
            behind = "it" if verdict.num_equal == 1 else "each"
            sentence = f"identical, bit for bit: {tokens} and the logits behind {behind}."
            if not verdict.is_bit_identical:
                sentence = (
                    f"identical: {tokens}. The logits behind them differ by rounding, as they may "
                    "in flexible mode."
                )
            if verdict.kind is VerdictKind.PARTIAL:
                return f"As far as both had come, {sentence}"
            return sentence[0].upper() + sentence[1:]
        case VerdictKind.TIE:
            return (
                f"Differs at a tie, at {place}: the two best logits lie {verdict.gap:.2g} apart "
                f"there, and rounding moves them by up to {verdict.noise:.2g}. {_before(verdict)} "
                f"{_NO_PROMISE}."
            )
        case VerdictKind.SAMPLED:
            return (
                f"Differs at {place}. {_before(verdict)} {_NO_PROMISE}; with a temperature above 0 "
                "a tie cannot be told from a bug."
            )
        case _:
            return f"{_bug(verdict, place)} This is a bug: please report it with the prompt."


def _bug(verdict: Verdict, place: str) -> str:
    if not verdict.is_strict:
        return (
            f"Differs at {place}, where the two best logits lie {verdict.gap:.2g} apart: more than "
            f"rounding explains, which moves them by up to {verdict.noise:.2g}. {_before(verdict)}"
        )
    if verdict.num_equal_logits < verdict.num_equal:
        return (
            f"{counted(verdict.num_equal, 'token')} alike, but from token "
            f"{verdict.num_equal_logits + 1:,} on the logits behind them differ, which strict mode "
            "rules out."
        )
    return f"Differs at {place}, which strict mode rules out. {_before(verdict)}"


def _before(verdict: Verdict) -> str:
    if verdict.num_equal < 2:
        return "The first token is the same." if verdict.num_equal else ""
    return f"The {verdict.num_equal:,} tokens before are the same."


def _speed_up(speed_up: SpeedUp | None, verdict: Verdict | None) -> dict[str, str] | None:
    if speed_up is None:
        return None
    is_whole = verdict is not None and verdict.kind is VerdictKind.IDENTICAL
    tokens = counted(speed_up.num_tokens, "token")
    what = f"the same {tokens}" if is_whole else f"the first {tokens}, which are the same in both"
    return {
        "value": f"{speed_up.ratio:.2f}×",
        "definition": (
            f"Measured speed-up: plain decode time / lookahead decode time for {what}: "
            f"{speed_up.plain_seconds:.2f} s / {speed_up.lookahead_seconds:.2f} s."
        ),
    }


def _note(snapshot: ComparisonSnapshot) -> str:
    """How the run was made, for who wants to make it again."""
    if snapshot.plain.numbers is None and snapshot.lookahead.numbers is None:
        return ""
    parts = [f"{snapshot.first.capitalize()} began; the other begins the next run."]
    numbers = snapshot.lookahead.numbers
    sampled = numbers or snapshot.plain.numbers
    if sampled is not None:
        parts.append(f"Both: {sampling_words(replace(sampled, seed=snapshot.seed))}.")
    if numbers is not None and numbers.accepted_by_source:
        counts = counts_by_look(numbers.accepted_by_source)
        told = ", ".join(
            f"{counts[look]:,} from {LOOKS[look].name}"
            for look in sorted(LOOKS, key=lambda look: -counts[look])
            if counts[look]
        )
        parts.append(f"Drafts were accepted: {told}.")
    return " ".join(parts)
