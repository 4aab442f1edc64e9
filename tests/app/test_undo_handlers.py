"""What the bar that offers to undo does with the service, without a browser."""

from typing import Any

import gradio as gr
import pytest

from app.handlers import PageHandlers
from app.presenters import deletion_line
from app.services.forgetting import RecentDeletion
from app.tab_view import TabView
from app.undo_handlers import UndoHandlers
from storage.records import Source
from tests.app.scripted_service import NOW, ScriptedService


@pytest.fixture
def service() -> ScriptedService:
    service = ScriptedService()
    for source_id, name in ((1, "a.txt"), (2, "b.txt")):
        uri = f"file:///{name}"
        service.sources.append(
            Source(source_id, "document", None, name, uri, "0", 10, 1, False, NOW)
        )
    return service


@pytest.fixture
def page(service: ScriptedService) -> PageHandlers:
    return PageHandlers(service)  # type: ignore[arg-type]


@pytest.fixture
def handlers(service: ScriptedService, page: PageHandlers) -> UndoHandlers:
    return UndoHandlers(service, page)  # type: ignore[arg-type]


def event(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def test_the_latest_deletion_is_offered_and_then_the_one_before(
    service: ScriptedService, handlers: UndoHandlers
) -> None:
    assert handlers.offer()["kind"] == ""
    service.delete_document(1)
    service.delete_document(2)
    assert handlers.offer() == {
        "kind": "document",
        "id": 2,
        "text": "Deleted “b.txt”.",
        "seconds": 300,
    }
    bar, *view = handlers.undo(TabView(), event(kind="document", id=2))
    assert (bar["text"], len(view)) == ("Deleted “a.txt”.", 5)
    assert [source.id for source in service.sources] == [2]


def test_a_chat_that_is_brought_back_is_shown(
    service: ScriptedService, page: PageHandlers, handlers: UndoHandlers
) -> None:
    view = TabView()
    page.ask(view, "Where is it?", True, 0.0, 64)
    (job,) = service.jobs
    service.finish(job, "Paris.")
    page.delete_chat(view, event(id=job.conversation_id))
    assert view.conversation_id is None
    assert handlers.offer()["text"] == "Deleted the chat “Where is it?”."
    bar, chatbot, chats, *_ = handlers.undo(view, event(kind="conversation", id=1))
    assert bar["kind"] == ""
    assert view.conversation_id == job.conversation_id
    assert "Where is it?" in chatbot[0]["content"]
    assert [chat["id"] for chat in chats["chats"]] == [job.conversation_id]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "document"},
        {"kind": "document", "id": 3},
        {"kind": "document", "id": "1"},
        {"kind": "conversation", "id": 1},
        {"kind": "sources; DROP TABLE sources", "id": 1},
        {"kind": ["document"], "id": 1},
        {"kind": "document", "id": 2**70},
    ],
)
def test_what_was_not_deleted_lately_is_refused(
    service: ScriptedService,
    handlers: UndoHandlers,
    data: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(gr, "Warning", told.append)
    service.delete_document(1)
    outputs = handlers.undo(TabView(), event(**data))
    assert all(output == gr.skip() for output in outputs)
    assert len(told) == 1
    assert [source.id for source in service.sources] == [2]


@pytest.mark.parametrize(
    ("kind", "ids", "name", "text"),
    [
        ("document", (3, 4, 5), "a.txt", "Deleted 3 documents."),
        ("document", (3,), "a\nb\u202egnp.exe", "Deleted “a bgnp.exe”."),
        ("conversation", (3,), " ", "Deleted the chat “New chat”."),
        ("conversation", (3,), "<b>\ud800", "Deleted the chat “<b>?”."),
    ],
)
def test_the_bar_names_what_was_deleted(
    kind: Any, ids: tuple[int, ...], name: str, text: str
) -> None:
    assert deletion_line([RecentDeletion(kind, ids, name, 12.6)])["text"] == text
    assert deletion_line([RecentDeletion(kind, ids, name, 12.6)])["seconds"] == 13
