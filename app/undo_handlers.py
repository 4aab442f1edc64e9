"""What happens when somebody brings back a chat or documents they have just deleted.

Knows the service and the handlers of the page, whose view it shows; `app.undo_bar` wires the
methods.
"""

from typing import TYPE_CHECKING, Any

import gradio as gr

from app.handlers import Outputs, PageHandlers
from app.page_errors import RefusedInputError, shows_errors
from app.payloads import checked_number, checked_text
from app.presenters import deletion_line
from app.tab_view import TabView

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["UndoHandlers"]


class UndoHandlers:
    """The events of the bar that offers to undo, bound to the service."""

    def __init__(self, service: "ChatService", page: PageHandlers) -> None:
        self._service = service
        self._page = page

    @shows_errors(1)
    def offer(self) -> dict[str, Any]:
        """The bar: the latest deletion that can be undone, whoever made it, or nothing."""
        return deletion_line(self._service.recent_deletions())

    @shows_errors(6)
    def undo(self, view: TabView, event: gr.EventData) -> Outputs:
        """The bar with the deletion before, and view: of the chat that was brought back."""
        view.note_act()
        kind, row_id = checked_text(event._data, "kind"), checked_number(event._data, "id")
        for deletion in self._service.recent_deletions():
            if deletion.kind == kind and row_id in deletion.ids:
                break
        else:
            raise RefusedInputError("This cannot be brought back any more.")
        self._service.undo(deletion.kind, deletion.ids)
        if deletion.kind == "conversation":
            shown = self._page.show_chat(view, row_id)
        else:
            shown = self._page.view_now(view)
        return (deletion_line(self._service.recent_deletions()), *shown)
