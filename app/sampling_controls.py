"""The controls beyond temperature and length, folded away under a chat's and a comparison's row.

Knows components only. Their values are read by `app.typed_options`, in the order of `filters`.
"""

from dataclasses import dataclass
from typing import Any

import gradio as gr

__all__ = ["SamplingControls", "sampling_controls", "temperature_control"]

_OFF = "model's own"  # what an empty field means


@dataclass(frozen=True, slots=True)
class SamplingControls:
    """The components; `filters` as `answer_options` takes them."""

    seed: gr.Number
    filters: tuple[gr.Number | gr.Textbox, ...]


def temperature_control() -> gr.Number:
    """Without a range: gradio's errors do not name the field, the handlers' do."""
    return gr.Number(None, label="Temperature", step=0.1, placeholder=_OFF)


def sampling_controls(elem_id: str, seed: int | None) -> SamplingControls:
    """A closed accordion with all of them; a seed that is empty is drawn."""
    with (
        gr.Accordion("Sampling", open=False, elem_id=elem_id, elem_classes="sampling"),
        gr.Row(elem_classes="options"),
    ):
        fields: dict[str, dict[str, Any]] = {
            "Top-k": {"step": 1},
            "Top-p": {"step": 0.05},
            "Min-p": {"step": 0.01},
            "Repetition penalty": {"step": 0.05},
        }
        numbers = [
            gr.Number(None, label=label, placeholder=_OFF, **choices)
            for label, choices in fields.items()
        ]
        drawn = gr.Number(seed, label="Seed", placeholder="drawn")
        stop = gr.Textbox(
            label="Stop at",
            placeholder="one text a line, \\n for its end",
            lines=1,
            max_lines=4,
        )
    return SamplingControls(drawn, (*numbers, stop))
