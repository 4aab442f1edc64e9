"""The bar that says what was deleted and offers to undo it: component and wiring.

Knows no service. Called by `app.ui`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import gradio as gr
from gradio.events import Dependency

from app.document_handlers import DocumentHandlers
from app.event_options import QUIET
from app.presenters import deletion_line
from app.undo_handlers import UndoHandlers

__all__ = ["UNDO_CSS", "undo_bar", "wire_undo"]

_STATIC = Path(__file__).parent / "static"
UNDO_CSS = _STATIC / "undo_bar.css"

_UNDO_BAR = (
    '<div class="bar" hidden><span role="status"></span>'
    '<button type="button" class="undo">Undo</button>'
    '<button type="button" class="dismiss" aria-label="Dismiss" title="Dismiss">×</button></div>'
)


def undo_bar() -> gr.HTML:
    """The bar; it stands over the page, whatever tab is shown."""
    return gr.HTML(
        deletion_line(()),
        html_template=_UNDO_BAR,
        js_on_load=(_STATIC / "undo_bar.js").read_text(encoding="utf-8"),
        elem_id="undo-bar",
        apply_default_css=False,
    )


def wire_undo(
    page: gr.Blocks,
    handlers: UndoHandlers,
    document_handlers: DocumentHandlers,
    bar: gr.HTML,
    *,
    deletions: Iterable[Dependency],
    view: gr.State,
    shown: Sequence[gr.components.Component],
    documents: gr.HTML,
) -> None:
    """Everything of the bar.

    Args:
        deletions: the events after which it may have something new to offer.
        shown: what the chat's view fills.
        documents: the list of documents.
    """
    page.load(handlers.offer, None, bar, **QUIET)
    for deletion in deletions:
        deletion.then(handlers.offer, None, bar, **QUIET)
    undone = bar.undo(handlers.undo, view, [bar, *shown], **QUIET)
    undone.then(document_handlers.list_documents, None, documents, **QUIET)
