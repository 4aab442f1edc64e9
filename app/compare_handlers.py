"""What happens on the tab "Compare": thin handlers between its components and the chat service.

Knows the service and the presenter, not the layout. `app.compare_tab` wires the methods; *shown*
stands for (comparison, run button, stop button).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import gradio as gr

from app.compare_presenter import comparison_value
from app.handlers import UPDATE_SECONDS, Outputs
from app.page_errors import shows_errors
from app.tab_view import TabView
from app.typed_options import Typed, answer_options

if TYPE_CHECKING:
    from app.services.chat_service import ChatService
    from app.services.comparison import ComparisonSnapshot

__all__ = ["CompareHandlers"]


class CompareHandlers:
    """The events of the tab, bound to the service. All tabs show the one latest comparison."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service

    @shows_errors(3)
    def run(
        self,
        view: TabView,
        prompt: str,
        temperature: Typed,
        max_new_tokens: Typed,
        seed: Typed,
        *filters: Typed,
    ) -> Outputs:
        """Begin a comparison: shown. An emptied seed means that one is drawn."""
        view.note_act()
        options = answer_options(True, temperature, max_new_tokens, seed, filters)
        return self._shown(self._service.compare(prompt, options).snapshot())

    @shows_errors(0)
    def stop(self, view: TabView) -> None:
        """Stop the running comparison, within one step of the model."""
        view.note_act()
        job = self._service.latest_comparison()
        if job is not None:
            job.stop()

    async def watch(self, view: TabView) -> AsyncIterator[Outputs]:
        """Shown, while the latest comparison runs in a tab in sight, and at its end once more."""
        job = self._service.latest_comparison()
        if job is None:
            yield (gr.skip(),) * 3
            return
        seen: tuple[int, bool] | None = None
        while not (snapshot := job.snapshot()).is_over:
            now = (snapshot.version, self._service.state.is_ready)
            if now != seen:
                seen = now
                yield self._shown(snapshot)
            if not view.is_in_sight:
                view.missed.add("comparison")
                return
            await asyncio.sleep(UPDATE_SECONDS)
        yield self._shown(snapshot)

    async def open_tab(self, view: TabView) -> AsyncIterator[Outputs]:
        """The same, for somebody who opens the tab "Compare"."""
        view.note_act()
        async for outputs in self.watch(view):
            yield outputs

    async def watch_again(self, view: TabView) -> AsyncIterator[Outputs]:
        """The same, in a tab that came into sight and has missed some of it."""
        if view.takes_up("comparison"):
            async for outputs in self.watch(view):
                yield outputs
        else:
            yield (gr.skip(),) * 3

    def _shown(self, snapshot: "ComparisonSnapshot") -> Outputs:
        return (
            comparison_value(snapshot, is_model_ready=self._service.state.is_ready),
            gr.update(visible=snapshot.is_over),  # Run and Stop share one place
            gr.update(visible=not snapshot.is_over),
        )
