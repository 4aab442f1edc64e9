"""What the panel is told and what its events do, without a browser."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app import handlers as handlers_module
from app.document_handlers import DocumentHandlers
from app.handlers import PageHandlers
from app.panel_presenter import PanelPresenter
from app.services.views import AnswerSnapshot
from app.tab_view import TabView
from app.uploads import Uploads
from storage.errors import DatabaseBusyError
from storage.records import Source
from tests.app.scripted_service import LOADING, NOW, READY, AnswerOptions, ScriptedService
from tests.app.scripted_steps import scripted_answer

ANSWER = "The pump is serviced twice a year, in May and in October; the list is short."
OTHER_ANSWER = "Two screws hold the cover plate."


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService(ANSWER, has_steps=True)


@pytest.fixture
def handlers(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> PageHandlers:
    monkeypatch.setattr(handlers_module, "UPDATE_SECONDS", 0.001)
    monkeypatch.setattr(handlers_module, "ENGINE_UPDATE_SECONDS", 0.001)
    return PageHandlers(service)  # type: ignore[arg-type]


@pytest.fixture
def view(service: ScriptedService) -> TabView:
    """A tab in a chat with two finished answers, its panel open."""
    for text in (ANSWER, OTHER_ANSWER):
        job = service.ask(1 if service.chats else None, "Where?", AnswerOptions())
        service.finish(job, text)
    return TabView(conversation_id=1, is_panel_open=True)


def event(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def is_skipped(value: Any) -> bool:
    return bool(value == gr.skip())


def panel_text(panel: dict[str, Any]) -> str:
    """The text that the panel's steps add up to."""
    text = ""
    for line in panel["steps"].splitlines():
        fields = json.loads(line)
        text += fields[1] if fields[0] == "first" else "".join(token[0] for token in fields[-1])
    return text


def test_a_closed_panel_is_told_nothing(
    handlers: PageHandlers, view: TabView, service: ScriptedService
) -> None:
    view.is_panel_open = False
    assert is_skipped(handlers.open_chat(view, event(id=1))[-1])
    job = service.ask(1, "And now?", AnswerOptions())

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        service.finish(job, ANSWER)
        return seen + [update async for update in updates]

    seen = asyncio.run(watch())
    assert [len(update[0]) for update in seen] == [6, 6], "the chat itself is watched"
    assert all(is_skipped(update[-1]) for update in seen)


def test_a_closed_panel_costs_nothing(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def count(name: str) -> None:
        original = getattr(service, name)

        def counted(*args: Any) -> Any:
            calls.append(name)
            return original(*args)

        monkeypatch.setattr(service, name, counted)

    count("saved_answer")
    count("origin_labels")
    monkeypatch.setattr(PanelPresenter, "value", lambda *args: calls.append("value"))
    view.is_panel_open = False
    handlers.open_chat(view, event(id=1))
    job = service.ask(1, "And now?", AnswerOptions())

    async def watch() -> None:
        updates = handlers.watch_answer(view)
        await anext(updates)
        service.finish(job, ANSWER)
        async for _ in updates:
            pass

    asyncio.run(watch())
    assert calls == []
    view.is_panel_open = True
    handlers.open_chat(view, event(id=1))
    assert calls == ["saved_answer", "value"]


def test_a_panel_that_cannot_be_made_does_not_end_the_chat_s_watcher(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise DatabaseBusyError("The database is busy.")

    monkeypatch.setattr(PanelPresenter, "value", fail)
    job = service.ask(1, "And now?", AnswerOptions())

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        service.finish(job, ANSWER)
        return seen + [update async for update in updates]

    first, last = asyncio.run(watch())
    assert is_skipped(first[-1])
    assert is_skipped(last[-1])
    assert ANSWER in str(last[0][-1])
    assert last[2]["visible"], "Send is back"


def test_a_value_for_what_the_panel_showed_before_is_not_sent(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved_answer = service.saved_answer

    def chosen_meanwhile(message_id: int) -> AnswerSnapshot:
        monkeypatch.setattr(service, "saved_answer", saved_answer)
        view.panel_message_id = 2
        return saved_answer(message_id)

    monkeypatch.setattr(service, "saved_answer", chosen_meanwhile)
    assert is_skipped(handlers.open_chat(view, event(id=1))[-1])
    assert handlers.panel.value_now(view)["answer"] == 2


def test_showing_an_answer_reads_the_messages_once(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []
    messages = service.messages
    monkeypatch.setattr(service, "messages", lambda chat: reads.append(chat) or messages(chat))
    handlers.panel.show_answer(view, event(id=2))
    assert reads == [1]


def test_deleting_a_document_tells_the_open_panel_anew(
    handlers: PageHandlers, view: TabView, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.sources = [Source(17, "document", None, "a", "", "", 1, 1, False, NOW)]
    before = handlers.panel.value_now(view)["labels"]
    assert before, "the answer quotes something"
    monkeypatch.setattr(service, "origin_labels", lambda ids: dict.fromkeys(ids, "deleted since"))
    documents = DocumentHandlers(service, handlers.panel, Uploads(Path()))  # type: ignore[arg-type]
    _, panel = documents.delete_document(view, event(id=17))
    assert panel["labels"] == dict.fromkeys(before, "deleted since")


def test_when_the_model_is_loaded_the_panel_of_an_old_chat_is_told_anew(
    handlers: PageHandlers, view: TabView, service: ScriptedService
) -> None:
    """Texts of tokens that were not recorded can be told then."""
    service.state = LOADING

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        service.state = READY
        return seen + [update async for update in updates]

    _, renewed = asyncio.run(watch())
    assert renewed[-1]["answer"] == 4


def test_an_old_chat_shows_its_last_answer_at_once(handlers: PageHandlers, view: TabView) -> None:
    panel = handlers.open_chat(view, event(id=1))[-1]
    assert (panel["answer"], panel["status"]) == (4, "complete")
    assert panel_text(panel) == OTHER_ANSWER
    assert [answer["id"] for answer in panel["answers"]] == [2, 4]


def test_opening_the_panel_shows_what_is_there_and_closing_it_is_remembered(
    handlers: PageHandlers, view: TabView
) -> None:
    view.is_panel_open = False
    assert handlers.panel.toggle_panel(view, event(open=True))["answer"] == 4
    assert view.is_panel_open
    assert is_skipped(handlers.panel.toggle_panel(view, event(open=False)))
    assert not view.is_panel_open


def test_a_page_that_still_loads_gets_the_panel_with_its_chat_and_no_empty_one_before(
    handlers: PageHandlers, service: ScriptedService, view: TabView
) -> None:
    """The empty one might come last, and stay."""
    loading = TabView()
    assert is_skipped(handlers.panel.toggle_panel(loading, event(open=True)))
    assert loading.is_panel_open
    assert handlers.show_chat(loading, view.conversation_id)[-1]["answer"] == 4


def test_a_new_chat_empties_the_panel(handlers: PageHandlers, view: TabView) -> None:
    panel = handlers.new_chat(view)[-1]
    assert (panel["answer"], panel["steps"], panel["answers"]) == (None, "", [])


def test_a_running_answer_grows_in_the_panel_by_its_end_only(
    handlers: PageHandlers, view: TabView, service: ScriptedService
) -> None:
    job = service.ask(1, "And now?", AnswerOptions())
    answer = scripted_answer(ANSWER)

    def show(num_steps: int) -> None:
        text = answer.first + "".join("".join(texts) for texts in answer.texts[:num_steps])
        numbers = service.numbers_of(ANSWER, num_steps)
        steps = tuple(answer.steps[:num_steps])
        job.show(status="decoding", text=text, numbers=numbers, steps=steps)

    async def watch() -> list[Any]:
        show(1)
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        show(2)
        seen.append(await anext(updates))
        service.finish(job, ANSWER)
        return seen + [update async for update in updates]

    updates = asyncio.run(watch())
    panels = [update[-1] for update in updates]
    assert [panel["status"] for panel in panels] == ["decoding", "decoding", "complete"]
    for earlier, later in pairwise(panels):
        assert later["steps"].startswith(earlier["steps"])
        assert len(later["steps"]) > len(earlier["steps"])
    assert panel_text(panels[-1]) == ANSWER


def test_a_long_answer_is_told_less_often_but_to_its_end(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The browser renders all of it with each update."""
    monkeypatch.setattr(handlers_module, "UPDATE_SECONDS_PER_CHARACTER", 1e6)
    job = service.ask(1, "And now?", AnswerOptions())

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]  # nothing is written yet: told at once
        job.show(status="decoding", text="Never told")
        rest = asyncio.ensure_future(anext(updates))
        await asyncio.sleep(0.05)
        assert not rest.done()
        service.finish(job, ANSWER)
        return [*seen, await rest]

    assert panel_text(asyncio.run(watch())[-1][-1]) == ANSWER


def test_an_earlier_answer_stays_while_another_one_is_written(
    handlers: PageHandlers, view: TabView, service: ScriptedService
) -> None:
    job = service.ask(1, "And now?", AnswerOptions())
    assert handlers.panel.show_answer(view, event(id=2))["answer"] == 2

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        service.finish(job, ANSWER)
        return seen + [update async for update in updates]

    first, last = asyncio.run(watch())
    assert is_skipped(first[-1])
    assert last[-1]["answer"] == 2
    assert [answer["id"] for answer in last[-1]["answers"]] == [2, 4, 6]


def test_the_latest_answer_is_followed_again(
    handlers: PageHandlers, view: TabView, service: ScriptedService
) -> None:
    handlers.panel.show_answer(view, event(id=2))
    handlers.panel.show_answer(view, event(id=4))
    assert view.panel_message_id is None
    handlers.panel.show_answer(view, event(id=2))
    handlers.ask(view, "And now?", True, 0.0, 64)
    assert view.panel_message_id is None


@pytest.mark.parametrize(
    "data",
    [{}, {"id": "2"}, {"id": True}, {"id": 2.0}, {"id": -2}, {"id": 10**30}, {"id": 1}, {"id": 99}],
)
def test_an_answer_that_is_not_in_the_chat_is_refused(
    handlers: PageHandlers, view: TabView, data: dict[str, Any]
) -> None:
    with pytest.warns(UserWarning, match=r"unexpected|not in this chat"):
        assert is_skipped(handlers.panel.show_answer(view, event(**data)))
    assert view.panel_message_id is None


@pytest.mark.parametrize("data", [{}, {"open": 1}, {"open": "true"}, {"open": None}])
def test_only_a_yes_or_a_no_opens_the_panel(
    handlers: PageHandlers, view: TabView, data: dict[str, Any]
) -> None:
    view.is_panel_open = False
    with pytest.warns(UserWarning, match="unexpected"):
        assert is_skipped(handlers.panel.toggle_panel(view, event(**data)))
    assert not view.is_panel_open


def test_the_details_of_a_step_are_told(handlers: PageHandlers, view: TabView) -> None:
    told = handlers.panel.step_details({"answer": 2, "step": 1})
    assert (told["answer"], told["step"]) == (2, 1)
    assert told["bonus"] == scripted_answer(ANSWER).texts[1][-1]
    assert told["nodes"][0]["parent"] == -1


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (None, "unexpected"),
        ([2, 1], "unexpected"),
        ({"answer": 2}, "unexpected"),
        ({"answer": "2", "step": 1}, "unexpected"),
        ({"answer": 2, "step": True}, "unexpected"),
        ({"answer": 2, "step": 10**30}, "unexpected"),
        ({"answer": 2, "step": -1}, "no step"),
        ({"answer": 2, "step": 10**6}, "no step"),
        ({"answer": 99, "step": 0}, "no message"),
    ],
)
def test_a_step_that_is_not_there_is_said_not_to_be(
    handlers: PageHandlers, view: TabView, payload: Any, said: str
) -> None:
    assert said in handlers.panel.step_details(payload)["error"]


def test_what_goes_wrong_inside_is_hidden_from_the_page(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("secret /home/me")

    monkeypatch.setattr(service, "step_details", fail)
    told = handlers.panel.step_details({"answer": 2, "step": 0})
    assert told == {"error": "Something went wrong inside the app; the log has the details."}


def test_a_late_opening_does_not_show_the_chat_that_was_left(
    handlers: PageHandlers,
    view: TabView,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = service.messages

    def moved_meanwhile(conversation_id: int) -> Any:
        view.move(None)
        return messages(conversation_id)

    monkeypatch.setattr(service, "messages", moved_meanwhile)
    assert is_skipped(handlers.panel.toggle_panel(view, event(open=True)))
