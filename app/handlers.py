"""What happens when somebody uses the page: thin handlers between components and the chat service.

Knows the service and the presenters, not the layout. `app.ui` wires the methods to components; each
returns values in the order of the outputs named in its docstring. Nothing here belongs to one tab:
what a tab shows lives in its own `gr.State`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import gradio as gr

from app import presenters
from app.services.errors import ServiceError
from app.services.views import AnswerOptions, AnswerSnapshot, ChatMessage, EngineState
from lookahead.errors import LookaheadError
from storage.errors import RecordNotFoundError, StorageError

if TYPE_CHECKING:
    from app.services.chat_service import ChatService
    from app.services.jobs import AnswerJob, ImportJob

__all__ = ["PageHandlers"]

logger = logging.getLogger(__name__)

UPDATE_SECONDS = 0.1  # the page is told at most ten times a second
ENGINE_UPDATE_SECONDS = 0.25
_MAX_ID_DIGITS = 18  # what fits the database's integers

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
View = tuple[int | None, list[dict[str, Any]], dict[str, Any], dict[str, Any], dict[str, Any]]
Update = tuple[Any, ...]


def shows_errors(handler: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The boundary of the page: an error becomes one sentence for the user, and is logged."""

    @wraps(handler)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return handler(*args, **kwargs)
        except gr.Error:
            raise
        except (ServiceError, StorageError, LookaheadError) as error:
            raise gr.Error(str(error), title="That did not work", print_exception=False) from error
        except Exception as error:
            logger.exception("%s failed", handler.__name__)
            raise gr.Error(
                "Something went wrong inside the app; the log has the details.",
                title="That did not work",
                print_exception=False,
            ) from error

    return guarded


class PageHandlers:
    """The page's events. A *view* is (conversation, chatbot, chat list, send, stop)."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service
        self._last_import: ImportJob | None = None  # one runs at a time; its report stays

    @shows_errors
    def open_page(self, request: gr.Request) -> View:
        """View of the chat named in the address (`/?chat=3`), else of a new chat."""
        chat = str(request.query_params.get("chat", ""))
        is_id = chat.isascii() and chat.isdigit() and len(chat) <= _MAX_ID_DIGITS
        return self._view(int(chat) if is_id else None)

    @shows_errors
    def new_chat(self) -> View:
        """View of a new chat; it gets a row with its first message."""
        return self._view(None)

    @shows_errors
    def open_chat(self, event: gr.EventData) -> View:
        """View of the chat that was clicked in the list."""
        return self._view(_chat_id(event))

    @shows_errors
    def delete_chat(self, conversation_id: int | None, event: gr.EventData) -> View:
        """Delete the chat confirmed in the list; the view is the open one, or a new chat."""
        deleted_id = _chat_id(event)
        self._service.delete_conversation(deleted_id)
        return self._view(None if conversation_id == deleted_id else conversation_id)

    @shows_errors
    def ask(
        self,
        text: str,
        conversation_id: int | None,
        lookahead: bool,
        temperature: float | None,
        max_new_tokens: float | None,
    ) -> tuple[str, *View]:
        """The message box (emptied), and the view with the question and its waiting answer."""
        if not text.strip():
            return (text, *self._view(conversation_id))
        options = answer_options(lookahead, temperature, max_new_tokens)
        job = self._service.ask(conversation_id, text, options)
        return ("", *self._view(job.conversation_id))

    @shows_errors
    def stop(self, conversation_id: int | None) -> None:
        """Stop the answer being written in this chat, within one step of the model."""
        job = self._job(conversation_id)
        if job is not None:
            job.stop()

    async def watch_answer(self, conversation_id: int | None) -> AsyncIterator[Update]:
        """Follow the chat's answer to its end: (chatbot, chat list, send, stop)."""
        if conversation_id is None:
            yield (gr.skip(),) * 4  # a generator that yields nothing would empty its outputs
            return
        job = self._job(conversation_id)
        version = -1
        while job is not None and not (snapshot := job.snapshot()).is_over:
            if version < 0:
                messages = await asyncio.to_thread(self._service.messages, conversation_id)
            if snapshot.version != version:
                version = snapshot.version
                yield (self._shown(messages, snapshot), gr.skip(), gr.skip(), gr.skip())
            await asyncio.sleep(UPDATE_SECONDS)
        end = job.snapshot() if job is not None else None
        yield (await asyncio.to_thread(self._view, conversation_id, end))[1:]

    async def watch_engine(self) -> AsyncIterator[dict[str, str]]:
        """The status line, until the model is ready or has failed to load."""
        shown: EngineState | None = None
        while shown is None or shown.status not in ("ready", "failed"):
            state = self._service.state
            if state != shown:
                shown = state
                yield presenters.engine_line(state)
            await asyncio.sleep(ENGINE_UPDATE_SECONDS)

    @shows_errors
    def import_folder(self, typed_path: str) -> str:
        """Start importing a typed folder or file: (path box, emptied)."""
        if not typed_path.strip():
            raise gr.Error("Type the path of a folder or a file first.", title="Nothing to import")
        path = Path(typed_path.strip().strip("\"'")).expanduser()
        if not path.is_absolute():
            raise gr.Error(
                "Type the whole path, from the top of the disk.", title="Nothing to import"
            )
        if not path.exists():
            raise gr.Error(f"There is no folder or file {path}.", title="Nothing to import")
        self._last_import = self._service.import_paths([path])
        return ""

    @shows_errors
    def import_files(self, uploaded: Sequence[str] | None) -> None:
        """Start importing uploaded files: (upload box, emptied)."""
        if uploaded:
            self._last_import = self._service.import_paths([Path(path) for path in uploaded])

    @shows_errors
    def cancel_import(self) -> None:
        """Stop the running import after the file it is reading."""
        job = self._service.running_import()
        if job is not None:
            job.cancel()

    async def watch_import(self) -> AsyncIterator[Update]:
        """Follow the latest import to its end: (report, documents, cancel button)."""
        job = self._service.running_import() or self._last_import
        documents = await asyncio.to_thread(self._documents)
        if job is None:
            yield (gr.skip(), documents, gr.skip())
            return
        version = -1
        while not (snapshot := job.snapshot()).is_over:
            if snapshot.version != version:
                version = snapshot.version
                yield (presenters.import_report(snapshot), documents, gr.update(visible=True))
            await asyncio.sleep(UPDATE_SECONDS)
        documents = await asyncio.to_thread(self._documents)
        yield (presenters.import_report(snapshot), documents, gr.update(visible=False))

    def _view(self, conversation_id: int | None, snapshot: AnswerSnapshot | None = None) -> View:
        """What a tab with this chat shows; `snapshot` is its answer's, if one was being written."""
        messages: list[ChatMessage] = []
        if snapshot is None and (job := self._job(conversation_id)) is not None:
            snapshot = job.snapshot()
        if conversation_id is not None:
            try:
                messages = self._service.messages(conversation_id)
            except RecordNotFoundError:  # deleted in another tab
                conversation_id, snapshot = None, None
        return (
            conversation_id,
            self._shown(messages, snapshot),
            self._chat_list(conversation_id),
            *_composer(is_running=snapshot is not None and not snapshot.is_over),
        )

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

    def _documents(self) -> list[dict[str, str]]:
        return presenters.document_list(self._service.documents())


def answer_options(
    lookahead: bool, temperature: float | None, max_new_tokens: float | None
) -> AnswerOptions:
    """The options typed on the page; an emptied field means its default."""
    default = AnswerOptions()
    return AnswerOptions(
        lookahead=bool(lookahead),
        temperature=default.temperature if temperature is None else float(temperature),
        max_new_tokens=int(max_new_tokens or default.max_new_tokens),
    )


def _composer(*, is_running: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send and Stop share one place."""
    return gr.update(visible=not is_running), gr.update(visible=is_running)


def _chat_id(event: gr.EventData) -> int:
    """The chat an event of the list is about; what the browser sends is checked."""
    chat_id = event._data.get("id") if isinstance(event._data, dict) else None
    if (
        not isinstance(chat_id, int)
        or isinstance(chat_id, bool)
        or len(str(chat_id)) > _MAX_ID_DIGITS
    ):
        raise gr.Error("The page sent something unexpected; reload it.")
    return chat_id
