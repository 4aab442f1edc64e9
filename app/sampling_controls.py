"""The controls beyond temperature and length, folded away under a chat's and a comparison's row.

Knows components only. Their values are read by `app.typed_options`, in the order of `filters`.
"""

from dataclasses import dataclass

import gradio as gr

__all__ = ["SamplingControls", "optional_number", "sampling_controls"]

_OWN = "auto"  # an empty field means the model's own default


@dataclass(frozen=True, slots=True)
class SamplingControls:
    """The components; `filters` as `answer_options` takes them."""

    seed: gr.Textbox
    filters: tuple[gr.Textbox, ...]


def optional_number(label: str, value: int | None = None) -> gr.Textbox:
    """A field for a number that may be left empty: gradio's own sends 0 for nothing typed."""
    shown = "" if value is None else str(value)
    return gr.Textbox(shown, label=label, placeholder=_OWN, lines=1, max_lines=1, min_width=64)


def sampling_controls(elem_id: str, seed: gr.Textbox | None = None) -> SamplingControls:
    """A closed accordion with all of them; with a field for the seed where there is none yet."""
    with (
        gr.Accordion("Sampling", open=False, elem_id=elem_id, elem_classes="sampling"),
        gr.Row(elem_classes="options"),
    ):
        numbers = [
            optional_number(label) for label in ("Top-k", "Top-p", "Min-p", "Repetition penalty")
        ]
        seed = seed or optional_number("Seed")
        stop = gr.Textbox(
            label="Stop at",
            placeholder="one a line, \\n for its end",
            lines=1,
            max_lines=4,
            min_width=220,
        )
    return SamplingControls(seed, (*numbers, stop))
