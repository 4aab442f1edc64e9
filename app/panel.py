"""The panel beside the chat as a component: its scripts, joined, and nothing else.

Knows no service; `app.ui` places and wires it. The value is what `app.panel_presenter` makes; the
scripts build everything from it, with text put in as text; what the looks are called and mean is
part of the script. Gradio compiles the template anew with each value, so the template is empty.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from app.looks import LOOKS
from app.panel_presenter import PanelPresenter

__all__ = ["PANEL_CSS", "StepLoader", "panel_component"]

StepLoader = Callable[[Any], dict[str, Any]]

_STATIC = Path(__file__).parent / "static"
PANEL_CSS = _STATIC / "panel.css"

# One function's body in the browser, so in the order in which one uses the other.
_SCRIPTS = (
    *("elements", "tooltip", "sources", "step_log", "step_tip", "colour_scale", "follower"),
    *("step_text", "heatmap", "charts", "views", "legend", "numbers", "answers", "draft_tree"),
    *("details", "steps_table", "downloads", "picture", "shell", "main"),
)


_EVENTS = ("toggle_panel", "show_answer", "hold_answer", "open_chat")


def _find_event(panel: gr.HTML, name: str) -> Any:
    """An event by its name; gradio itself searches the whole script for every missing attribute,
    3 ms for each update that skips the panel."""
    if name in _EVENTS:
        return gr.HTML.__getattr__(panel, name)
    raise AttributeError(name)


# Made by hand: gradio's metaclass would write a stub file beside this one.
_Panel: Any = type.__new__(
    type(gr.HTML), "_Panel", (gr.HTML,), {"__getattr__": _find_event, "__module__": __name__}
)


def panel_component(load_step: StepLoader) -> gr.HTML:
    """The panel. Its events: `toggle_panel` {open}, `show_answer` and `hold_answer` {id},
    `open_chat` {id}.

    Args:
        load_step: gives the details of a step, of an unchecked payload from the page.
    """

    def step_details(payload: Any) -> dict[str, Any]:
        return load_step(payload)

    panel: gr.HTML = _Panel(
        PanelPresenter(lambda ids: {}).value([], None),
        html_template="<div></div>",
        js_on_load=_script(),
        server_functions=[step_details],
        elem_id="panel",
        apply_default_css=False,
    )
    return panel


def _script() -> str:
    looks = {
        key: {"name": look.name[0].upper() + look.name[1:], "meaning": look.definition}
        for key, look in LOOKS.items()
    }
    parts = [(_STATIC / "panel" / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    return "\n".join([f"const SOURCES = {json.dumps(looks)};", *parts])
