"""The tab "Settings": what the program does by itself, for good. Components first, wiring second.

Knows no service. `app.ui` puts it among the tabs.
"""

import gradio as gr

from app.event_options import QUIET
from app.settings_handlers import SettingsHandlers

__all__ = ["settings_tab", "wire_settings"]

_INFO = (
    "Once per model it looks at every token of its vocabulary, and then at documents that were "
    "imported deeper, so that drafts are good from the first question on. It stops for every "
    "question and goes on where it was; the line at the top tells how far it is."
)


def settings_tab() -> gr.Checkbox:
    """The components, to be made inside a `gr.Tab`."""
    with gr.Column(elem_id="settings-column"):
        gr.Markdown("## Settings")
        return gr.Checkbox(
            True,
            label="Let the model prepare drafts while nothing is asked",
            info=_INFO,
            elem_id="idle-learning",
        )


def wire_settings(
    page: gr.Blocks,
    handlers: SettingsHandlers,
    switch: gr.Checkbox,
    shown_tab: gr.Tab,
    *,
    view: gr.State,
) -> None:
    """The switch is saved when it is moved, and shown as saved."""
    for shown in (page.load, shown_tab.select):
        shown(handlers.show, None, switch, **QUIET)
    switch.input(handlers.switch, [view, switch], None, **QUIET)
