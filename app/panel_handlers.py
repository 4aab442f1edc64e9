"""What happens when somebody uses the panel beside the chat.

Knows the service and the panel's presenter, not the layout. `app.handlers` asks it for the panel of
a view; `app.ui` wires its methods to the panel's events. A closed panel costs nothing.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gradio as gr

from app.page_errors import RefusedInputError, answers_errors, shows_errors
from app.panel_presenter import PanelPresenter, step_details_value
from app.payloads import checked_flag, checked_number
from app.services.views import AnswerSnapshot, ChatMessage
from app.tab_view import TabView
from storage.errors import RecordNotFoundError, StorageError

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["PanelHandlers"]

logger = logging.getLogger(__name__)


class PanelHandlers:
    """The panel's events, bound to the service."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service

    def presenter(self) -> PanelPresenter:
        """A presenter for one who watches, which does the work of each step once."""
        return PanelPresenter(self._service.origin_labels)

    def value(
        self,
        view: TabView,
        messages: Sequence[ChatMessage],
        snapshot: AnswerSnapshot | None,
        presenter: PanelPresenter | None = None,
    ) -> Any:
        """The panel of a view; gr.skip() where it is closed, or is to show something else by now.

        Args:
            snapshot: the chat's running answer, which need not be the one that is shown.
        """
        before = view.panel_place
        if not view.is_panel_open:
            return gr.skip()
        try:
            shown = self._shown(view.panel_message_id, messages, snapshot)
            if shown is not None and shown.conversation_id != view.conversation_id:
                messages = self._service.messages(shown.conversation_id)
            value = (presenter or self.presenter()).value(messages, shown, snapshot)
        except RecordNotFoundError:  # deleted in this moment
            return gr.skip()
        except StorageError:  # the chat beside it goes on
            logger.exception("the panel's value could not be made")
            return gr.skip()
        return value if view.panel_place == before else gr.skip()

    def _shown(
        self,
        message_id: int | None,
        messages: Sequence[ChatMessage],
        snapshot: AnswerSnapshot | None,
    ) -> AnswerSnapshot | None:
        """The chosen answer, which may be of the chat that the demo came from; else the latest."""
        answer_ids = [message.id for message in messages if message.role == "assistant"]
        for answer_id in (message_id, *answer_ids[-1:]):
            if snapshot is not None and snapshot.message_id == answer_id:
                return snapshot
            with suppress(RecordNotFoundError):  # deleted in another tab
                if answer_id is not None:
                    return self._service.saved_answer(answer_id)
        return None

    @shows_errors(1)
    def toggle_panel(self, view: TabView, event: gr.EventData) -> Any:
        """The panel, opened or closed; closed, it keeps no choice of an answer."""
        view.is_panel_open = checked_flag(event._data, "open")
        if not view.is_panel_open:
            view.panel_message_id = None
        if view.place == (0, None):  # the page still loads, and shows the panel with its chat
            return gr.skip()
        return self.value_now(view)

    @shows_errors(1)
    def show_answer(self, view: TabView, event: gr.EventData) -> Any:
        """The panel with another answer of the open chat; the latest one gives way to later ones.

        An answer of the chat that the demo came from does so, too, once its step is let go.
        """
        message_id = checked_number(event._data, "id")
        place = view.place
        messages = self._messages(view)
        answer_ids = [message.id for message in messages if message.role == "assistant"]
        is_left_behind = message_id not in answer_ids
        if is_left_behind and message_id != view.panel_message_id:
            raise RefusedInputError("That answer is not in this chat any more.")
        if view.place != place:
            return gr.skip()
        is_latest = not is_left_behind and message_id == answer_ids[-1]
        view.panel_message_id = None if is_latest or is_left_behind else message_id
        return self.value(view, messages, self._running(view))

    @shows_errors(1)
    def hold_answer(self, view: TabView, event: gr.EventData) -> Any:
        """The panel, which stays at the answer whose step somebody looks at, whatever is asked."""
        message_id = checked_number(event._data, "id")
        if any(message.id == message_id for message in self._messages(view)):
            view.panel_message_id = message_id
        return self.value_now(view)

    @answers_errors
    def step_details(self, payload: object) -> dict[str, Any]:
        """All about one step {answer, step}; where that is not to be had, {error: a sentence}."""
        message_id = checked_number(payload, "answer")
        step_index = checked_number(payload, "step")
        return step_details_value(self._service.step_details(message_id, step_index))

    def value_now(self, view: TabView) -> Any:
        """The panel as it is now, unless the tab moves on meanwhile: that shows its own."""
        before = view.panel_place
        messages, snapshot = self._messages(view), self._running(view)
        return self.value(view, messages, snapshot) if view.panel_place == before else gr.skip()

    def _messages(self, view: TabView) -> list[ChatMessage]:
        if view.conversation_id is None:
            return []
        try:
            return self._service.messages(view.conversation_id)
        except RecordNotFoundError:
            return []

    def _running(self, view: TabView) -> AnswerSnapshot | None:
        if view.conversation_id is None:
            return None
        job = self._service.running_job(view.conversation_id)
        return None if job is None else job.snapshot()
