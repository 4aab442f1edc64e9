"""The Trie tab: components first, wiring second. Looks are in `static/trie.css`.

Knows no service. `app.ui` puts it among the tabs.
"""

from pathlib import Path
from typing import Any

import gradio as gr

from app.event_options import QUIET
from app.trie_handlers import TrieHandlers
from app.trie_presenter import overview_value

__all__ = ["TRIE_CSS", "trie_tab", "wire_trie"]

_STATIC = Path(__file__).parent / "static"
# one function's body in the browser
_SCRIPTS = ("panel/elements", "panel/tooltip", "panel/numbers", "trie")
TRIE_CSS = _STATIC / "trie.css"

# static: what fills it comes from the script, as text
_TEMPLATE = (
    '<p class="note" role="status" hidden></p><div class="totals"></div>'
    '<form class="look"><label>Begin with <input type="text" autocomplete="off" spellcheck="false"'
    ' placeholder="some words, or nothing for the most frequent tokens"></label></form>'
    '<nav aria-label="Path"><ol></ol></nav><p class="line" role="status"></p>'
    '<table hidden><thead><tr><th scope="col">Next</th><th scope="col">Count</th>'
    '<th scope="col">Goes on, for instance</th><th scope="col">From</th></tr></thead>'
    "<tbody></tbody></table>"
)


def trie_tab(handlers: TrieHandlers) -> gr.HTML:
    """The component, to be made inside a `gr.Tab`. Its event: `open_chat` {id}."""

    def trie_walk(payload: Any) -> dict[str, Any]:
        return handlers.walk(payload)

    with gr.Column(elem_id="trie-column"):
        gr.Markdown(
            "## Trie\nAll that was read and written here, as the paths it can go on with. Drafts "
            "are the likeliest of these branches."
        )
        return gr.HTML(
            overview_value(None),
            html_template=_TEMPLATE,
            js_on_load="\n".join(
                (_STATIC / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
            ),
            server_functions=[trie_walk],
            elem_id="trie",
            apply_default_css=False,
        )


def wire_trie(handlers: TrieHandlers, trie: gr.HTML, shown_tab: gr.Tab) -> None:
    """The numbers are those of the moment in which the tab is opened."""
    shown_tab.select(handlers.overview, None, trie, **QUIET)
