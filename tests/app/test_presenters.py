"""The strings of the page."""

import html
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from app import presenters
from app.services.views import (
    AnswerSnapshot,
    AnswerStatus,
    ChatMessage,
    EngineState,
)
from storage.records import Conversation, DocumentPassage
from tests.app.scripted_service import NOW, NUMBERS, READY

QUESTION = ChatMessage(1, 7, "user", "Is `List<String>` fine?", "complete")
ANSWER = ChatMessage(2, 7, "assistant", "It is.", "complete", NUMBERS)
LINE = (
    "41\u00a0tokens/s · 2.9\u00a0tokens\u00a0per\u00a0step · 37\u00a0forwards"
    " · 62\u00a0%\u00a0accepted"
)


def parts(message: dict[str, Any]) -> list[str]:
    return [html.unescape(block["text"]) for block in message["content"]]


def snapshot(status: AnswerStatus, **values: Any) -> AnswerSnapshot:
    return AnswerSnapshot(3, 7, 2, status, **values)


def test_numbers_stand_under_a_saved_answer_as_a_part_of_their_own() -> None:
    question, answer = presenters.chatbot_messages([QUESTION, ANSWER])
    assert question["role"] == "user"
    assert html.unescape(question["content"]) == "Is `List<String>` fine?"
    assert answer["role"] == "assistant"
    assert parts(answer) == ["It is.", LINE]


@pytest.mark.parametrize(
    "text",
    [
        "  *a*",
        "{{7*7}}",
        "<think>x</think>",
        "$$x$$ \\(y\\)",
        "1. a\n\n  b ",
        "12) a",
        "123. a",
        "- a",
    ],
)
def test_a_question_has_nothing_left_for_markdown_html_or_formulas(text: str) -> None:
    """Questions were shown as their own rendering: stars, tags and indentation were gone."""
    (question,) = presenters.chatbot_messages([replace(QUESTION, text=text)])
    content = question["content"]
    assert html.unescape(content) == text
    assert not set(content) & set("*<>$\\\n[")
    assert not re.match(r"\d+[.)]|[-+=]", content)
    assert content == content.strip()


def test_a_name_that_is_not_utf8_can_be_sent_to_the_page() -> None:
    """One such name in a report ended the event stream of every tab."""
    name = "note\udce9.png"
    failed = replace(ANSWER, status="failed", error=name)
    for shown in (
        presenters.engine_line(EngineState("failed", name, name)),
        presenters.engine_line(replace(READY, model=name, detail=name)),
        presenters.chat_list([Conversation(1, name, None, NOW, NOW)], 1),
        presenters.chatbot_messages([replace(QUESTION, text=name), replace(ANSWER, text=name)]),
        presenters.chatbot_messages([failed]),
    ):
        written = json.dumps(shown, ensure_ascii=False)
        assert "note" in written
        written.encode()


def test_a_running_answer_replaces_what_is_saved_of_it() -> None:
    running = snapshot("decoding", text="It is, ye", numbers=NUMBERS)
    earlier = replace(ANSWER, id=9, text="Earlier")
    _, first, second = presenters.chatbot_messages([QUESTION, earlier, ANSWER], running)
    assert parts(first) == ["Earlier", LINE]
    assert parts(second) == ["It is, ye", LINE]


def test_an_answer_without_text_keeps_the_numbers_in_second_place() -> None:
    """The page styles the second part of an answer as its numbers."""
    (answer,) = presenters.chatbot_messages([ANSWER], snapshot("queued"))
    assert len(parts(answer)) == 2
    assert parts(answer)[0].strip("\u200b") == ""


def test_why_an_answer_failed_is_still_said_after_a_reload() -> None:
    failed = replace(ANSWER, status="failed", numbers=None, error="Memory ran out.")
    for message, line in (
        (failed, "failed: Memory ran out."),
        (replace(failed, error=""), "failed"),
    ):
        (shown,) = presenters.chatbot_messages([message])
        assert parts(shown)[1] == line


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (snapshot("queued"), "Waiting for its turn …"),
        (snapshot("prefill"), "Reading the conversation …"),
        (snapshot("complete", numbers=NUMBERS), LINE),
        (snapshot("stopped", numbers=NUMBERS), f"{LINE} · stopped"),
        (snapshot("stopped"), "stopped"),
        (snapshot("failed", error="Out of memory."), "failed: Out of memory."),
        (
            snapshot("complete", numbers=replace(NUMBERS, reason="length")),
            f"{LINE} · ended at the token limit",
        ),
        (snapshot("queued", is_stopping=True), "Stopping …"),
        (snapshot("decoding", numbers=NUMBERS, is_stopping=True), "Stopping …"),
        (snapshot("stopped", numbers=NUMBERS, is_stopping=True), f"{LINE} · stopped"),
        (
            snapshot("complete", numbers=NUMBERS, notice="The oldest turn was left out."),
            f"{LINE} · The oldest turn was left out.",
        ),
    ],
)
def test_the_line_says_how_the_answer_stands(shown: AnswerSnapshot, line: str) -> None:
    assert presenters.answer_line(shown) == line


def test_the_line_says_when_the_model_is_what_an_answer_waits_for() -> None:
    line = presenters.answer_line(snapshot("queued"), is_model_ready=False)
    assert line == "Waiting for the model to load …"


def test_an_answer_of_one_forward_claims_no_speed() -> None:
    numbers = replace(NUMBERS, num_steps=0, num_forwards=1, tokens_per_second=0.0)
    assert presenters.numbers_line(numbers) == "1\u00a0forward"


def test_where_nothing_was_drafted_no_share_of_it_is_claimed() -> None:
    numbers = replace(NUMBERS, num_drafted_tokens=0, acceptance_rate=0.0, tokens_per_step=1.0)
    line = presenters.numbers_line(numbers)
    assert line.replace("\u00a0", " ").endswith("37 forwards · nothing drafted")


def test_titles_and_names_turn_round_nothing_of_the_page() -> None:
    name = "a\u202etxt.exe\u202c \u2066b\u2069 \u05e9"
    shown = "atxt.exe b \u05e9"
    chats = presenters.chat_list([Conversation(1, name, None, NOW, NOW)], None)
    assert chats["chats"][0]["title"] == shown


def test_slow_answers_show_a_decimal() -> None:
    assert presenters.numbers_line(replace(NUMBERS, tokens_per_second=3.14)).startswith(
        "3.1\u00a0tokens/s"
    )


def test_the_chat_list_names_the_open_and_the_running_chats() -> None:
    chats = [Conversation(number, title, None, NOW, NOW) for number, title in ((2, " "), (1, "A"))]
    assert presenters.chat_list(chats, 1, {2}) == {
        "open": 1,
        "chats": [
            {"id": 2, "title": "New chat", "running": True},
            {"id": 1, "title": "A", "running": False},
        ],
    }


def test_the_status_line_is_the_sentence_of_the_engine_until_it_is_ready() -> None:
    loading = presenters.engine_line(EngineState("loading", "Loading the model …", "m"))
    assert (loading["status"], loading["text"]) == ("loading", "Loading the model …")
    ready = presenters.engine_line(replace(READY, model="/models/tiny-llama"))
    assert (ready["status"], ready["text"]) == ("ready", "tiny-llama · strict mode")
    assert ready["more"] == f"{READY.detail} {READY.mode_reason}"


def test_passages_stand_folded_under_the_numbers_and_none_of_their_signs_is_markup() -> None:
    hostile = "</blockquote></details><img src=x> **b** $$x$$\n\n    code | a |\n`c`"
    given = DocumentPassage(3, "docs/<b>bees</b>.md", "file:///x", 10, 20, hostile)
    other = replace(given, start=30, text="second")
    message = replace(ANSWER, passages=(given, other))
    (shown,) = presenters.chatbot_messages([message])
    answer, below = (block["text"] for block in shown["content"])
    assert answer == "It is."
    line, quoted = below.split("\n\n")
    assert html.unescape(line) == LINE
    assert "\n" not in quoted
    tags = re.findall(r"<[^>]*>", quoted)
    passage = ["<p>", "</p>", "<blockquote>", "</blockquote>"]
    assert tags == ["<details>", "<summary>", "</summary>", *passage, *passage, "</details>"]
    assert not set("*`$|\\") & set(re.sub(r"&#\d+;", "", quoted))
    texts = [html.unescape(text) for text in re.split(r"(?:<[^>]*>)+", quoted) if text]
    assert texts == [
        "Given 2 passages: b>.md",  # what stands behind the last slash
        "[1] docs/<b>bees</b>.md",
        hostile,
        "[2] docs/<b>bees</b>.md",
        "second",
    ]


def test_passages_of_a_running_answer_are_shown_as_soon_as_they_are_known() -> None:
    given = DocumentPassage(3, "bees.md", "file:///x", 10, 20, "Bees drink.")
    (shown,) = presenters.chatbot_messages([ANSWER], snapshot("prefill", passages=(given,)))
    assert "Bees drink." in html.unescape(shown["content"][1]["text"])
