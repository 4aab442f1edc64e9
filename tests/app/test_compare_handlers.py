"""What the tab "Compare" does with the service, and how a comparison is told, without a browser."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app import compare_handlers as handlers_module
from app.compare_handlers import CompareHandlers
from app.compare_presenter import comparison_value
from app.services.comparison import (
    ArmSnapshot,
    ComparisonSnapshot,
    SpeedUp,
    Verdict,
    VerdictKind,
)
from app.services.errors import BusyError
from app.services.jobs import CompareJob
from app.services.views import AnswerNumbers, AnswerOptions
from app.tab_view import TabView
from lookahead.events import GenerationStats
from tests.app.asking import WAIT
from tests.app.scripted_service import LOADING, NUMBERS, READY

HOSTILE = "<script>alert(1)</script> ${7*7} </div>"


class Service:
    """As much of the chat service as the tab uses; the test moves the job."""

    def __init__(self) -> None:
        self.state = READY
        self.jobs: list[CompareJob] = []

    def compare(self, prompt: str, options: AnswerOptions) -> CompareJob:
        if self.jobs and not self.jobs[-1].snapshot().is_over:
            raise BusyError("A comparison is running. Wait for it, or stop it.")
        self.jobs.append(CompareJob(snapshot(prompt), options, lambda job: None))
        return self.jobs[-1]

    def latest_comparison(self) -> CompareJob | None:
        return self.jobs[-1] if self.jobs else None


def snapshot(prompt: str = "Which city?", **changes: Any) -> ComparisonSnapshot:
    return replace(ComparisonSnapshot(0, "queued", prompt, "plain"), **changes)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def handlers(service: Service, monkeypatch: pytest.MonkeyPatch) -> CompareHandlers:
    monkeypatch.setattr(handlers_module, "UPDATE_SECONDS", 0.001)
    return CompareHandlers(service)  # type: ignore[arg-type]


def in_time(watching: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(watching, WAIT))


async def collect(updates: AsyncIterator[Any], number: int = 1000) -> list[Any]:
    collected = []
    async for update in updates:
        collected.append(update)
        if len(collected) == number:
            break
    return collected


def test_run_shows_the_comparison_waiting_and_offers_stop(
    handlers: CompareHandlers, service: Service
) -> None:
    value, run, stop = handlers.run(
        TabView(), "Which city?", 0.5, 100, 7, 3, None, None, 1.2, "END"
    )
    assert service.jobs[0].options == AnswerOptions(
        *(True, 0.5, 100, 7), top_k=3, repetition_penalty=1.2, stop=("END",)
    )
    assert (value["status"], value["prompt"]) == ("queued", "Which city?")
    assert "busy with another answer" in value["line"]
    assert (run["visible"], stop["visible"]) == (False, True)


def test_an_emptied_seed_is_drawn_and_other_emptied_fields_mean_their_defaults(
    handlers: CompareHandlers, service: Service
) -> None:
    handlers.run(TabView(), "x", None, None, None)
    assert service.jobs[0].options == replace(AnswerOptions(), seed=None)


@pytest.mark.parametrize("seed", [-1, 1e300, 0.5, 2**64, "x", "0.5"])
def test_a_seed_out_of_range_is_refused_with_its_range(
    handlers: CompareHandlers, service: Service, seed: float
) -> None:
    told = "Seed must be a whole number from 0 to 18,446,744,073,709,551,615."
    with pytest.warns(UserWarning, match=f"^{told}$"):
        handlers.run(TabView(), "x", 0, 10, seed)
    assert service.jobs == []


def test_a_second_run_meanwhile_is_refused_in_words(
    handlers: CompareHandlers, service: Service
) -> None:
    handlers.run(TabView(), "x", 0, 10, 1)
    with pytest.warns(UserWarning, match="comparison is running"):
        assert len(handlers.run(TabView(), "y", 0, 10, 1)) == 3
    assert len(service.jobs) == 1


def test_watching_shows_each_change_and_always_the_last(
    handlers: CompareHandlers, service: Service
) -> None:
    handlers.run(TabView(), "x", 0, 10, 1)
    (job,) = service.jobs

    async def watch() -> list[Any]:
        updates = handlers.watch(TabView())
        seen = await collect(updates, 1)
        job.show(status="decoding", plain=ArmSnapshot("plain", "decoding", "Par", NUMBERS))
        seen += await collect(updates, 1)
        job.show(status="complete", plain=ArmSnapshot("plain", "complete", "Paris", NUMBERS))
        return seen + await collect(updates)

    seen = in_time(watch())
    assert [value["arms"]["plain"]["text"] for value, _, _ in seen] == ["", "Par", "Paris"]
    assert [run["visible"] for _, run, _ in seen] == [False, False, True]


def test_a_page_that_opens_later_goes_on_with_what_runs_and_shows_what_ended(
    handlers: CompareHandlers, service: Service
) -> None:
    (nothing,) = in_time(collect(handlers.watch(TabView())))
    assert len(nothing) == 3
    handlers.run(TabView(), "x", 0, 10, 1)
    (running,) = in_time(collect(handlers.watch(TabView()), 1))
    assert running[0]["status"] == "queued"
    service.jobs[0].show(status="complete")
    (ended,) = in_time(collect(handlers.watch(TabView())))
    assert (ended[0]["status"], ended[1]["visible"]) == ("complete", True)


def test_out_of_sight_it_is_not_watched_and_back_in_sight_it_goes_on(
    handlers: CompareHandlers, service: Service
) -> None:
    handlers.run(TabView(), "x", 0, 10, 1)
    view = TabView()
    assert in_time(collect(handlers.watch_again(view))) == [(gr.skip(),) * 3]
    view.go_out_of_sight()
    assert len(in_time(collect(handlers.watch(view)))) == 1
    service.jobs[0].show(status="complete")
    (ended,) = in_time(collect(handlers.watch_again(view)))
    assert ended[0]["status"] == "complete"
    assert in_time(collect(handlers.watch_again(view))) == [(gr.skip(),) * 3]


def test_waiting_for_the_model_is_told_apart_from_waiting_for_a_turn(
    handlers: CompareHandlers, service: Service
) -> None:
    service.state = LOADING
    value, _, _ = handlers.run(TabView(), "x", 0, 10, 1)
    assert value["line"] == "Waiting for the model to load …"

    async def watch() -> list[Any]:
        updates = handlers.watch(TabView())
        seen = await collect(updates, 1)
        service.state = READY
        return seen + await collect(updates, 1)

    first, second = in_time(watch())
    assert first[0]["line"] != second[0]["line"]


def test_stop_reaches_the_running_comparison(handlers: CompareHandlers, service: Service) -> None:
    handlers.stop(TabView())
    handlers.run(TabView(), "x", 0, 10, 1)
    handlers.stop(TabView())
    assert service.jobs[0].is_stopped
    assert comparison_value(service.jobs[0].snapshot())["line"] == "Stopping …"
    service.jobs[0].show(status="stopped")
    assert comparison_value(service.jobs[0].snapshot())["line"] == "Stopped."


@pytest.mark.parametrize("status", ["queued", "prefill", "stopped", "failed"])
def test_before_anything_was_measured_there_is_neither_table_nor_note(status: Any) -> None:
    value = comparison_value(snapshot(status=status, error="It broke.", seed=7))
    assert (value["rows"], value["note"]) == ([], "")


def told(kind: VerdictKind, **changes: Any) -> str:
    verdict = replace(Verdict(kind, 214, 214, True, True), **changes)
    value = comparison_value(snapshot(status="complete", verdict=verdict))
    assert value["verdict"]["kind"] == kind.value
    return str(value["verdict"]["text"])


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            told(VerdictKind.IDENTICAL),
            "Identical, bit for bit: 214 tokens and the logits behind each.",
        ),
        (
            told(VerdictKind.IDENTICAL, is_bit_identical=False, is_strict=False),
            "Identical: 214 tokens. The logits behind them differ by rounding, as they may in "
            "flexible mode.",
        ),
        (
            told(VerdictKind.PARTIAL, num_equal=1),
            "As far as both had come, identical, bit for bit: 1 token and the logits behind it.",
        ),
        (
            told(VerdictKind.TIE, num_equal=40, gap=3e-4, noise=0.0021, is_strict=False),
            "Differs at a tie, at token 41: the two best logits lie 0.0003 apart there, and "
            "rounding moves them by up to 0.0021. The 40 tokens before are the same. Flexible mode "
            "promises the same text up to numerical ties.",
        ),
        (
            told(VerdictKind.SAMPLED, num_equal=1, is_strict=False),
            "Differs at token 2. The first token is the same. Flexible mode promises the same text "
            "up to numerical ties; with a temperature above 0 a tie cannot be told from a bug.",
        ),
        (
            told(VerdictKind.BUG, num_equal_logits=9, is_bit_identical=False),
            "214 tokens alike, but from token 10 on the logits behind them differ, which strict "
            "mode rules out. This is a bug: please report it with the prompt.",
        ),
        (
            told(VerdictKind.BUG, num_equal=7, num_equal_logits=8, is_bit_identical=False),
            "Differs at token 8, which strict mode rules out. The 7 tokens before are the same. "
            "This is a bug: please report it with the prompt.",
        ),
        (
            told(VerdictKind.BUG, num_equal=7, gap=0.5, noise=0.002, is_strict=False),
            "Differs at token 8, where the two best logits lie 0.5 apart: more than rounding "
            "explains, which moves them by up to 0.002. The 7 tokens before are the same. "
            "This is a bug: please report it with the prompt.",
        ),
    ],
)
def test_the_verdict_is_one_that_people_understand(sentence: str, expected: str) -> None:
    assert sentence == expected


def test_a_speed_up_is_shown_with_what_was_measured_and_never_otherwise() -> None:
    speed_up = SpeedUp(23, 11.0, 4.0)
    identical = Verdict(VerdictKind.IDENTICAL, 23, 23, True, True)
    value = comparison_value(snapshot(status="complete", verdict=identical, speed_up=speed_up))
    assert value["speed_up"]["value"] == "2.75×"
    assert "for the same 23 tokens: 11.00 s / 4.00 s" in value["speed_up"]["definition"]
    tie = replace(identical, kind=VerdictKind.TIE, gap=0.1, noise=0.2, num_equal=30)
    value = comparison_value(snapshot(status="complete", verdict=tie, speed_up=speed_up))
    assert "for the first 23 tokens, which are the same in both" in value["speed_up"]["definition"]
    assert comparison_value(snapshot(status="decoding"))["speed_up"] is None


def test_the_table_has_a_definition_for_every_number() -> None:
    numbers = replace(NUMBERS, decode_seconds=2.6, num_drafted_tokens=110, num_accepted_tokens=68)
    arms = {
        "plain": ArmSnapshot("plain", "decoding", "Paris", AnswerNumbers(1, 0, 1, 0, 1, 0, 0, 12)),
        "lookahead": ArmSnapshot("lookahead", "complete", "Paris", numbers),
    }
    rows = comparison_value(snapshot(status="decoding", **arms))["rows"]
    assert all(row["definition"].endswith(".") for row in rows)
    table = {row["name"]: (row["plain"], row["lookahead"]) for row in rows}
    assert table["tokens/s"] == ("–", "41.2")
    assert table["decode time"] == ("0.00 s", "2.60 s")
    assert table["acceptance"] == ("–", "62 %, 68 of 110")


def test_a_later_value_goes_on_from_an_earlier_one() -> None:
    pieces = "5 model\n6 history\n3 chat\n"
    short, long = (
        comparison_value(
            snapshot(
                status="decoding",
                lookahead=ArmSnapshot("lookahead", "decoding", text, NUMBERS, pieces[:count]),
            )
        )["arms"]["lookahead"]
        for text, count in (("Hello world", 18), ("Hello world!!!", None))
    )
    assert long["text"].startswith(short["text"])
    assert long["pieces"].startswith(short["pieces"])
    assert long["pieces"] == pieces


@pytest.mark.parametrize("status", ["stopped", "failed"])
def test_after_an_end_before_the_race_nothing_is_said_to_wait(status: Any) -> None:
    arms = comparison_value(snapshot(status=status))["arms"]
    assert {arm["line"] for arm in arms.values()} == {"did not begin"}
    arms = comparison_value(snapshot(status="queued"))["arms"]
    assert {arm["line"] for arm in arms.values()} == {"waiting"}


def test_a_failure_is_told_and_hostile_text_stays_data() -> None:
    arm = ArmSnapshot("plain", "failed", HOSTILE, NUMBERS)
    failed = snapshot(HOSTILE, status="failed", error=f"It broke: {HOSTILE}\udcff", plain=arm)
    value = comparison_value(failed)
    assert value["line"] == f"It broke: {HOSTILE}?"
    assert value["arms"]["plain"]["line"] == "failed"
    assert value["arms"]["plain"]["text"] == value["prompt"] == HOSTILE
    json.dumps(value).encode()


def test_the_tab_is_static_and_its_script_puts_in_text_only() -> None:
    from app.compare_tab import COMPARE_CSS, compare_tab, wire_compare

    with gr.Blocks() as page, gr.Tab() as shown_tab:
        tab = compare_tab()
        view, status = gr.State(), gr.HTML(js_on_load="trigger('enter_tab')")
        service: Any = SimpleNamespace()
        wire_compare(page, CompareHandlers(service), tab, shown_tab, view=view, status=status)
    template, script = tab.result.html_template, tab.result.js_on_load
    assert isinstance(template, str)
    assert isinstance(script, str)
    assert "{" not in template, "a value in a template would be run as code"
    assert not any(name in script for name in ("innerHTML", "insertAdjacentHTML", "outerHTML"))
    assert COMPARE_CSS.is_file()


def test_the_note_says_how_both_were_sampled() -> None:
    numbers = replace(AnswerNumbers.from_stats(GenerationStats()), temperature=0.8, top_p=0.9)
    plain = ArmSnapshot("plain", numbers=numbers)
    snapshot = ComparisonSnapshot(1, "decoding", "x", "plain", seed=7, plain=plain)
    note = comparison_value(snapshot)["note"]
    assert "Both: temperature 0.8, top-p 0.9, seed 7." in note
