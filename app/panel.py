"""The panel beside the chat as a component: its scripts, joined, and nothing else.

Knows no service; `app.ui` places and wires it. The value is what `app.panel_presenter` makes; the
scripts build everything from it, with text put in as text. Gradio compiles the template anew with
each value, so the template is empty.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from app.panel_presenter import PanelPresenter

__all__ = ["PANEL_CSS", "StepLoader", "panel_component"]

StepLoader = Callable[[Any], dict[str, Any]]

_STATIC = Path(__file__).parent / "static"
PANEL_CSS = _STATIC / "panel.css"

# One function's body in the browser, so in the order in which one uses the other.
_SCRIPTS = (
    *("elements", "sources", "step_log", "colour_scale", "follower", "tooltip", "step_text"),
    *("heatmap", "charts", "legend", "numbers", "answers", "draft_tree", "details"),
    *("steps_table", "downloads", "picture", "shell", "main"),
)


def panel_component(load_step: StepLoader) -> gr.HTML:
    """The panel. Its events: `toggle_panel` {open}, `show_answer` {id}, `open_chat` {id}.

    Args:
        load_step: gives the details of a step, of an unchecked payload from the page.
    """

    def step_details(payload: Any) -> dict[str, Any]:
        return load_step(payload)

    return gr.HTML(
        PanelPresenter(lambda ids: {}).value([], None),
        html_template="<div></div>",
        js_on_load="\n".join(
            (_STATIC / "panel" / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
        ),
        server_functions=[step_details],
        elem_id="panel",
        apply_default_css=False,
    )
