"""The panel's value: plain data whatever the text, honest numbers, and work once for each step."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import panel
from app.panel_presenter import PanelPresenter, step_details_value
from app.plain_text import displayable
from app.services.step_views import NodeView, PassageView, StepDetails
from app.services.views import AnswerNumbers, AnswerSnapshot, ChatMessage
from lookahead.config import DecodingConfig
from storage.records import DraftRecord, StepRecord
from tests.app.panel_values import panel_value

HOSTILE = '<script>${7*7}</textarea>\ud800\x00\x1b[31m\u202eabc\u2028\u2029\x85"\\\r\n\u200d🎉'
SOURCES = ("prompt", "output", "history", "document", "recycled")
NUMBERS = AnswerNumbers(
    num_tokens=20,
    num_steps=8,
    num_forwards=9,
    tokens_per_second=38.04,
    tokens_per_step=2.375,
    acceptance_rate=0.6,
    reused_length=30,
    prefilled_length=12,
    num_drafted_tokens=18,
    num_accepted_tokens=11,
    accepted_by_source={"prompt": 2, "output": 3, "history": 1, "document": 4, "recycled": 1},
    prefill_seconds=0.25,
    decode_seconds=0.5,
    draft_seconds=0.0125,
)


def step(index: int, lengths: tuple[int, ...]) -> StepRecord:
    """A step whose tokens but the last came from each source in turn."""
    num_accepted = len(lengths) - 1
    sources = [SOURCES[(index + node) % len(SOURCES)] for node in range(num_accepted)]
    origins = {"prompt": 3, "output": 20, "history": (5, 7), "document": (17, 9), "recycled": None}
    return StepRecord(
        index=index,
        width=num_accepted + 1,
        rows=16,
        accepted_length=num_accepted,
        match_length=4,
        token_ids=tuple(range(len(lengths))),
        accepted_nodes=tuple(range(1, num_accepted + 1)),
        draft=DraftRecord(
            token_ids=tuple(range(num_accepted + 1)),
            parents=tuple(range(-1, num_accepted)),
            sources=("model", *sources),
            probabilities=(1.0,) * (num_accepted + 1),
            origins=(None, *(origins[source] for source in sources)),
        ),
        seconds=0.0512,
        draft_seconds=0.0003,
        text_lengths=lengths,
    )


def snapshot(text: str, steps: tuple[StepRecord, ...] = (), **changes: Any) -> AnswerSnapshot:
    return replace(
        AnswerSnapshot(1, 1, 12, "complete", text=text, numbers=NUMBERS, steps=steps), **changes
    )


def labels(sequence_ids: Collection[int]) -> dict[int, str]:
    return {sequence_id: f"<b>{sequence_id}</b>\udcff" for sequence_id in sequence_ids}


def lines(value: dict[str, Any]) -> list[Any]:
    return [json.loads(line) for line in value["steps"].split("\n")[:-1]]


def joined(found: list[Any]) -> str:
    return "".join([found[0][1], *(token[0] for line in found[1:] for token in line[6])])


@example(lengths=[[2, 0, 3], [4], [1] * 15], first=5, characters=HOSTILE * 5)
@given(
    lengths=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=8),
    first=st.integers(0, 3),
    characters=st.text(
        st.one_of(st.sampled_from(HOSTILE), st.characters(categories=["Cs", "Lo", "Mn", "Cc"])),
        min_size=150,
        max_size=150,
    ),
)
def test_the_texts_of_all_lines_are_the_answer_whatever_it_says(
    lengths: list[list[int]], first: int, characters: str
) -> None:
    steps = tuple(step(index, tuple(each)) for index, each in enumerate(lengths))
    text = characters[: first + sum(map(sum, lengths))]
    value = panel_value([], snapshot(text, steps), labels)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    found = lines(value)
    assert joined(found) == displayable(text)
    assert [line[0] for line in found[1:]] == [len(each) - 1 for each in lengths]


def test_a_line_tells_what_was_accepted_and_from_where() -> None:
    value = panel_value([], snapshot("abcdefg", (step(0, (1,) * 6),)), labels)
    assert lines(value) == [
        ["first", "a", 30, 12, 250.0],
        [
            *(5, 4, 6, 16, 51.2, 0.3),
            [
                ["b", "chat", 1.0, 40],  # the token stands at 30 + 12 + 1, and was found at 3
                ["c", "chat", 1.0, 24],
                ["d", "history", 1.0, [5, 7]],
                ["e", "document", 1.0, [17, 9]],
                ["f", "recycled", 1.0, None],
                ["g", "model"],
            ],
        ],
    ]
    assert value["labels"] == {"5": "<b>5</b>?", "17": "<b>17</b>?"}
    assert value["max_length"] == DecodingConfig().max_draft_depth


def test_a_line_tells_that_drafting_was_paused() -> None:
    paused = replace(step(0, (1,)), paused=True)
    assert [line[7:] for line in lines(panel_value([], snapshot("ab", (paused,)), labels))] == [
        [],
        [True],
    ]


def test_accepted_tokens_that_the_end_cut_off_are_counted_and_not_shown() -> None:
    cut = replace(step(0, (1,) * 6), token_ids=(0, 1), text_lengths=(1, 1))
    found = lines(panel_value([], snapshot("abc", (cut,)), labels))
    assert found[1][0] == 5
    assert [token[:2] for token in found[1][6]] == [["b", "chat"], ["c", "chat"]]


def test_each_step_is_looked_at_once() -> None:
    steps = tuple(step(index, (1,) * 6) for index in range(6))
    text = "x" * 37
    presenter = PanelPresenter(labels)
    shown = ""
    for number in range(7):
        # What was shown before is not there any more: looking at it again would fail.
        seen: Any = (None,) * max(0, number - 1)
        running = snapshot(
            text[: 1 + 6 * number],
            (*seen, *steps[max(0, number - 1) : number]),
            status="decoding",
            version=number,
        )
        steps_shown = presenter.value([], running)["steps"]
        assert steps_shown.startswith(shown)
        shown = steps_shown
    assert shown == panel_value([], snapshot(text, steps), labels)["steps"]


def test_a_name_that_is_no_more_is_not_kept() -> None:
    names = {5: "Mine", 17: "secret.md"}
    presenter = PanelPresenter(lambda ids: {key: names[key] for key in ids})
    running = snapshot("abcdefg", (step(0, (1,) * 6),), status="decoding")
    assert presenter.value([], running)["labels"] == {"5": "Mine", "17": "secret.md"}
    names[17] = "deleted since"
    assert presenter.value([], running)["labels"] == {"5": "Mine", "17": "deleted since"}


def test_an_answer_whose_tokens_have_no_known_texts_is_told_in_one_piece() -> None:
    old = replace(step(0, (1,) * 6), text_lengths=())
    value = panel_value([], snapshot("abcdefg", (old,)), labels)
    assert value["unsplit"] == "abcdefg"
    found = lines(value)
    assert joined(found) == ""
    assert len(found[1][6]) == 6
    assert panel_value([], snapshot("abcdefg", (step(0, (1,) * 6),)), labels)["unsplit"] == ""


def test_without_numbers_nothing_is_counted_and_nothing_claimed() -> None:
    value = panel_value(
        [ChatMessage(12, 1, "assistant", "abcdefg", "failed")],
        snapshot("abcdefg", (step(0, (1,) * 6),), numbers=None),
        labels,
    )
    assert set(value["legend"].values()) == {0}
    (answer,) = value["answers"]
    assert (answer["tokens_per_step"], answer["tokens_per_second"]) == (None, None)
    assert (value["numbers"], value["summary"]) == ([], "")


def test_the_version_grows_with_the_snapshot() -> None:
    assert panel_value([], snapshot("a", version=7), labels)["version"] == 7
    assert panel_value([], None, labels)["version"] == 0


def test_a_step_waits_while_its_last_token_may_turn_out_to_be_half_a_character() -> None:
    presenter = PanelPresenter(labels)
    open_step = step(0, (1, 0))
    running = presenter.value([], snapshot("ab", (open_step,), status="decoding"))
    assert len(lines(running)) == 1
    ended = snapshot("ab\ufffd", (replace(open_step, text_lengths=(1, 1)),))
    over = presenter.value([], ended)
    assert over["steps"].startswith(running["steps"])
    assert joined(lines(over)) == "ab\ufffd"


def test_another_answer_begins_from_the_start() -> None:
    presenter = PanelPresenter(labels)
    presenter.value([], snapshot("abc", (step(0, (1, 1)),), status="decoding"))
    other = snapshot("xyz", (step(0, (1, 1)),), message_id=14, status="decoding")
    assert joined(lines(presenter.value([], other))) == "xyz"
    assert presenter.value([], None)["steps"] == ""
    assert joined(lines(presenter.value([], other))) == "xyz"


def test_legend_and_summary_count_what_was_counted() -> None:
    value = panel_value([], snapshot("abcdefg", (step(0, (1,) * 6),)), labels)
    assert value["legend"] == {
        "chat": 5,
        "history": 1,
        "document": 4,
        "recycled": 1,
        "model": 2,
    }
    assert value["summary"] == "11 fewer forward passes than one a token"


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({"num_steps": 18}, "1 fewer forward pass than one a token"),
        ({"num_steps": 19}, "No fewer forward passes than one a token"),
        ({"num_steps": 19, "num_end_tokens": 1}, "1 fewer forward pass than one a token"),
        ({"num_tokens": 0, "num_steps": 0}, "No fewer forward passes than one a token"),
    ],
)
def test_the_summary_claims_no_pass_that_was_not_saved(
    changes: dict[str, int], summary: str
) -> None:
    numbers = replace(NUMBERS, **changes)
    assert panel_value([], snapshot("a", numbers=numbers), labels)["summary"] == summary


def test_every_number_says_what_it_is_in_one_sentence() -> None:
    numbers = panel_value([], snapshot("a"), labels)["numbers"]
    assert [number["value"] for number in numbers] == [
        "38.0",
        "250 ms",
        "9",
        "2.38",
        "60 %",
        "30 / 12",
        "2.5 %",
        "greedy",
    ]
    for number in numbers:
        assert number["definition"].endswith(".")
        assert number["definition"].count(". ") == 0, number


def test_what_is_in_words_gets_a_line_by_what_it_is_and_not_by_its_place() -> None:
    """The stylesheet counted to the eighth number: another one would have put it elsewhere."""
    numbers = panel_value([], snapshot("a"), labels)["numbers"]
    assert [number["name"] for number in numbers if number["is_words"]] == ["sampling"]
    static = Path(panel.__file__).parent / "static"
    assert "nth-child" not in (static / "panel.css").read_text(encoding="utf-8")


def test_the_way_to_other_answers_names_their_questions() -> None:
    messages = [
        ChatMessage(11, 1, "user", "What\n is \ud800 it? " + "long " * 40, "complete"),
        ChatMessage(12, 1, "assistant", "a", "complete", NUMBERS),
        ChatMessage(13, 1, "user", "And?", "complete"),
        ChatMessage(14, 1, "assistant", "", "streaming"),
    ]
    running = snapshot("a", message_id=14, status="decoding")
    first, second = panel_value(messages, running, labels)["answers"]
    assert first["label"].startswith("What is ? it? long")
    assert first["label"].endswith("…")
    assert len(first["label"]) <= 60
    assert second == {
        "id": 14,
        "label": "And?",
        "note": "",
        "tokens_per_step": 2.38,
        "tokens_per_second": 38.0,
    }
    assert panel_value(messages, None, labels)["answer"] is None


def test_a_running_answer_is_told_while_an_earlier_one_is_shown() -> None:
    """Its point said "0.0 tokens per step", and nothing that an answer was being written."""
    messages = [
        ChatMessage(11, 1, "user", "One?", "complete"),
        ChatMessage(12, 1, "assistant", "a", "complete", NUMBERS),
        ChatMessage(13, 1, "user", "Two?", "complete"),
        ChatMessage(14, 1, "assistant", "", "streaming", NUMBERS),
    ]
    running = snapshot("b", message_id=14, status="decoding")
    value = PanelPresenter(labels).value(messages, snapshot("a"), running)
    assert (value["answer"], value["running"]) == (12, 14)
    assert [answer["note"] for answer in value["answers"]] == ["", "being written"]
    assert value["answers"][1]["tokens_per_step"] is None
    ended = PanelPresenter(labels).value(messages, snapshot("a"), replace(running, status="failed"))
    assert ended["running"] is None


def test_an_answer_of_one_token_claims_no_rate() -> None:
    numbers = AnswerNumbers(1, 0, 1, 0.0, 1.0, 0.0, 0, 12)
    message = ChatMessage(12, 1, "assistant", "a", "complete", numbers)
    value = panel_value([message], snapshot("a", numbers=numbers), labels)
    shown = {entry["name"]: entry["value"] for entry in value["numbers"]}
    for name in ("tokens/s", "tokens per step", "acceptance", "drafting"):
        assert shown[name] == "–"
    told = {entry["name"]: entry["definition"] for entry in value["numbers"]}
    assert all("–" in told[name] for name in ("tokens/s", "tokens per step", "acceptance"))
    (point,) = value["answers"]
    assert (point["tokens_per_step"], point["tokens_per_second"]) == (None, None)
    assert point["note"] == "one token, without a decode step"


def test_an_answer_that_is_asked_to_stop_says_so_until_it_has() -> None:
    stopping = snapshot("a", status="prefill", is_stopping=True)
    assert panel_value([], stopping, labels)["status"] == "stopping"
    assert panel_value([], replace(stopping, status="stopped"), labels)["status"] == "stopped"


@pytest.mark.parametrize("status", ["queued", "prefill"])
def test_nothing_is_shown_before_the_first_token(status: Any) -> None:
    value = panel_value([], AnswerSnapshot(0, 1, 12, status), labels)
    assert (value["status"], value["steps"], value["numbers"]) == (status, "", [])


def test_details_are_plain_data_whatever_they_say() -> None:
    origin = PassageView(
        *(17, 9, 2, "document", HOSTILE, HOSTILE),
        message=HOSTILE,
        before=HOSTILE,
        run=HOSTILE,
        after=HOSTILE,
        character_start=4,
        character_end=9,
    )
    node = NodeView(HOSTILE, -1, "output", 0.12345, False, (17, 9))
    details = StepDetails(*(12, 0, 4, 16, 1, 2, 0.05, 0.001, HOSTILE, (node,), (origin,)))
    value = step_details_value(details)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    assert value["nodes"] == [
        {
            "text": displayable(HOSTILE),
            "parent": -1,
            "source": "chat",
            "probability": 0.123,
            "accepted": False,
            "origin": [17, 9],
        }
    ]
    assert value["passages"][0]["run"] == value["bonus"] == displayable(HOSTILE)
    assert [value["passages"][0][key] for key in ("sequence", "start", "end")] == [17, 4, 9]
