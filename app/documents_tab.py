"""The Documents tab: components first, wiring second.

Knows no service. Called by `app.ui`. What the scripts need to know of uploading stands in
`static/upload_area.js`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.events import Dependency

from app import document_presenter
from app.document_handlers import DocumentHandlers
from app.event_options import QUIET, WATCH

__all__ = ["DOCUMENTS_CSS", "DocumentsTab", "documents_tab", "wire_documents"]

_STATIC = Path(__file__).parent / "static"
DOCUMENTS_CSS = _STATIC / "documents.css"

_INTRODUCTION = (
    "## Documents\nWhat you import warms the drafts with the wording of your field. Text, "
    "Markdown, web pages, PDF, Word, PowerPoint, Excel, notebooks, EPUB and source code are read; "
    "nothing leaves this machine."
)
_UPLOAD_AREA = (
    '<div class="area"><p>Drop files or a folder here</p><p class="buttons">'
    '<button type="button" class="files">Choose files</button>'
    '<button type="button" class="folder">Choose a folder</button></p>'
    '<input type="file" multiple hidden aria-label="Files to import">'
    '<input type="file" webkitdirectory hidden aria-label="Folder to import">'
    '<p role="status" hidden></p><progress aria-label="Upload" hidden></progress>'
    '<button type="button" class="stop" hidden>Stop uploading</button></div>'
)
_IMPORT_REPORT = (
    '<div class="line"><p role="status"></p><button type="button" class="resume" hidden>Go on'
    '</button><button type="button" class="dismiss" hidden>Dismiss</button>'
    '<button type="button" class="cancel" hidden>Cancel</button></div>'
    '<progress aria-label="Import" hidden></progress>'
    '<details hidden><summary></summary><ul class="reasons"></ul><ul class="skipped"></ul>'
    "</details>"
)
_DOCUMENT_LIST = (
    '<label hidden>Find <input type="search" placeholder="part of a name"></label>'
    '<div class="folders"></div><p role="status"></p>'
)


@dataclass(frozen=True, slots=True)
class DocumentsTab:
    """The components of the documents."""

    path: gr.Textbox
    start: gr.Button
    deeper: gr.Checkbox
    upload: gr.HTML
    report: gr.HTML
    documents: gr.HTML


def documents_tab() -> DocumentsTab:
    """The tab's components, within the caller's tab."""
    with gr.Column(elem_id="documents-column"):
        gr.Markdown(_INTRODUCTION)
        with gr.Row(elem_id="import-row"):
            path = gr.Textbox(
                label="Folder or file on this machine",
                placeholder="/home/you/notes",
                scale=1,
                elem_id="import-path",
            )
            start = gr.Button("Import", variant="primary", scale=0, min_width=100)
        upload = _scripted("upload_area", None, _UPLOAD_AREA)
        deeper = gr.Checkbox(
            False,
            label="Deeper",
            info="The model reads them, too, once nothing is asked: drafts come closer to what "
            "it would say about them.",
            container=False,
            elem_id="import-deeper",
        )
        nothing = document_presenter.import_report(None)
        report = _scripted("import_report", nothing, _IMPORT_REPORT)
        documents = _scripted("document_list", {"folders": []}, _DOCUMENT_LIST)
    return DocumentsTab(path, start, deeper, upload, report, documents)


def _scripted(name: str, value: Any, template: str) -> gr.HTML:
    """An HTML component with a static template, filled by `static/<name>.js`."""
    return gr.HTML(
        value,
        html_template=template,
        js_on_load=(_STATIC / f"{name}.js").read_text(encoding="utf-8"),
        elem_id=name.replace("_", "-"),
        apply_default_css=False,
    )


def wire_documents(
    page: gr.Blocks,
    handlers: DocumentHandlers,
    tab: DocumentsTab,
    *,
    view: gr.State,
    status: gr.HTML,
    panel: gr.HTML,
    shown: gr.Tab,
) -> tuple[list[Dependency], list[Dependency]]:
    """Everything of the documents. Returns the events that delete some, and the ends of imports.

    An import deletes what it replaces.

    Args:
        status: tells that the browser's tab comes into sight again.
        panel: the chat's, which may name a document.
        shown: the tab that holds the components.
    """
    progress = [tab.report, tab.documents]
    watched = [page.load(handlers.watch_import, view, progress, **WATCH)]
    typed = gr.on(
        [tab.path.submit, tab.start.click],
        handlers.import_folder,
        [view, tab.path, tab.deeper],
        tab.path,
        **QUIET,
    )
    for start in (
        typed,
        tab.upload.import_uploads(handlers.import_uploads, [view, tab.deeper], None, **QUIET),
        tab.report.resume_import(handlers.resume_import, view, None, **QUIET),
        tab.report.dismiss_import(handlers.dismiss_import, view, None, **QUIET),
        tab.documents.update_folder(handlers.update_folder, [view, tab.deeper], None, **QUIET),
    ):
        watched.append(
            start.then(handlers.watch_import, view, progress, trigger_mode="multiple", **WATCH)
        )
    status.enter_tab(handlers.watch_import_again, view, progress, trigger_mode="multiple", **WATCH)
    tab.report.cancel_import(handlers.cancel_import, view, None, queue=False, **QUIET)
    tab.documents.pin_document(handlers.pin_document, view, tab.documents, **QUIET)
    shown.select(handlers.list_documents, None, tab.documents, **QUIET)
    deletions = [
        event(handler, view, [tab.documents, panel], **QUIET)
        for event, handler in (
            (tab.documents.delete_document, handlers.delete_document),
            (tab.documents.delete_folder, handlers.delete_folder),
        )
    ]
    return deletions, watched
