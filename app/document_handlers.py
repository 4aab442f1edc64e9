"""What happens when somebody uses the Documents tab.

Knows the service and the presenters, not the layout. `app.documents_tab` wires the methods.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import document_presenter
from app.document_folders import DocumentFolder, document_folders
from app.importing.files import path_of_uri
from app.page_errors import RefusedInputError, shows_errors
from app.panel_handlers import PanelHandlers
from app.paths import expanded
from app.payloads import checked_flag, checked_number, checked_text
from app.services.errors import ServiceError
from app.tab_view import TabView
from app.uploads import UploadError, Uploads

if TYPE_CHECKING:
    from app.services.chat_service import ChatService
    from app.services.jobs import ImportJob

__all__ = ["DocumentHandlers"]

UPDATE_SECONDS = 0.2

Outputs = tuple[Any, ...]


class DocumentHandlers:
    """The events of the Documents tab, bound to the service.

    Args:
        panel: the chat's panel, which may name a document.
        uploads: what the browser has sent.
    """

    def __init__(self, service: "ChatService", panel: PanelHandlers, uploads: Uploads) -> None:
        self._service = service
        self._panel = panel
        self._uploads = uploads
        self._last_import: ImportJob | None = None  # one runs at a time; its report stays

    @shows_errors(1)
    def import_folder(self, view: TabView, typed_path: str, is_deeper: bool = False) -> str:
        """Start importing a typed folder or file: the path box, emptied."""
        view.note_act()
        if not typed_path.strip():
            raise RefusedInputError("Type the path of a folder or a file first.")
        path = expanded(typed_path.strip().strip("\"'"))
        if not path.is_absolute():
            raise RefusedInputError("Type the whole path, from the top of the disk.")
        if not os.path.exists(path):  # False, not an error, where the name is too long
            raise RefusedInputError(f"There is no folder or file {path}.")
        self._start([path], is_deeper)
        return ""

    @shows_errors(0)
    def import_uploads(self, view: TabView, is_deeper: bool, event: gr.EventData) -> None:
        """Start importing what was uploaded, maybe out of sight meanwhile."""
        if not checked_flag(event._data, "is_hidden"):
            view.note_act()
        try:
            folder, skipped = self._uploads.take(checked_text(event._data, "batch"))
        except UploadError as error:
            raise RefusedInputError(str(error)) from error
        try:
            self._last_import = self._service.import_uploads(
                folder, skipped, is_deeper=bool(is_deeper)
            )
        except ServiceError:  # the page cannot ask once more
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @shows_errors(0)
    def cancel_import(self, view: TabView) -> None:
        """Break the running import off."""
        view.note_act()
        job = self._service.running_import()
        if job is not None:
            job.cancel()

    @shows_errors(0)
    def resume_import(self, view: TabView) -> None:
        """Go on with the import that was not finished."""
        view.note_act()
        self._last_import = self._service.imports.resume()

    @shows_errors(0)
    def dismiss_import(self, view: TabView) -> None:
        """Give it up."""
        view.note_act()
        self._service.imports.dismiss()
        self._last_import = None

    @shows_errors(0)
    def update_folder(self, view: TabView, is_deeper: bool, event: gr.EventData) -> None:
        """Import a folder again: what is new or changed is taken in."""
        view.note_act()
        folder = self._folder(checked_text(event._data, "folder"))
        if folder.is_upload:
            raise RefusedInputError("These files were uploaded; upload them again to update them.")
        if folder.key:
            self._start([path_of_uri(folder.key)], is_deeper)
        else:
            self._start([path_of_uri(source.uri) for source in folder.sources], is_deeper)

    @shows_errors(2)
    def delete_folder(self, view: TabView, event: gr.EventData) -> Outputs:
        """Delete all documents of a folder: documents, and panel, which may name them."""
        view.note_act()
        folder = self._folder(checked_text(event._data, "folder"))
        self._service.delete_documents([source.id for source in folder.sources])
        self._service.imports.remove_folder(folder.key)
        return self._documents(), self._panel.value_now(view)

    @shows_errors(2)
    def delete_document(self, view: TabView, event: gr.EventData) -> Outputs:
        """Delete the document confirmed in the list: documents, and panel, which may name it."""
        view.note_act()
        self._service.delete_document(checked_number(event._data, "id"))
        return self._documents(), self._panel.value_now(view)

    @shows_errors(1)
    def pin_document(self, view: TabView, event: gr.EventData) -> dict[str, Any]:
        """Keep a document among what drafts come from, whatever the budget, or no longer."""
        view.note_act()
        source_id = checked_number(event._data, "id")
        self._service.pin_document(source_id, checked_flag(event._data, "is_pinned"))
        return self._documents()

    @shows_errors(1)
    def list_documents(self) -> dict[str, Any]:
        """The documents as they are now, whoever imported or deleted some."""
        return self._documents()

    async def watch_import(self, view: TabView) -> AsyncIterator[Outputs]:
        """Follow the latest import to its end, in a tab in sight: (report, documents)."""
        job = self._service.running_import() or self._last_import
        documents: Any = await asyncio.to_thread(self._documents)
        if job is not None:
            version = -1
            while not (snapshot := job.snapshot()).is_over:
                if snapshot.version != version:
                    version = snapshot.version
                    yield document_presenter.import_report(snapshot), documents
                    documents = gr.skip()  # they may change meanwhile, but not by this
                if not view.is_in_sight:
                    view.missed.add("import")
                    return
                await asyncio.sleep(UPDATE_SECONDS)
            documents = await asyncio.to_thread(self._documents)
        unfinished = await asyncio.to_thread(self._service.imports.unfinished)
        last = job.snapshot() if job is not None else None
        yield document_presenter.import_report(last, unfinished), documents

    async def watch_import_again(self, view: TabView) -> AsyncIterator[Outputs]:
        """The same, in a tab that came into sight and has missed some of it."""
        if view.takes_up("import"):
            async for outputs in self.watch_import(view):
                yield outputs
        else:
            yield (gr.skip(),) * 2

    def _start(self, paths: list[Path], is_deeper: bool) -> None:
        self._last_import = self._service.import_paths(paths, is_deeper=bool(is_deeper))

    def _folders(self) -> list[DocumentFolder]:
        return document_folders(self._service.documents(), self._service.imports.folders())

    def _folder(self, key: str) -> DocumentFolder:
        for folder in self._folders():
            if folder.key == key:
                return folder
        raise RefusedInputError("This folder's documents are there no more.")

    def _documents(self) -> dict[str, Any]:
        return document_presenter.document_list(self._folders())
