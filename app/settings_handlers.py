"""What happens on the tab "Settings": thin handlers between its components and the chat service.

Knows the service, not the layout. `app.settings_tab` wires the methods.
"""

from typing import TYPE_CHECKING, Any

import gradio as gr

from app.page_errors import RefusedInputError, shows_errors
from app.tab_view import TabView

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["SettingsHandlers"]

_FORBIDDEN = (
    "Idle learning was switched off when the program was started, by --no-idle-learning, "
    "LOOKAHEAD_CHAT_IDLE_LEARNING or idle_learning in config.toml. Start it without to choose here."
)


class SettingsHandlers:
    """The events of the tab, bound to the service."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service

    @shows_errors(1)
    def show(self) -> Any:
        """The switch as it stands, whoever moved it."""
        if not self._service.may_learn_while_idle:
            return gr.update(value=False, interactive=False, info=_FORBIDDEN)
        return gr.update(value=self._service.is_idle_learning_on)

    @shows_errors(0)
    def switch(self, view: TabView, is_wanted: bool) -> None:
        """Switch idle learning on or off for good; refused where it is not the page's to choose."""
        view.note_act()
        if not self._service.may_learn_while_idle:
            raise RefusedInputError(_FORBIDDEN)
        self._service.set_idle_learning(bool(is_wanted))
