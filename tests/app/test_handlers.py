"""What the page's events do with the service, without a browser."""

import asyncio
import html
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from app import handlers as handlers_module
from app.handlers import PageHandlers, answer_options
from app.page_errors import RefusedInputError
from app.services.views import AnswerOptions
from app.tab_view import TabView
from storage.errors import DatabaseFullError
from storage.records import Source
from tests.app.scripted_service import LOADING, NOW, NUMBERS, READY, ScriptedService


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def handlers(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> PageHandlers:
    monkeypatch.setattr(handlers_module, "UPDATE_SECONDS", 0.001)
    monkeypatch.setattr(handlers_module, "ENGINE_UPDATE_SECONDS", 0.001)
    monkeypatch.setattr(handlers_module, "SETTLED_UPDATE_SECONDS", 0.001)
    return PageHandlers(service)  # type: ignore[arg-type]


def event(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def page(**query: str) -> Any:
    return SimpleNamespace(query_params=query)


def texts(chatbot: list[dict[str, Any]]) -> list[str]:
    shown = []
    for message in chatbot:
        content = message["content"]
        shown.append(html.unescape(content if isinstance(content, str) else content[0]["text"]))
    return shown


def document(source_id: int, name: str) -> Source:
    return Source(source_id, "document", None, name, f"file:///{name}", "0", 10, 1, False, NOW)


def ask(handlers: PageHandlers, text: str, view: TabView | None = None) -> TabView:
    """The tab in which the question was asked."""
    view = view or TabView()
    handlers.ask(view, text, True, 0.0, 64)
    return view


async def collect(updates: AsyncIterator[Any], number: int = 1000) -> list[Any]:
    collected = []
    async for update in updates:
        collected.append(update)
        if len(collected) == number:
            break
    return collected


def is_skipped(value: Any) -> bool:
    return bool(value == gr.skip())


def test_a_question_empties_the_box_and_shows_itself_waiting(handlers: PageHandlers) -> None:
    view = TabView()
    box, chatbot, chats, send, stop, _ = handlers.ask(view, "Where?", True, 0.0, 64)
    assert box == ""
    assert texts(chatbot)[0] == "Where?"
    assert chats["open"] == view.conversation_id
    assert chats["chats"] == [{"id": view.conversation_id, "title": "Where?", "running": True}]
    assert (send["visible"], stop["visible"]) == (False, True)


def test_an_empty_question_is_refused_in_words(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    with pytest.warns(UserWarning, match="message is empty"):
        assert ask(handlers, " \n ").conversation_id is None
    assert not service.jobs


def test_a_second_question_meanwhile_is_refused_and_kept(handlers: PageHandlers) -> None:
    view = ask(handlers, "Where?")
    with pytest.warns(UserWarning, match="still being answered"):
        outputs = handlers.ask(view, "And when?", True, 0.0, 64)
    assert len(outputs) == 6
    assert all(is_skipped(value) for value in outputs)


def test_a_chat_deleted_in_another_tab_gives_way_to_a_new_one(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    """The tab was left in the chat that was no more, and every Send failed."""
    view = ask(handlers, "Where?")
    service.finish(service.jobs[0], "Paris.")
    assert view.conversation_id is not None
    service.delete_conversation(view.conversation_id)
    with pytest.warns(UserWarning, match="deleted"):
        box, chatbot, chats, send, *_ = handlers.ask(view, "And when?", True, 0.0, 64)
    assert is_skipped(box)
    assert (view.conversation_id, chats["open"], chatbot, send["visible"]) == (None, None, [], True)
    assert ask(handlers, "And when?", view).conversation_id is not None


def test_the_options_of_the_page_reach_the_answer(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    typed = (False, 9, 40, 0.9, 0.05, 1.1, "###\n\\n\\nQ:\n\n###")
    handlers.ask(TabView(), "Where?", False, 0.7, 12, *typed)
    assert service.jobs[0].options == AnswerOptions(
        *(False, 0.7, 12, 9),
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.1,
        stop=("###", "\n\nQ:"),
    )


def test_an_emptied_field_means_its_default() -> None:
    for empty in (None, "", " "):
        for filters in ((), (*[empty] * 4, "")):
            assert answer_options(True, empty, None, empty, filters) == AnswerOptions()


def test_numbers_are_taken_as_they_are_typed() -> None:
    options = answer_options(True, " 0,7 ", 12, f"{2**64 - 1}", ("40", ".9", "5e-2", "1", "END"))
    assert options == AnswerOptions(
        *(True, 0.7, 12, 2**64 - 1),
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.0,
        stop=("END",),
    )


def test_whole_numbers_may_be_grouped_by_commas() -> None:
    """1,000 became 1, since the comma was taken for a decimal point."""
    options = answer_options(True, None, "1,000", "12,345,678", ("1,024", *[None] * 4))
    assert (options.max_new_tokens, options.seed, options.top_k) == (1000, 12_345_678, 1024)


@pytest.mark.parametrize(
    "typed", ["1,00", ",100", "1,000,00", "1_0", "1e3", "1.0", "1,5", "+1", "٣", "9" * 5000]
)
def test_a_whole_number_is_digits_and_nothing_else(typed: str) -> None:
    with pytest.raises(RefusedInputError, match="Seed must be a whole number"):
        answer_options(True, None, None, typed)


@pytest.mark.parametrize("typed", ["0_1", "1,000.5", "nan", "inf", "٠", "0.5f"])
def test_what_no_person_calls_a_number_is_refused(typed: str) -> None:
    with pytest.raises(RefusedInputError, match="Temperature must be a number"):
        answer_options(True, typed, None)


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (0, 1.5, "Top-k must be a whole number from 0 to 10,000,000."),
        (1, 1.01, "Top-p must be a number from 0 to 1."),
        (1, "half", "Top-p must be a number from 0 to 1."),
        (1, [0.5], "Top-p must be a number from 0 to 1."),
        (0, "1e9", "Top-k must be a whole number from 0 to 10,000,000."),
        (2, -0.1, "Min-p must be a number from 0 to 1."),
        (3, 0, "Repetition penalty must be a number from 0.01 to 100."),
        (3, float("nan"), "Repetition penalty must be a number from 0.01 to 100."),
        (4, "a" * 201, "Stop at takes texts of 200 characters at most."),
        (4, "\n".join(map(str, range(17))), "Stop at takes 16 texts at most; these are 17."),
        (4, 7, "Stop at must be text, one a line."),
    ],
)
def test_a_filter_out_of_range_is_refused_with_its_name_and_range(
    handlers: PageHandlers, service: ScriptedService, place: int, value: object, told: str
) -> None:
    filters: list[Any] = [None] * 5
    filters[place] = value
    with pytest.warns(UserWarning, match=f"^{told}$"):
        handlers.ask(TabView(), "Where?", True, 0.7, 12, False, None, *filters)
    assert service.jobs == []


@pytest.mark.parametrize(
    ("temperature", "max_new_tokens", "told"),
    [
        (-1, 10, "Temperature must be a number from 0 to 2."),
        (2.5, 10, "Temperature must be a number from 0 to 2."),
        (float("nan"), 10, "Temperature must be a number from 0 to 2."),
        (0, 0, "Max tokens must be a whole number from 1 to 1,000,000."),
        (0, -1, "Max tokens must be a whole number from 1 to 1,000,000."),
        (0, 1e30, "Max tokens must be a whole number from 1 to 1,000,000."),
        (0, float("inf"), "Max tokens must be a whole number from 1 to 1,000,000."),
        (0, 1.5, "Max tokens must be a whole number from 1 to 1,000,000."),
    ],
)
def test_an_option_out_of_range_is_refused_with_its_name_and_range(
    handlers: PageHandlers,
    service: ScriptedService,
    temperature: float,
    max_new_tokens: float,
    told: str,
) -> None:
    with pytest.warns(UserWarning, match=f"^{told}$"):
        handlers.ask(TabView(), "Where?", True, temperature, max_new_tokens)
    assert service.jobs == []


def test_the_fields_leave_the_refusal_to_the_handlers(handlers: PageHandlers) -> None:
    """Gradio's own says "Value -1 is less than minimum value 0."."""
    from tests.app.whole_page import whole_page

    page = whole_page(handlers._service)
    fields = [block for block in page.blocks.values() if isinstance(block, gr.Number)]
    assert len(fields) == 2
    for field in fields:
        for value in (-1, 1e300, 1.5):
            assert field.preprocess(value) == value


def test_watching_shows_the_latest_and_always_the_last(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view = ask(handlers, "Where?")
    (job,) = service.jobs

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = await collect(updates, 1)
        job.show(status="decoding", text="Pa", numbers=NUMBERS)
        job.show(status="decoding", text="Paris", numbers=NUMBERS)
        seen.append(await anext(updates))
        service.finish(job, "Paris.")
        return seen + await collect(updates)

    seen = asyncio.run(watch())
    assert [texts(update[0])[1] for update in seen[1:]] == ["Paris", "Paris."]
    _, chats, send, stop, _ = seen[-1]
    assert chats["chats"][0]["running"] is False
    assert (send["visible"], stop["visible"]) == (True, False)


def test_watching_what_is_over_shows_the_saved_answer(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    """A short answer may end between the question and the first look at it."""
    view = ask(handlers, "Where?")
    service.finish(service.jobs[0], "Paris.")
    (update,) = asyncio.run(collect(handlers.watch_answer(view)))
    assert texts(update[0]) == ["Where?", "Paris."]
    assert update[2]["visible"] is True


def test_watching_a_new_chat_shows_that_it_is_empty(handlers: PageHandlers) -> None:
    """A generator that yields nothing would empty its outputs."""
    updates = asyncio.run(collect(handlers.watch_answer(TabView())))
    chatbot, chats, send, stop, _ = updates[0]
    assert (chatbot, chats["open"]) == ([], None)
    assert (send["visible"], stop["visible"]) == (True, False)


def test_watching_ends_when_the_tab_moves_on(handlers: PageHandlers) -> None:
    """Gradio sent the last view once more, over the chat that had been opened meanwhile."""
    view = ask(handlers, "Where?")

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        await anext(updates)
        handlers.new_chat(view)
        return await asyncio.wait_for(collect(updates), timeout=10)

    (last,) = asyncio.run(watch())
    assert all(is_skipped(value) for value in last)


def test_the_last_look_does_not_overwrite_where_the_tab_has_moved(handlers: PageHandlers) -> None:
    view = TabView()

    async def watch() -> Any:
        look = asyncio.ensure_future(anext(handlers.watch_answer(view)))
        await asyncio.sleep(0)  # it has begun
        ask(handlers, "Where?", view)
        return await look

    assert all(is_skipped(value) for value in asyncio.run(watch()))


def test_watching_does_not_send_what_did_not_change(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view = ask(handlers, "Where?")

    async def watch() -> list[Any]:
        watching = asyncio.create_task(collect(handlers.watch_answer(view)))
        await asyncio.sleep(0.05)  # many looks at the same picture
        service.finish(service.jobs[0], "Paris.")
        return await watching

    assert len(asyncio.run(watch())) == 2  # at first, and at its end


def test_each_update_says_all_that_those_before_it_said(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    """A busy browser looks at the latest of several only: Send stayed hidden, or Stop did."""
    view = ask(handlers, "Where?")
    (job,) = service.jobs

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        job.show(status="decoding", text="Pa", numbers=NUMBERS)
        seen.append(await anext(updates))
        service.finish(job, "Paris.")
        return seen + await collect(updates)

    seen = asyncio.run(watch())
    assert not any(is_skipped(value) for update in seen for value in update[:4])
    assert [update[3]["visible"] for update in seen] == [True, True, False]
    assert {update[1]["open"] for update in seen} == {view.conversation_id}


def test_stop_reaches_the_answer_of_this_chat_only(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view = ask(handlers, "Where?")
    ask(handlers, "When?")
    handlers.stop(view)
    handlers.stop(TabView())
    assert [job.is_stopped for job in service.jobs] == [True, False]


def test_the_address_opens_its_chat_and_attaches_to_its_answer(handlers: PageHandlers) -> None:
    asked = ask(handlers, "Where?").conversation_id
    view = TabView()
    chatbot, chats, send, stop, _ = handlers.open_page(view, page(chat=str(asked)))
    assert view.conversation_id == chats["open"] == asked
    assert texts(chatbot)[0] == "Where?"
    assert (send["visible"], stop["visible"]) == (False, True)


def test_a_chat_that_was_deleted_is_said_to_be_and_the_tab_stays(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    """A link to it, or a click in a list that was stale, ended in an empty new chat."""
    view, other = ask(handlers, "Where?"), ask(handlers, "When?")
    assert other.conversation_id is not None
    service.delete_conversation(other.conversation_id)
    place = view.place
    with pytest.warns(UserWarning, match=r"^This chat was deleted\.$"):
        chatbot, chats, *_ = handlers.open_chat(view, event(id=other.conversation_id))
    assert is_skipped(chatbot)
    assert view.place == place
    assert [chat["id"] for chat in chats["chats"]] == [view.conversation_id]
    with pytest.warns(UserWarning, match="deleted"):
        handlers.open_page(TabView(), page(chat=str(other.conversation_id)))


def test_stop_is_told_at_once_though_the_model_is_asked_later(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    """Nothing changed for seconds while the prompt was read."""
    view = ask(handlers, "Where?")
    (job,) = service.jobs
    job.show(status="prefill")

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        seen = [await anext(updates)]
        handlers.stop(view)
        return [*seen, await anext(updates)]

    before, after = asyncio.run(asyncio.wait_for(watch(), 20))
    lines = [update[0][-1]["content"][-1]["text"] for update in (before, after)]
    assert lines == ["Reading the conversation …", "Stopping …"]


@pytest.mark.parametrize("chat", ["", "-1", "x", "1e3", "²", "9" * 30])
def test_an_address_without_a_chat_opens_a_new_one(handlers: PageHandlers, chat: str) -> None:
    ask(handlers, "Where?")
    view = TabView()
    chatbot, chats, send, stop, _ = handlers.open_page(view, page(chat=chat))
    assert (view.conversation_id, chatbot, chats["open"]) == (None, [], None)
    assert (send["visible"], stop["visible"]) == (True, False)


@pytest.mark.parametrize(
    "data", [{}, {"id": "1"}, {"id": True}, {"id": None}, {"id": 1.0}, {"id": 2**63}]
)
def test_events_of_the_list_are_checked(handlers: PageHandlers, data: dict[str, Any]) -> None:
    view = ask(handlers, "Where?")
    for handler in (handlers.open_chat, handlers.delete_chat):
        with pytest.warns(UserWarning, match="unexpected"):
            assert all(is_skipped(value) for value in handler(view, event(**data)))
    assert view.conversation_id is not None


def test_deleting_the_open_chat_opens_a_new_one(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view, other = ask(handlers, "Where?"), ask(handlers, "When?")
    first = view.conversation_id
    handlers.delete_chat(view, event(id=other.conversation_id))
    assert view.conversation_id == first
    assert handlers.delete_chat(view, event(id=first))[0] == []
    assert view.conversation_id is None
    assert not service.conversations()


def test_a_chat_deleted_in_another_tab_is_said_to_be_gone(handlers: PageHandlers) -> None:
    with pytest.warns(UserWarning, match="no chat 5"):
        handlers.delete_chat(TabView(), event(id=5))


def test_known_errors_are_shown_and_unknown_ones_hidden(
    handlers: PageHandlers, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_with(error: Exception) -> None:
        def conversations() -> None:
            raise error

        monkeypatch.setattr(service, "conversations", conversations)

    fail_with(DatabaseFullError("The disk is full."))
    with pytest.warns(UserWarning, match="The disk is full"):
        handlers.new_chat(TabView())
    fail_with(RuntimeError("secret /home/me"))
    with pytest.warns(UserWarning, match=r"^Something went wrong inside the app"):
        handlers.new_chat(TabView())


def test_the_status_line_follows_the_engine_while_the_tab_is_in_sight(
    handlers: PageHandlers, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that ends loses clicks; one that outlasts the tab's sight starves other tabs."""
    monkeypatch.setattr("app.handlers.ENGINE_UPDATE_SECONDS", 0)
    monkeypatch.setattr("app.handlers.SETTLED_UPDATE_SECONDS", 0)
    service.state = LOADING
    view = TabView()

    async def watch() -> list[Any]:
        updates = handlers.watch_engine(view)
        seen = [await anext(updates)]
        service.state = replace(LOADING, detail="Half of it is there …")
        seen.append(await anext(updates))
        service.state = READY
        seen += [await anext(updates) for _ in range(3)]
        handlers.leave_tab(view)
        return seen + await collect(updates)

    seen = asyncio.run(watch())
    assert [line["status"] for line in seen] == ["loading", "loading", *["ready"] * 3]


def test_a_tab_that_comes_into_sight_again_is_told_anew_by_one_watcher(
    handlers: PageHandlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.handlers.ENGINE_UPDATE_SECONDS", 0)
    view = TabView()

    async def watch() -> tuple[list[Any], Any, Any]:
        first = handlers.watch_engine(view)
        line = await anext(first)
        again = await anext(handlers.watch_engine(view))
        return await collect(first), line, again

    rest, line, again = asyncio.run(watch())
    assert rest == []
    assert again == {**line, "wake": line["wake"] + 1}


def test_a_tab_opened_out_of_sight_is_told_once_and_watches_nothing(handlers: PageHandlers) -> None:
    view = TabView()
    lines = asyncio.run(collect(handlers.watch_engine(view, {"is_hidden": True})))
    assert [line["status"] for line in lines] == ["ready"]
    assert not view.is_in_sight


def test_whoever_asks_is_in_sight_also_where_leaving_was_told_last(handlers: PageHandlers) -> None:
    """The page tells it at once, coming back waits in a queue: nothing it asked was shown."""
    view = TabView()
    handlers.leave_tab(view)
    ask(handlers, "Where?", view)
    assert view.is_in_sight


@pytest.mark.parametrize("act", ["new_chat", "open_chat", "delete_chat", "open_deleted_chat"])
def test_whoever_acts_in_a_tab_looks_at_it_and_its_status_line_goes_on(
    handlers: PageHandlers, act: str
) -> None:
    other, view = ask(handlers, "Where?"), ask(handlers, "When?")
    handlers.leave_tab(view)
    wake = view.num_wakes
    if act == "new_chat":
        handlers.new_chat(view)
    elif act == "open_deleted_chat":
        with pytest.warns(UserWarning, match="deleted"):
            handlers.open_chat(view, event(id=99))
    else:
        getattr(handlers, act)(view, event(id=other.conversation_id))
    assert (view.is_in_sight, view.num_wakes) == (True, wake)


@pytest.mark.parametrize("leaves_again", [False, True])
def test_the_last_look_of_a_tab_that_left_does_not_overwrite_what_it_is_told_when_it_is_back(
    handlers: PageHandlers, monkeypatch: pytest.MonkeyPatch, leaves_again: bool
) -> None:
    view = ask(handlers, "Where?")
    look = handlers._view

    def look_while_it_comes_back(*args: Any) -> Any:
        looked = look(*args)
        view.come_into_sight()
        if leaves_again:
            view.go_out_of_sight()
        return looked

    async def watch() -> list[Any]:
        updates = handlers.watch_answer(view)
        await anext(updates)
        handlers.leave_tab(view)
        monkeypatch.setattr(handlers, "_view", look_while_it_comes_back)
        return await collect(updates)

    (last,) = asyncio.run(watch())
    assert all(is_skipped(value) for value in last)
    assert "answer" in view.missed


def test_an_answer_whose_end_is_told_while_the_tab_leaves_is_told_again(
    handlers: PageHandlers, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = ask(handlers, "Where?")
    look = handlers._view

    def look_while_it_leaves(*args: Any) -> Any:
        handlers.leave_tab(view)
        return look(*args)

    service.finish(service.jobs[0], "Paris.")
    monkeypatch.setattr(handlers, "_view", look_while_it_leaves)
    (last,) = asyncio.run(collect(handlers.watch_answer(view)))
    assert texts(last[0]) == ["Where?", "Paris."]
    assert view.missed == {"answer"}


def test_no_two_lines_are_equal_so_that_a_page_out_of_sight_leaves_again(
    handlers: PageHandlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said may have been lost, and an equal line would not have been looked at."""
    monkeypatch.setattr("app.handlers.ENGINE_UPDATE_SECONDS", 0)
    monkeypatch.setattr("app.handlers.SETTLED_UPDATE_SECONDS", 0)

    async def watch() -> list[Any]:
        lines = handlers.watch_engine(TabView(), {"status": ""})
        return [await anext(lines) for _ in range(3)]

    lines = asyncio.run(watch())
    assert all(before != after for before, after in pairwise(lines))


def test_a_new_chat_gets_the_switch_of_documents_with_its_question(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view = TabView()
    assert handlers.document_switch(view) is False
    handlers.use_documents(view, True)
    handlers.ask(view, "Where?", True, 0.0, 64, True)
    assert view.conversation_id is not None
    assert service.uses_documents(view.conversation_id)
    assert handlers.document_switch(view) is True
    assert handlers.document_switch(TabView()) is False


def test_the_switch_of_documents_set_while_the_page_still_loads_stays(
    handlers: PageHandlers,
) -> None:
    """The page's first answer came after it and switched it off again."""
    view = TabView()
    handlers.use_documents(view, True)
    handlers.open_page(view, page())
    assert handlers.document_switch(view) is True
    handlers.use_documents(view, False)
    assert handlers.document_switch(view) is False


def test_the_switch_of_documents_goes_with_a_question_whose_chat_was_deleted(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view = ask(handlers, "Where?")
    service.delete_conversation(view.conversation_id or 0)
    handlers.ask(view, "And then?", True, 0.0, 64, True)
    assert view.conversation_id is None
    assert handlers.document_switch(view) is True
    view.move(7)
    handlers.new_chat(view)
    assert handlers.document_switch(view) is False, "the next one begins without"


def test_the_switch_of_documents_is_kept_without_a_question(
    handlers: PageHandlers, service: ScriptedService
) -> None:
    view = ask(handlers, "Where?")
    assert handlers.document_switch(view) is False
    handlers.use_documents(view, True)
    assert handlers.document_switch(view) is True
    handlers.use_documents(view, False)
    assert handlers.document_switch(view) is False
    service.delete_conversation(view.conversation_id or 0)
    assert handlers.document_switch(view) is False
