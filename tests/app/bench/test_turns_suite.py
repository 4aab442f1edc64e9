"""Conversations: what each arm is asked, what it keeps, and what is compared."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.bench.interleaving import Comparison
from app.bench.prompt_sets import BenchPrompt
from app.bench.reports import SuiteReport
from app.bench.turns_suite import ConversationArm, measure_conversations
from app.prompting import MessageTooLongError, Prompt, Turn
from tests.app.bench.scripted_runner import ANSWER_LENGTH, ScriptedBuilder, ScriptedRunner

CONVERSATIONS = [
    BenchPrompt("c0", "writing", ("Write it.", "Shorter.")),
    BenchPrompt("c1", "math", ("Solve it.", "Prove it.", "Check it.")),
]


class Builder(ScriptedBuilder):
    """Refuses what is longer than it may be."""

    longest = 1000

    def build_chat(self, turns: Sequence[Turn]) -> Prompt:
        prompt = super().build_chat(turns)
        if len(prompt.token_ids) > self.longest:
            raise MessageTooLongError("It is too long.")
        return prompt


class ScriptedSession:
    """Counts how often it was closed."""

    made: list["ScriptedSession"]

    def __init__(self) -> None:
        self.num_closed = 0
        self.made.append(self)

    def close(self) -> None:
        self.num_closed += 1


def converse(runner: ScriptedRunner, longest: int = 1000) -> tuple[SuiteReport, list[str]]:
    builder = Builder()
    builder.longest = longest

    class Session(ScriptedSession):
        made: list[ScriptedSession] = []  # noqa: RUF012

    new_session: Any = Session
    arms = [
        ConversationArm(runner, builder, session, drafts=drafts)
        for drafts in (False, True)
        for session in (None, new_session)
    ]
    comparisons = [
        Comparison("plain", frozenset({"history"})),
        Comparison("plain-session", frozenset({"history-session"})),
    ]
    skipped: list[str] = []
    report = measure_conversations(CONVERSATIONS, arms, comparisons, skip=skipped.append)
    assert [session.num_closed for session in Session.made] in ([1] * 4, [1, 1, 0, 0])
    return report, skipped


def test_every_arm_goes_through_every_turn_with_its_own_answers() -> None:
    report, skipped = converse(ScriptedRunner())
    assert skipped == []
    assert len(report.rows) == 4 * (2 + 3)
    lengths = {(row["prompt_id"], row["turn"]): row["prompt_length"] for row in report.rows}
    assert lengths["c1", 2] == 3 + 2 * ANSWER_LENGTH
    names = {figure.name for figure in report.figures}
    assert {
        "turns.plain.follow_up_wait_ratio",
        "turns.plain-session.turn_2.first_token_seconds",
        "turns.history.turn_2.decode_ratio_over_plain",
        "turns.history-session.turn_3.reused_share",
    } <= names
    assert [table.title for table in report.tables[:3]] == ["Turn 1", "Turn 2", "Turn 3"]


def test_only_earlier_conversations_are_history() -> None:
    runner = ScriptedRunner()
    converse(runner)
    held = [trie.statistics().num_sequences for _, trie in runner.calls if trie is not None]
    assert len(held) == 10
    assert set(held) == {2}  # looked at when all is over: one sequence a conversation


def test_a_wrong_token_fails_once_a_conversation_and_arm() -> None:
    """What follows a difference is another conversation, and is not compared."""
    report, _ = converse(ScriptedRunner(wrong_at=("c1", 3)))
    assert len(report.failures) == 2
    assert {failure.split(" (")[0] for failure in report.failures} == {
        f"{arm} differs from {base} at prompt c1, token 3"
        for arm, base in (("history", "plain"), ("history-session", "plain-session"))
    }


def test_a_conversation_that_outgrows_the_context_is_left_out_and_told() -> None:
    report, skipped = converse(ScriptedRunner(), longest=3 + ANSWER_LENGTH)
    assert {row["prompt_id"] for row in report.rows} == {"c0"}
    assert skipped == ["Conversation c1 was left out: It is too long."]


def test_an_interruption_keeps_the_conversations_that_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = ScriptedRunner()
    generate = runner.generate

    def interrupted(request: Any, **choices: Any) -> Any:
        if request.prompt.id == "c1":
            raise KeyboardInterrupt
        return generate(request, **choices)

    monkeypatch.setattr(runner, "generate", interrupted)
    report, _ = converse(runner)
    assert report.is_interrupted
    assert {row["prompt_id"] for row in report.rows} == {"c0"}
