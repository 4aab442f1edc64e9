"""How a tab follows the demo from answer to answer, on a chat service with a scripted engine."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app import demo_handlers as demo_handlers_module
from app import handlers as handlers_module
from app.demo import CHATS
from app.demo_handlers import DemoHandlers
from app.handlers import PageHandlers
from app.services import ChatService
from app.services.demonstrating import DemoJob, DemoSnapshot
from app.tab_view import TabView
from tests.app.asking import WAIT, Start, answered, wait_for
from tests.app.scripted_engine import ScriptedEngine

QUESTIONS = [question.text for chat in CHATS for question in chat.questions]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers_module, "UPDATE_SECONDS", 0.001)
    monkeypatch.setattr(demo_handlers_module, "UPDATE_SECONDS", 0.001)


def handlers_of(service: ChatService) -> DemoHandlers:
    return DemoHandlers(service, PageHandlers(service))


def in_time(watching: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(watching, WAIT))


async def collect(updates: AsyncIterator[Any]) -> list[Any]:
    return [update async for update in updates]


async def first(updates: AsyncIterator[Any]) -> Any:
    return await anext(updates)


def start_in(handlers: DemoHandlers, view: TabView) -> DemoJob:
    handlers.start(view)
    demo = handlers._service.running_demo()
    assert demo is not None
    return demo


def gated() -> ScriptedEngine:
    return ScriptedEngine(gate=threading.Semaphore(0))


def test_the_tab_follows_to_the_end_of_the_last_chat(start: Start) -> None:
    engine = gated()
    service = start(engine)
    handlers, view = handlers_of(service), TabView()
    demo = start_in(handlers, view)
    wait_for(lambda: demo.snapshot().num_asked == 1)
    chatbot, chats, send, stop, _ = in_time(first(handlers.watch(view)))
    assert len(chatbot) == 2
    assert chats["open"] == view.conversation_id == chats["chats"][0]["id"]
    assert (send["visible"], stop["visible"]) == (False, True)
    began_in = view.conversation_id
    engine.go_on(999)
    seen = in_time(collect(handlers.watch(view)))
    chatbot, chats, send, stop, _ = seen[-1]
    assert len(chatbot) == 2 * len(CHATS[-1].questions)
    assert [chat["title"] for chat in chats["chats"]] == [chat.title for chat in CHATS[::-1]]
    assert (send["visible"], stop["visible"]) == (True, False)
    assert view.conversation_id != began_in
    assert service.running_demo() is None


def test_a_reload_goes_on_following(start: Start) -> None:
    engine = gated()
    service = start(engine)
    handlers = handlers_of(service)
    demo = start_in(handlers, TabView())
    reloaded = TabView()
    wait_for(lambda: demo.snapshot().num_asked == 1)
    address = SimpleNamespace(query_params={"chat": str(demo.snapshot().conversation_id)})
    PageHandlers(service).open_page(reloaded, address)  # type: ignore[arg-type]
    engine.go_on(999)
    in_time(collect(handlers.watch(reloaded)))
    assert reloaded.conversation_id == demo.snapshot().conversation_id
    assert demo.snapshot().num_asked == len(QUESTIONS)


def test_a_reload_while_it_is_prepared_goes_on_following(start: Start) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    handlers, reloaded, new = handlers_of(service), TabView(), TabView()
    view = TabView()
    start_in(handlers, view)
    preparing = in_time(first(handlers.watch(view)))
    for tab, query in ((reloaded, {"chat": preparing[1]["open"]}), (new, {})):
        address = SimpleNamespace(query_params=query)
        PageHandlers(service).open_page(tab, address)  # type: ignore[arg-type]
    assert (reloaded.follows_demo, new.follows_demo) == (True, False)
    assert in_time(first(handlers.watch(reloaded))) == preparing
    engine.loading.set()  # type: ignore[union-attr]
    in_time(collect(handlers.watch(reloaded)))
    assert reloaded.conversation_id is not None


def test_out_of_sight_an_answer_is_not_watched_and_back_in_sight_it_is(start: Start) -> None:
    engine = gated()
    service = start(engine)
    handlers, view = handlers_of(service), TabView()
    PageHandlers(service).ask(view, "Where?", True, 0.0, 64)
    view.go_out_of_sight()
    (hidden,) = in_time(collect(handlers.watch(view)))
    assert (hidden[2]["visible"], hidden[3]["visible"]) == (False, True)
    engine.gate.release(999)  # type: ignore[union-attr]
    *_, last = in_time(collect(handlers.watch_again(view)))
    assert (last[2]["visible"], last[3]["visible"]) == (True, False)
    (nothing,) = in_time(collect(handlers.watch_again(view)))
    assert nothing == (gr.skip(),) * 5


def test_a_tab_that_only_opened_its_chat_is_not_carried_off(start: Start) -> None:
    engine = gated()
    service = start(engine)
    handlers, other = handlers_of(service), TabView()
    demo = start_in(handlers, TabView())
    wait_for(lambda: demo.snapshot().num_asked == 1)
    chat = demo.snapshot().conversation_id
    PageHandlers(service).open_chat(other, gr.EventData(None, {"id": chat}))
    engine.go_on(999)
    in_time(collect(handlers.watch(other)))
    demo.wait_until_over(WAIT)
    assert other.conversation_id == chat != demo.snapshot().conversation_id


def test_an_answer_whose_step_is_looked_at_stays_while_the_demo_goes_on(start: Start) -> None:
    """The panel was pulled to each next answer, away from what was being explained."""
    engine = gated()
    service = start(engine)
    page = PageHandlers(service)
    handlers, view = DemoHandlers(service, page), TabView(is_panel_open=True)
    demo = start_in(handlers, view)
    wait_for(lambda: demo.snapshot().num_asked == 1)
    in_time(first(handlers.watch(view)))
    (_, answer) = service.messages(demo.snapshot().conversation_id or 0)
    page.panel.hold_answer(view, gr.EventData(None, {"id": answer.id}))
    engine.go_on(999)
    seen = in_time(collect(handlers.watch(view)))
    panels = [update[-1] for update in seen if update[-1] != gr.skip()]
    assert {panel["answer"] for panel in panels} == {answer.id}
    assert any(panel["running"] not in (None, answer.id) for panel in panels)
    assert panels[-1]["running"] is None
    assert [point["id"] for point in panels[-1]["answers"]] == [answer.id], "of its own chat"
    # let go, the panel is with the open chat again
    panel = page.panel.show_answer(view, gr.EventData(None, {"id": answer.id}))
    assert panel["answer"] == service.messages(view.conversation_id or 0)[-1].id
    assert view.panel_message_id is None


def test_a_tab_that_is_moved_elsewhere_stays_there(start: Start) -> None:
    engine = gated()
    service = start(engine)
    handlers, view = handlers_of(service), TabView()
    handlers.start(view)

    async def move_away() -> None:
        watching = handlers.watch(view)
        await anext(watching)
        PageHandlers(service).new_chat(view)
        engine.go_on(999)
        async for _ in watching:
            pass

    in_time(move_away())
    assert view.conversation_id is None


def test_events_close_together_do_not_leave_the_tab_behind(start: Start) -> None:
    """Each of two followers took the other for a person who moves the tab, and both ended."""
    engine = gated()
    service = start(engine)
    handlers, view = handlers_of(service), TabView()
    handlers.start(view)

    async def watch_twice() -> None:
        first, second = handlers.watch(view), handlers.watch(view)
        await asyncio.gather(anext(first), anext(second))
        engine.go_on(999)
        await asyncio.gather(collect(first), collect(second))

    in_time(watch_twice())
    assert view.conversation_id == service.conversations()[0].id
    assert len(service.messages(view.conversation_id)) == 2 * len(CHATS[-1].questions)


def test_a_tab_that_is_moved_just_before_it_would_follow_stays_where_it_is(start: Start) -> None:
    engine = gated()
    service = start(engine)
    handlers, view = handlers_of(service), TabView()
    demo = start_in(handlers, view)
    wait_for(lambda: demo.snapshot().num_asked == 1)
    snapshot = demo.snapshot

    def moved_meanwhile() -> DemoSnapshot:
        demo.snapshot = snapshot  # type: ignore[method-assign]
        view.move(None)
        return snapshot()

    following = handlers._follow(view, demo)
    demo.snapshot = moved_meanwhile  # type: ignore[method-assign]
    assert in_time(collect(following)) == []
    assert view.conversation_id is None
    engine.go_on(999)
    demo.wait_until_over(WAIT)


def test_while_it_is_prepared_that_is_shown_and_stop_ends_it(start: Start) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    handlers, view = handlers_of(service), TabView()
    demo = start_in(handlers, view)

    async def stop_it() -> list[Any]:
        watching = handlers.watch(view)
        seen = [await anext(watching)]
        other = TabView()
        PageHandlers(service).stop(other)
        assert not demo.is_stopped, "another tab's Stop is its own"
        PageHandlers(service).stop(view)
        assert demo.snapshot().is_stopping
        return seen + [outputs async for outputs in watching]

    preparing, *_, last = in_time(stop_it())
    (message,) = preparing[0]
    assert "waiting for the model to load" in str(message["content"])
    assert (preparing[2]["visible"], preparing[3]["visible"]) == (False, True)
    assert (last[0], last[2]["visible"], last[3]["visible"]) == ([], True, False)
    assert demo.snapshot().status == "stopped"
    engine.loading.set()  # type: ignore[union-attr]


def test_another_chat_is_watched_as_ever_while_the_demo_goes_on(start: Start) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    own = answered(service, "mine")
    engine.gate = threading.Semaphore(0)
    handlers, view = handlers_of(service), TabView()
    demo = service.start_demo()
    wait_for(lambda: len(engine.requests) == 2)
    PageHandlers(service).show_chat(view, own)
    (last,) = in_time(collect(handlers.watch(view)))
    assert len(last[0]) == 2
    assert view.conversation_id == own
    engine.go_on(999)
    demo.wait_until_over(WAIT)


def test_a_demo_that_fails_is_told(start: Start) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0), error_after_steps=2)
    handlers, view = handlers_of(start(engine)), TabView()
    handlers.start(view)
    engine.go_on(999)
    with pytest.warns(UserWarning, match="demo ended early.*RuntimeError"):
        in_time(collect(handlers.watch(view)))


def test_a_demo_that_cannot_begin_leaves_the_page_as_it_is(start: Start) -> None:
    service = start(ScriptedEngine())
    service.close()
    view = TabView()
    with (
        pytest.warns(UserWarning, match="program is closing"),
        pytest.raises(gr.Error, match="program is closing"),
    ):
        handlers_of(service).start(view)
    assert view.conversation_id is None
