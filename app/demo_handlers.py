"""What happens when somebody starts the demo, and how a tab follows it from answer to answer.

Knows the service and the handlers of the page, whose view it shows; `app.ui` wires the methods.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import gradio as gr

from app.handlers import UPDATE_SECONDS, Outputs, PageHandlers
from app.page_errors import shows_errors, told
from app.tab_view import TabView

if TYPE_CHECKING:
    from app.services.chat_service import ChatService
    from app.services.demonstrating import DemoJob

__all__ = ["DemoHandlers"]


class DemoHandlers:
    """The events of the demo, bound to the service."""

    def __init__(self, service: "ChatService", page: PageHandlers) -> None:
        self._service = service
        self._page = page

    @shows_errors(5, stops=True)
    def start(self, view: TabView) -> Outputs:
        """View of the chat where the demo stands; of a new one while it is prepared."""
        view.note_act()
        demo = self._service.start_demo()
        view.move(demo.snapshot().conversation_id, follows_demo=True)
        return self._page.view_now(view)

    async def watch(self, view: TabView) -> AsyncIterator[Outputs]:
        """The view, while the open chat's answer is being written.

        Where the demo was started in the tab, or the page was loaded where the demo stood, the tab
        follows it to its end, unless it is moved elsewhere meanwhile.
        """
        demo = self._service.running_demo()
        if demo is not None and view.follows_demo:
            watching = self._follow(view, demo)
        else:
            watching = self._page.watch_answer(view)
        async for outputs in watching:
            yield outputs

    async def watch_again(self, view: TabView) -> AsyncIterator[Outputs]:
        """The same, in a tab that came into sight and has missed some of it."""
        if view.takes_up("answer"):
            async for outputs in self.watch(view):
                yield outputs
        else:
            yield (gr.skip(),) * 5

    async def _follow(self, view: TabView, demo: "DemoJob") -> AsyncIterator[Outputs]:
        move, shown = view.num_moves, (-1, False, False)
        while view.num_moves == move:
            snapshot = demo.snapshot()
            now = (snapshot.num_asked, self._service.state.is_ready, snapshot.is_stopping)
            if snapshot.status == "preparing":
                if now != shown:
                    yield await asyncio.to_thread(
                        self._page.preparing_view, view, is_stopping=snapshot.is_stopping
                    )
                shown = now
            elif snapshot.num_asked > shown[0] and snapshot.conversation_id is not None:
                shown = now
                if not view.follow(snapshot.conversation_id, move):
                    return
                yield await asyncio.to_thread(self._page.view_now, view)
                async for outputs in self._page.watch_answer(view, ends_out_of_sight=False):
                    yield outputs
                continue
            elif snapshot.is_over:
                if snapshot.error:
                    told(f"The demo ended early: {snapshot.error}")
                if view.conversation_id is None:  # it was being prepared
                    yield await asyncio.to_thread(self._page.view_now, view)
                return
            await asyncio.sleep(UPDATE_SECONDS)
