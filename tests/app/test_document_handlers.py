"""What the events of the Documents tab do with the service, without a browser."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app import document_handlers as handlers_module
from app.document_handlers import DocumentHandlers
from app.importing import SkippedFile
from app.panel_handlers import PanelHandlers
from app.services.errors import BusyError
from app.services.import_requests import ImportRequest
from app.tab_view import TabView
from app.uploads import Uploads
from storage.records import Source
from tests.app.scripted_service import NOW, ScriptedService


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads")


@pytest.fixture
def handlers(
    service: ScriptedService, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> DocumentHandlers:
    monkeypatch.setattr(handlers_module, "UPDATE_SECONDS", 0.001)
    return DocumentHandlers(service, PanelHandlers(service), uploads)  # type: ignore[arg-type]


def event(**data: Any) -> gr.EventData:
    return gr.EventData(None, data)


def is_skipped(output: Any) -> bool:
    return bool(output == gr.skip())


def document(source_id: int, name: str, folder: str = "file:///") -> Source:
    uri = f"{folder}{name}"
    return Source(source_id, "document", None, name, uri, "0", 10, 1, False, NOW)


def shown_names(documents: dict[str, Any]) -> list[str]:
    return [shown["name"] for folder in documents["folders"] for shown in folder["documents"]]


async def collect(updates: AsyncIterator[Any]) -> list[Any]:
    return [update async for update in updates]


def test_a_typed_folder_is_imported(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    assert handlers.import_folder(TabView(), f' "{tmp_path}" ') == ""
    assert not service.is_import_deeper
    assert service.imported_paths == [tmp_path]
    handlers.import_folder(TabView(), str(tmp_path), is_deeper=True)
    assert service.is_import_deeper


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "Type the path"),
        ("notes", "whole path"),
        ("/no/such/folder", "no folder or file"),
        ("/" + "x" * 300, "no folder or file"),
        ("~no-such-user/notes", "home folder"),
        ("/a\0b", "NUL"),
        ("/no/note\udce9", "no folder or file /no/note\\?"),
    ],
)
def test_a_path_that_cannot_be_imported_is_refused_in_words(
    handlers: DocumentHandlers, service: ScriptedService, typed: str, said: str
) -> None:
    with pytest.warns(UserWarning, match=said):
        assert is_skipped(handlers.import_folder(TabView(), typed))
    assert service.import_job is None


def test_a_path_is_said_as_text_and_not_as_markup(handlers: DocumentHandlers) -> None:
    """The page would render it."""
    with pytest.warns(UserWarning, match=r"folder or file /no/&lt;b&gt;'s such\."):
        handlers.import_folder(TabView(), "/no/<b>'s such")


def test_a_document_is_deleted(handlers: DocumentHandlers, service: ScriptedService) -> None:
    service.sources = [document(1, "a.md"), document(2, "b.md")]
    documents, panel = handlers.delete_document(TabView(), event(id=1))
    assert shown_names(documents) == ["b.md"]
    assert is_skipped(panel)
    assert [source.id for source in service.sources] == [2]


def test_a_document_is_pinned_and_let_go(
    handlers: DocumentHandlers, service: ScriptedService
) -> None:
    service.sources = [document(1, "a.md"), document(2, "b.md")]
    for is_pinned in (True, False):
        shown = handlers.pin_document(TabView(), event(id=1, is_pinned=is_pinned))
        (folder,) = shown["folders"]
        assert [one["is_pinned"] for one in folder["documents"]] == [is_pinned, False]
    for data in ({"id": 5, "is_pinned": True}, {"id": 1, "is_pinned": 1}, {"id": True}, 3):
        with pytest.warns(UserWarning, match="no document 5|unexpected"):
            assert is_skipped(handlers.pin_document(TabView(), gr.EventData(None, data)))
    assert not service.sources[0].is_pinned


@pytest.mark.parametrize(
    ("data", "said"), [({"id": 5}, "no document 5"), ({"id": "1"}, "unexpected")]
)
def test_a_document_that_is_gone_is_said_to_be(
    handlers: DocumentHandlers, service: ScriptedService, data: dict[str, Any], said: str
) -> None:
    service.sources = [document(1, "a.md")]
    with pytest.warns(UserWarning, match=said):
        assert all(map(is_skipped, handlers.delete_document(TabView(), event(**data))))
    assert len(service.sources) == 1


def test_a_running_import_does_not_bring_a_deleted_document_back(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    """Each look at an import once showed the documents as they were when it began."""
    service.sources = [document(1, "a.md")]
    handlers.import_folder(TabView(), str(tmp_path))
    job = service.import_job
    assert job is not None

    async def watch() -> list[Any]:
        updates = handlers.watch_import(TabView())
        seen = [await anext(updates)]
        handlers.delete_document(TabView(), event(id=1))
        job.show(num_files_done=1)
        return [*seen, await anext(updates)]

    first, second = asyncio.run(watch())
    assert shown_names(first[1]) == ["a.md"]
    assert is_skipped(second[1])


def test_out_of_sight_an_import_is_not_watched_and_back_in_sight_it_is(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    """Tabs that nobody saw held their connections for as long as an import took."""
    handlers.import_folder(TabView(), str(tmp_path))
    view = TabView()
    view.go_out_of_sight()
    (hidden,) = asyncio.run(collect(handlers.watch_import(view)))
    assert hidden[0]["state"] == "running"
    assert service.import_job is not None
    service.import_job.show(status="complete")
    (seen,) = asyncio.run(collect(handlers.watch_import_again(view)))
    assert seen[0]["state"] == "over"
    (nothing,) = asyncio.run(collect(handlers.watch_import_again(view)))
    assert all(map(is_skipped, nothing))


def test_an_import_is_watched_to_its_end_and_its_report_stays(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    handlers.import_folder(TabView(), str(tmp_path))
    job = service.import_job
    assert job is not None

    async def watch() -> list[Any]:
        updates = handlers.watch_import(TabView())
        seen = [await anext(updates)]
        job.show(num_files_done=1, skipped=(("/x.png", "not text"),))
        seen.append(await anext(updates))
        job.show(status="complete", num_documents=1, num_tokens=10)
        return seen + await collect(updates)

    seen = asyncio.run(watch())
    assert [update[0]["state"] for update in seen] == ["running", "running", "over"]
    assert seen[1][0]["skipped"] == [{"name": "/x.png", "reason": "not text"}]
    assert seen[-1][0]["text"] == "Imported: 1 document, 10 tokens; 1 skipped."
    (again,) = asyncio.run(collect(handlers.watch_import(TabView())))
    assert again[0] == seen[-1][0]


def test_cancel_reaches_the_running_import(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    handlers.cancel_import(TabView())
    handlers.import_folder(TabView(), str(tmp_path))
    handlers.cancel_import(TabView())
    assert service.import_job is not None
    assert service.import_job.is_cancelled


def test_uploaded_files_are_imported_with_what_was_not_wanted(
    handlers: DocumentHandlers, service: ScriptedService, uploads: Uploads
) -> None:
    batch, wanted = uploads.begin([("notes/a.md", 5), ("notes/b.png", 5)])
    assert wanted == [0]

    async def chunks() -> AsyncIterator[bytes]:
        yield b"words"

    asyncio.run(uploads.receive(batch, 0, chunks()))
    handlers.import_uploads(TabView(), False, event(batch=batch, is_hidden=False))
    assert [path.read_text() for path in service.uploaded_paths] == ["words"]
    reason = "not a kind of file that is imported from folders"
    assert service.not_uploaded == [SkippedFile(Path("notes/b.png"), reason)]
    for data in ({"batch": batch}, {"batch": 3}, {}):
        with pytest.warns(UserWarning, match="Choose the files again|unexpected"):
            handlers.import_uploads(TabView(), False, event(**data))


def test_uploaded_files_that_cannot_be_imported_now_are_not_left_lying_about(
    handlers: DocumentHandlers,
    service: ScriptedService,
    uploads: Uploads,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise BusyError("An import is running.")

    batch, _ = uploads.begin([("a.md", 5)])
    monkeypatch.setattr(service, "import_uploads", busy)
    with pytest.warns(UserWarning, match="An import is running"):
        handlers.import_uploads(TabView(), False, event(batch=batch, is_hidden=False))
    assert list((tmp_path / "uploads").iterdir()) == []


def test_an_import_that_was_not_finished_is_offered_and_gone_on_with(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    def report() -> dict[str, Any]:
        shown: dict[str, Any] = asyncio.run(collect(handlers.watch_import(TabView())))[-1][0]
        return shown

    assert (report()["state"], report()["text"]) == ("over", "")
    service.imports.request = ImportRequest((Path("/home/me/notes"), Path("/x")))
    assert report()["state"] == "unfinished"
    assert report()["text"] == "The import of notes and 1 more was not finished."
    handlers.resume_import(TabView())
    assert service.imported_paths == [Path("/home/me/notes"), Path("/x")]
    assert service.import_job is not None
    service.import_job.show(status="cancelled", num_documents=1)
    service.imports.request = ImportRequest((tmp_path,))
    assert report()["state"] == "unfinished"
    assert report()["text"].startswith("Cancelled. Taken in before that: 1 document")
    handlers.dismiss_import(TabView())
    assert (report()["state"], report()["text"]) == ("over", "")


def test_a_folder_is_updated_or_deleted_as_a_whole(
    handlers: DocumentHandlers, service: ScriptedService, tmp_path: Path
) -> None:
    uri = tmp_path.as_uri()
    service.imports.folder_uris = [uri]
    service.sources = [
        document(1, "a.md", f"{uri}/"),
        document(2, "b.md", "file:///other/"),
        document(3, "notes/c.md", "upload:"),
    ]
    handlers.update_folder(TabView(), False, event(folder=uri))
    assert service.imported_paths == [tmp_path]
    handlers.update_folder(TabView(), False, event(folder=""))
    assert service.imported_paths == [Path("/other/b.md")]
    for data, said in (
        ({"folder": "upload:notes/"}, "upload them again"),
        ({"folder": "file:///etc"}, "no more"),
        ({"folder": 1}, "unexpected"),
        ({"folder": "x" * 30_000}, "unexpected"),
    ):
        with pytest.warns(UserWarning, match=said):
            handlers.update_folder(TabView(), False, event(**data))
    assert service.imported_paths == [Path("/other/b.md")], "only what was imported is"
    documents, _ = handlers.delete_folder(TabView(), event(folder=uri))
    assert shown_names(documents) == ["notes/c.md", "b.md"]
    assert service.imports.folder_uris == []
