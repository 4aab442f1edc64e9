"""What happens when somebody uses the page: thin handlers between components and the chat service.

Knows the service and the presenters, not the layout. `app.ui` wires the methods to components; each
returns values in the order of the outputs named in its docstring, where *view* stands for
(chatbot, chat list, send, stop, panel). What a tab shows lives in its own `TabView`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from app import presenters
from app.page_errors import shows_errors, told
from app.panel_handlers import PanelHandlers
from app.payloads import MAX_DIGITS, checked_number
from app.services.views import (
    AnswerSnapshot,
    ChatMessage,
    EngineState,
)
from app.tab_view import TabView
from app.typed_options import Typed, answer_options
from storage.errors import RecordNotFoundError

if TYPE_CHECKING:
    from app.services.chat_service import ChatService
    from app.services.jobs import AnswerJob

__all__ = ["UPDATE_SECONDS", "Outputs", "PageHandlers"]

UPDATE_SECONDS = 0.1  # the page is told at most ten times a second
# The browser renders all of an answer with each update, so that a long one is updated less often.
UPDATE_SECONDS_PER_CHARACTER = 3e-5
ENGINE_UPDATE_SECONDS = 0.25
_PREPARED_DEMO = "demo"  # in the place of a chat's id
_DELETED = "This chat was deleted."
SETTLED_UPDATE_SECONDS = 5.0  # gradio sees that a tab has gone when its handler yields

Outputs = tuple[Any, ...]


class PageHandlers:
    """The page's events, bound to the service."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service
        self.panel = PanelHandlers(service)

    @shows_errors(5)
    def open_page(self, view: TabView, request: gr.Request) -> Outputs:
        """View of the chat named in the address (`/?chat=3`), else of a new chat.

        Where the demo stands, also while it is prepared (`/?chat=demo`), the tab follows it.
        """
        chat = str(request.query_params.get("chat", ""))
        is_id = chat.isascii() and chat.isdigit() and len(chat) <= MAX_DIGITS
        conversation_id = int(chat) if is_id else None
        if conversation_id is not None and not self._messages(conversation_id):
            told(_DELETED)
        outputs = self.show_chat(view, conversation_id)
        view.follows_demo = self._stands_in_demo(view, chat)  # as the tab did before a reload
        return outputs

    @shows_errors(5)
    def new_chat(self, view: TabView) -> Outputs:
        """View of a new chat; it gets a row with its first message."""
        view.note_act()
        return self.show_chat(view, None)

    @shows_errors(5)
    def open_chat(self, view: TabView, event: gr.EventData) -> Outputs:
        """View of the chat that was clicked; where it was deleted, the tab stays where it is."""
        view.note_act()
        conversation_id = checked_number(event._data, "id")
        if self._messages(conversation_id):
            return self.show_chat(view, conversation_id)
        told(_DELETED)
        chats = self._chat_list(view.conversation_id)
        return (gr.skip(), chats, gr.skip(), gr.skip(), self.panel.value_now(view))

    @shows_errors(5)
    def delete_chat(self, view: TabView, event: gr.EventData) -> Outputs:
        """Delete the chat confirmed in the list; view of the open one, or of a new chat."""
        view.note_act()
        deleted_id = checked_number(event._data, "id")
        self._service.delete_conversation(deleted_id)
        is_open = view.conversation_id == deleted_id
        return self.show_chat(view, None if is_open else view.conversation_id)

    def show_chat(self, view: TabView, conversation_id: int | None) -> Outputs:
        """View of a chat; of a new one, where it is None or was deleted."""
        view.move(conversation_id if self._messages(conversation_id) else None)
        return self.view_now(view)

    def _stands_in_demo(self, view: TabView, chat: str) -> bool:
        if view.conversation_id is None and chat != _PREPARED_DEMO:
            return False
        demo = self._service.running_demo()
        return demo is not None and view.conversation_id in (None, demo.snapshot().conversation_id)

    def view_now(self, view: TabView) -> Outputs:
        """View of where the tab stands."""
        conversation_id = view.conversation_id
        job = self._job(conversation_id)
        snapshot = job.snapshot() if job is not None else None
        return self._view(view, conversation_id, snapshot)

    def preparing_view(self, view: TabView, *, is_stopping: bool) -> Outputs:
        """View of a new chat while the demo is prepared, which Stop ends."""
        chatbot = presenters.demo_preparation(
            is_model_ready=self._service.state.is_ready, is_stopping=is_stopping
        )
        _, chats, _, _, panel = self._view(view, None, None)
        chats = {**chats, "open": _PREPARED_DEMO}  # for the address
        return (chatbot, chats, gr.update(visible=False), gr.update(visible=True), panel)

    @shows_errors(6)
    def ask(
        self,
        view: TabView,
        text: str,
        lookahead: bool,
        temperature: Typed,
        max_new_tokens: Typed,
        documents: bool = False,
        seed: Typed = None,
        *filters: Typed,
    ) -> Outputs:
        """The message box (emptied), and the view with the question and its waiting answer.

        A chat that was deleted meanwhile gives way to a new one; the message stays in its box.
        """
        conversation_id = view.conversation_id
        view.note_act()
        view.move(conversation_id)
        options = answer_options(lookahead, temperature, max_new_tokens, seed, filters)
        try:
            job = self._service.ask(conversation_id, text, options, uses_documents=bool(documents))
        except RecordNotFoundError:  # the tab would be left in a chat that is no more
            gr.Warning("This chat was deleted meanwhile. Send again to ask in a new one.")
            outputs = (gr.skip(), *self.show_chat(view, None))
            view.wants_documents = bool(documents)
            return outputs
        return ("", *self.show_chat(view, job.conversation_id))

    @shows_errors(1)
    def conversation(self, view: TabView) -> Any:
        """The open chat as it is now: what was quoted in it may have been deleted."""
        return self.view_now(view)[0]

    @shows_errors(1)
    def document_switch(self, view: TabView) -> bool:
        """Whether the open chat uses documents; a new one does where it was switched on for it."""
        if view.conversation_id is None:
            return view.wants_documents
        try:
            return self._service.uses_documents(view.conversation_id)
        except RecordNotFoundError:  # deleted in another tab
            return False

    @shows_errors(0)
    def use_documents(self, view: TabView, is_used: bool) -> None:
        """Switch documents on or off for the open chat; a new one gets it with its question."""
        view.note_act()
        if view.conversation_id is None:
            view.wants_documents = bool(is_used)
        else:
            self._service.use_documents(view.conversation_id, bool(is_used))

    @shows_errors(0)
    def stop(self, view: TabView) -> None:
        """Stop the answer being written in this chat, within one step of the model.

        Or the demo that this tab follows, also while it is prepared.
        """
        view.note_act()
        job = self._job(view.conversation_id)
        demo = self._service.running_demo() if view.follows_demo else None
        for work in (job, demo):
            if work is not None:
                work.stop()

    async def watch_answer(
        self, view: TabView, *, ends_out_of_sight: bool = True
    ) -> AsyncIterator[Outputs]:
        """The view, while the open chat's answer is being written, and at its end once more.

        Out of sight it ends at once: `DemoHandlers.watch_again` goes on where it left.

        A busy browser takes two updates for one and looks at the later only, so each says all that
        those before it said. And gradio sends the last one again, so that nothing follows it.
        """
        conversation_id, place = view.conversation_id, view.place
        job = self._job(conversation_id)
        messages = await asyncio.to_thread(self._messages, conversation_id)
        presenter = self.panel.presenter()
        version, told_at = -1, 0.0
        controls: Outputs = ()

        def is_left() -> bool:
            return ends_out_of_sight and not view.is_in_sight

        while job is not None and view.place == place and not is_left():
            snapshot = job.snapshot()
            if snapshot.is_over:
                break
            is_due = time.monotonic() - told_at >= UPDATE_SECONDS_PER_CHARACTER * len(snapshot.text)
            if snapshot.version != version and is_due:
                panel = gr.skip()
                if view.panel_message_id in (None, snapshot.message_id):
                    panel = await asyncio.to_thread(
                        self.panel.value, view, messages, snapshot, presenter
                    )
                controls = controls or self._controls(conversation_id, snapshot)
                version, told_at = snapshot.version, time.monotonic()
                if view.place != place:
                    break
                yield (self._shown(messages, snapshot), *controls, panel)
            await asyncio.sleep(UPDATE_SECONDS)
        if not is_left() and conversation_id is not None and self._is_loading:
            yield await self._last_view(view, place, job)
            while self._is_loading and view.place == place and not is_left():
                await asyncio.sleep(ENGINE_UPDATE_SECONDS)
        was_left, wake = is_left(), view.num_wakes
        if was_left:
            view.missed.add("answer")
        # also for the panel, when the model has been loaded: some old texts need its tokenizer
        last = await self._last_view(view, place, job)
        if was_left and (not is_left() or view.num_wakes != wake):
            last = _skips(5)  # back in sight: a newer watcher tells, and this view may be older
        elif is_left():
            view.missed.add("answer")
        yield last

    @property
    def _is_loading(self) -> bool:
        return self._service.state.status in ("preparing", "loading")

    async def _last_view(
        self, view: TabView, place: tuple[int, int | None], job: "AnswerJob | None"
    ) -> Outputs:
        """The view at the end; nothing where the tab has moved on."""
        snapshot = job.snapshot() if job is not None else None
        last = await asyncio.to_thread(self._view, view, place[1], snapshot)
        return last if view.place == place else _skips(5)

    async def watch_engine(self, view: TabView, line: object = None) -> AsyncIterator[Any]:
        """The status line, for as long as the tab is in sight; once, where it is opened out of it.

        It must not end before: gradio closes the tab's event stream when nothing is pending any
        more, and what the tab sends in that moment is never answered. And it must end then: a
        browser has six connections to one address for all of its tabs. So no two lines are equal:
        a page out of sight answers each by leaving, and what got lost is made good by the next.

        Args:
            line: what the page has now; `is_hidden`: it was opened out of sight.
        """
        view.come_into_sight()
        if isinstance(line, dict) and line.get("is_hidden") is True:
            view.go_out_of_sight()
            yield {**presenters.engine_line(self._service.state), "wake": view.num_wakes, "beat": 0}
            return
        wake, beat = view.num_wakes, 0
        shown: EngineState | None = None
        told_at = 0.0
        while view.num_wakes == wake:
            state = self._service.state
            if state != shown or time.monotonic() - told_at >= SETTLED_UPDATE_SECONDS:
                shown, told_at, beat = state, time.monotonic(), beat + 1
                yield {**presenters.engine_line(state), "wake": wake, "beat": beat}
            await asyncio.sleep(ENGINE_UPDATE_SECONDS)

    def leave_tab(self, view: TabView) -> None:
        """The tab went out of sight: what it watches for its own sake ends."""
        view.go_out_of_sight()

    def _view(
        self, view: TabView, conversation_id: int | None, snapshot: AnswerSnapshot | None
    ) -> Outputs:
        messages = self._messages(conversation_id)
        return (
            self._shown(messages, snapshot),
            *self._controls(conversation_id, snapshot),
            self.panel.value(view, messages, snapshot),
        )

    def _controls(self, conversation_id: int | None, snapshot: AnswerSnapshot | None) -> Outputs:
        """Chat list, Send and Stop, which share one place."""
        is_running = snapshot is not None and not snapshot.is_over
        return (
            self._chat_list(conversation_id),
            gr.update(visible=not is_running),
            gr.update(visible=is_running),
        )

    def _messages(self, conversation_id: int | None) -> list[ChatMessage]:
        """The messages of a chat; none of a new one, or of one that was deleted in another tab."""
        if conversation_id is None:
            return []
        try:
            return self._service.messages(conversation_id)
        except RecordNotFoundError:
            return []

    def _shown(
        self, messages: Sequence[ChatMessage], snapshot: AnswerSnapshot | None
    ) -> list[dict[str, Any]]:
        is_ready = self._service.state.is_ready
        return presenters.chatbot_messages(messages, snapshot, is_model_ready=is_ready)

    def _job(self, conversation_id: int | None) -> "AnswerJob | None":
        return None if conversation_id is None else self._service.running_job(conversation_id)

    def _chat_list(self, open_id: int | None) -> dict[str, Any]:
        conversations = self._service.conversations()
        running_ids = {chat.id for chat in conversations if self._job(chat.id) is not None}
        return presenters.chat_list(conversations, open_id, running_ids)


def _skips(num_outputs: int) -> Outputs:
    return (gr.skip(),) * num_outputs
