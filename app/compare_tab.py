"""The tab "Compare": components first, wiring second. Looks are in `static/compare.css`.

Knows no service. `app.ui` puts it among the tabs.
"""

from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from app.compare_handlers import CompareHandlers
from app.compare_presenter import comparison_value
from app.event_options import QUIET, WATCH
from app.sampling_controls import SamplingControls, optional_number, sampling_controls

__all__ = ["COMPARE_CSS", "CompareTab", "compare_tab", "wire_compare"]

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = ("panel/elements", "panel/tooltip", "compare")  # one function's body in the browser
COMPARE_CSS = _STATIC / "compare.css"

_MAX_NEW_TOKENS = 256
_SEED = 1
_ARM = (
    '<section data-arm="{name}" aria-label="{title}"><header><h3>{title}</h3><p></p></header>'
    '<div class="bar" aria-hidden="true"><i></i></div>'
    '<div class="text" dir="auto" tabindex="0" role="group" aria-label="Answer, {title}"></div>'
    "</section>"
)
_ARMS = (("plain", "Plain decoding"), ("lookahead", "Lookahead"))
# static: what fills it comes from the script, as text
_RESULT = (
    '<div class="result" hidden><p class="prompt" dir="auto" tabindex="0"></p>'
    '<p class="line" role="status"></p><div class="arms">'
    + "".join(_ARM.format(name=name, title=title) for name, title in _ARMS)
    + '</div><div class="outcome" role="status" hidden><p class="speed-up"><strong></strong> '
    '<span></span></p><p class="verdict"></p></div>'
    '<table><thead><tr><td></td><th scope="col">Plain decoding</th><th scope="col">Lookahead</th>'
    '</tr></thead><tbody></tbody></table><p class="note"></p></div>'
)


@dataclass(frozen=True, slots=True)
class CompareTab:
    """The components of the comparison."""

    prompt: gr.Textbox
    run: gr.Button
    stop: gr.Button
    temperature: gr.Textbox
    max_new_tokens: gr.Number
    sampling: SamplingControls
    result: gr.HTML


def compare_tab() -> CompareTab:
    """The components, to be made inside a `gr.Tab`."""
    with gr.Column(elem_id="compare-column"):
        gr.Markdown(
            "## Compare\nOne prompt, answered plainly and with lookahead in the same run, as a "
            "race: the one that has used less model time goes next. Nothing is saved or learned."
        )
        with gr.Row(elem_id="compare-composer", elem_classes="composer"):
            prompt = gr.Textbox(
                label="Prompt",
                show_label=False,
                container=False,
                placeholder="A prompt to race on …",
                lines=1,
                max_lines=8,
                scale=1,
                elem_id="compare-prompt",
            )
            run = gr.Button("Run", variant="primary", scale=0, min_width=88, elem_id="compare-run")
            stop = gr.Button(
                "Stop",
                variant="stop",
                scale=0,
                min_width=88,
                elem_id="compare-stop",
                visible=False,
            )
        with gr.Row(elem_id="compare-options", elem_classes="options"):
            temperature = optional_number("Temperature")
            max_new_tokens = gr.Number(_MAX_NEW_TOKENS, label="Max tokens")
            seed = optional_number("Seed", _SEED)
        sampling = sampling_controls("compare-sampling", seed)
        result = gr.HTML(
            comparison_value(None),
            html_template=_RESULT,
            js_on_load="\n".join(
                (_STATIC / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
            ),
            elem_id="comparison",
            apply_default_css=False,
        )
    return CompareTab(prompt, run, stop, temperature, max_new_tokens, sampling, result)


def wire_compare(
    page: gr.Blocks,
    handlers: CompareHandlers,
    tab: CompareTab,
    shown_tab: gr.Tab,
    *,
    view: gr.State,
    status: gr.HTML,
) -> None:
    """Run, Stop, and going on with what runs after a reload, or was begun on another page.

    `status` tells that the browser's tab comes into sight again.
    """
    shown = [tab.result, tab.run, tab.stop]
    started = gr.on(
        [tab.prompt.submit, tab.run.click],
        handlers.run,
        [
            *(view, tab.prompt, tab.temperature, tab.max_new_tokens),
            *(tab.sampling.seed, *tab.sampling.filters),
        ],
        shown,
        **QUIET,
    )
    started.then(handlers.watch, view, shown, trigger_mode="multiple", **WATCH)
    page.load(handlers.watch, view, shown, **WATCH)
    shown_tab.select(handlers.open_tab, view, shown, **WATCH)
    status.enter_tab(handlers.watch_again, view, shown, trigger_mode="multiple", **WATCH)
    tab.stop.click(handlers.stop, view, None, queue=False, **QUIET)
