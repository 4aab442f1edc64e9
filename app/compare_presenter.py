"""What the tab "Compare" shows, as plain dictionaries that become JSON.

Pure functions of a snapshot. Called by the tab's handlers; the page's script puts every string into
the document as text.
"""

from collections.abc import Callable
from typing import Any

from app.panel_log import look_of
from app.plain_text import displayable
from app.services.comparison import (
    ArmSnapshot,
    ComparisonSnapshot,
    SpeedUp,
    Verdict,
    VerdictKind,
)
from app.services.views import AnswerNumbers

__all__ = ["comparison_value"]

_ENDINGS = {
    "length": "ended at the token limit",
    "context": "ended where the context is full",
    "cancelled": "stopped",
}
_NO_PROMISE = "Flexible mode promises the same text up to numerical ties"

# name, definition, how it is written
_ROWS: tuple[tuple[str, str, Callable[[AnswerNumbers], str]], ...] = (
    (
        "Decode speed",
        "Tokens that decode steps emitted per second of decoding; reading the prompt not counted.",
        lambda numbers: f"{numbers.tokens_per_second:.1f} tokens/s",
    ),
    (
        "Decode time",
        "Model time of all decode steps, drafting included; the race goes by it.",
        lambda numbers: f"{numbers.decode_seconds:.2f} s",
    ),
    (
        "Tokens",
        "Tokens of the answer, the first one included, which reading the prompt gives.",
        lambda numbers: f"{numbers.num_tokens:,}",
    ),
    (
        "Decode steps",
        "Forward passes of the model after the prompt was read; plain decoding takes one a token.",
        lambda numbers: f"{numbers.num_steps:,}",
    ),
    (
        "Forwards",
        "All forward passes: those that read the prompt, and one for each decode step.",
        lambda numbers: f"{numbers.num_forwards:,}",
    ),
    (
        "Tokens per step",
        "Mean accepted length + 1 over all decode steps; 1.00 is plain decoding.",
        lambda numbers: f"{numbers.tokens_per_step:.2f}",
    ),
    (
        "Accepted drafts",
        "Drafted tokens that the model accepted, of all that were drafted.",
        lambda numbers: (
            f"{numbers.num_accepted_tokens:,} of {numbers.num_drafted_tokens:,}"
            if numbers.num_drafted_tokens
            else "–"
        ),
    ),
    (
        "Time to first token",
        "Time of reading the prompt, which gives the first token.",
        lambda numbers: f"{numbers.prefill_seconds:.2f} s",
    ),
)


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
        "arms": {arm.name: _arm(arm) for arm in arms},
        "rows": [
            {
                "name": name,
                "definition": definition,
                **{arm.name: written(arm.numbers) if arm.numbers else "–" for arm in arms},
            }
            for name, definition, written in _ROWS
        ],
        "verdict": None if snapshot.verdict is None else _verdict(snapshot.verdict),
        "speed_up": _speed_up(snapshot.speed_up, snapshot.verdict),
        "note": _note(snapshot),
    }


def _line(snapshot: ComparisonSnapshot, is_model_ready: bool) -> str:
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


def _arm(arm: ArmSnapshot) -> dict[str, Any]:
    """`pieces` has a line for each token: its characters, and its source where it was drafted."""
    status = {
        "queued": "waiting",
        "prefill": "reading the prompt",
        "stopped": "stopped",
        "failed": "failed",
    }.get(arm.status, "")
    numbers = arm.numbers
    if numbers is not None and arm.status in ("decoding", "complete"):
        status = f"{numbers.num_tokens:,} tokens · {numbers.decode_seconds:.1f} s"
        if arm.status == "complete" and numbers.reason in _ENDINGS:
            status += f" · {_ENDINGS[numbers.reason]}"
    return {
        "status": arm.status,
        "line": status,
        "tokens": numbers.num_tokens if numbers is not None else 0,
        "text": displayable(arm.text),
        "pieces": "".join(f"{length} {look_of(source)}\n" for length, source in arm.pieces),
    }


def _verdict(verdict: Verdict) -> dict[str, str]:
    return {"kind": verdict.kind.value, "text": _sentence(verdict)}


def _sentence(verdict: Verdict) -> str:
    tokens = _count(verdict.num_equal, "token")
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
            f"{_count(verdict.num_equal, 'token')} alike, but from token "
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
    tokens = _count(speed_up.num_tokens, "token")
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
    parts = [f"{snapshot.first.capitalize()} began; the other begins the next run."]
    if snapshot.seed is not None:
        parts.append(f"Seed {snapshot.seed}.")
    numbers = snapshot.lookahead.numbers
    if numbers is not None and numbers.accepted_by_source:
        sources = sorted(numbers.accepted_by_source.items(), key=lambda item: -item[1])
        names = {"prompt": "the prompt", "output": "the answer itself", "history": "earlier chats"}
        names |= {"document": "documents", "recycled": "recycled successors"}
        told = ", ".join(f"{count:,} from {names.get(source, source)}" for source, count in sources)
        parts.append(f"Drafts were accepted: {told}.")
    return " ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
