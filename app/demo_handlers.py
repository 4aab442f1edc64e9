"""What happens when somebody starts the demo, and how a tab follows it from answer to answer.

Knows the service and the handlers of the page, whose view it shows; `app.ui` wires the methods.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from app.handlers import PageHandlers
from app.page_errors import shows_errors, told
from app.tab_view import TabView

if TYPE_CHECKING:
    from app.services.chat_service import ChatService
    from app.services.demonstrating import DemoJob

__all__ = ["DemoHandlers"]

UPDATE_SECONDS = 0.1

Outputs = tuple[Any, ...]


class DemoHandlers:
    """The events of the demo, bound to the service."""

    def __init__(self, service: "ChatService", page: PageHandlers) -> None:
        self._service = service
        self._page = page

    @shows_errors(5)
    def start(self, view: TabView) -> Outputs:
        """View of the chat where the demo begins, or of where it stands already."""
        demo = self._service.start_demo()
        return self._page.show_chat(view, demo.snapshot().conversation_id)

    async def watch(self, view: TabView) -> AsyncIterator[Outputs]:
        """The view, while the open chat's answer is being written.

        Where the demo stands in the open chat, the tab follows it to its end, unless it is moved
        elsewhere meanwhile.
        """
        demo = self._service.running_demo()
        if demo is not None and demo.snapshot().conversation_id == view.conversation_id:
            watching = self._follow(view, demo)
        else:
            watching = self._page.watch_answer(view)
        async for outputs in watching:
            yield outputs

    async def _follow(self, view: TabView, demo: "DemoJob") -> AsyncIterator[Outputs]:
        move, num_shown = view.num_moves, 0
        while view.num_moves == move:
            snapshot = demo.snapshot()
            if snapshot.num_asked > num_shown:
                num_shown = snapshot.num_asked
                view.follow(snapshot.conversation_id)
                yield await asyncio.to_thread(self._page.view_now, view)
                async for outputs in self._page.watch_answer(view):
                    yield outputs
            elif snapshot.is_over:
                if snapshot.error:
                    told(f"The demo ended early: {snapshot.error}")
                return
            else:
                await asyncio.sleep(UPDATE_SECONDS)
