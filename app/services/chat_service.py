"""The chat service: what the page and the API ask for, answered by one worker thread.

Knows the database and the worker, no page and no HTTP. Made by the server or the command line,
usable from any thread.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from app.importing import SkippedFile
from app.services.asking import Asking
from app.services.comparing import Comparisons
from app.services.completing import CompletionTask
from app.services.data_folder import DataFolder
from app.services.deleting import Deleting
from app.services.demonstrating import DemoJob, Demonstrations
from app.services.documents import DocumentImports
from app.services.engine import Engine, LookaheadEngine
from app.services.errors import EngineNotReadyError, NothingToAnswerError, ServiceClosedError
from app.services.forgetting import Forgetting, RecentDeletion
from app.services.idle_learning import IDLE_LEARNING_SETTING
from app.services.import_requests import ImportRequest
from app.services.jobs import AnswerJob, CompareJob, ImportJob
from app.services.reading import ChatReader
from app.services.step_views import StepDetails
from app.services.trie_files import TakenIn, Written, export_trie, import_trie
from app.services.trie_reader import TrieReader
from app.services.unsaved import UnsavedChats
from app.services.views import (
    AnswerOptions,
    AnswerSnapshot,
    ChatMessage,
    Completion,
    EngineState,
    ServiceConfig,
)
from app.services.workbench import Workbench
from app.services.worker import Worker
from storage import Conversation, Source
from storage.records import DeletedKind

__all__ = ["ChatService"]

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 60.0  # for the last step, the last file and the last saving
_CLOSE_LOADING_SECONDS = 10.0  # for the part of loading that runs; it leaves nothing to save


class ChatService:
    """Chats, documents and one model.

    Making it opens the database; see `storage.Database` for what that may raise.

    Args:
        engine: another engine than the real one, for tests.
    """

    def __init__(self, config: ServiceConfig, *, engine: Engine | None = None) -> None:
        self._folder = DataFolder(config)
        self._database, self._cache = self._folder.database, self._folder.cache
        self._unsaved = UnsavedChats(self._database, self._folder.unsaved_reason)
        self._engine = engine or LookaheadEngine()
        self._config = config
        self._worker: Worker[Workbench] = Worker(
            self._load, EngineState("preparing", "Starting the engine …", config.model)
        )
        self._lock = threading.RLock()
        self._is_closed = False
        self._asking = Asking(
            *(self._database, self._unsaved, self._worker),
            lock=self._lock,
            require_open=self._require_open,
        )
        self._reader = ChatReader(
            *(self._database, self._unsaved, self._asking), lambda: self._worker.bench
        )
        self._forgetting = Forgetting(self._database, self._worker, self._cache)
        self.imports = DocumentImports(self._database, self._worker, self._forgetting.keep_time)
        self.trie = TrieReader(self._database, lambda: self._worker.bench)
        self._comparisons = Comparisons(self._worker)
        self._demonstrations = Demonstrations(self, self._database)
        self._deleting = Deleting(
            *(self._unsaved, self._asking, self._forgetting, self._worker), lock=self._lock
        )

    def start(self) -> None:
        """Begin loading the model; returns at once.

        What an ended program left unfinished is marked as stopped, unless another one answers here.
        """
        if self._config.can_answer:
            self._folder.recover_interrupted()
        self._forgetting.resume()
        self._worker.start()

    def _load(self, show: Callable[[EngineState], None]) -> Workbench:
        self._folder.take_indexing()
        return Workbench(self._engine, self._config, self._database, self._cache, show)

    @property
    def state(self) -> EngineState:
        """Where the model stands."""
        return self._worker.state

    def wait_until_ready(self, timeout: float | None = None) -> EngineState:
        """The state once the model is ready or has failed, or after `timeout` seconds."""
        return self._worker.wait_until_ready(timeout)

    def close(self) -> None:
        """Stop what runs, save what was learned, end the threads. May be called twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._forgetting.close()
        self.imports.close(_CLOSE_SECONDS)
        is_loaded = self._worker.bench is not None
        if not self._worker.close(_CLOSE_SECONDS if is_loaded else _CLOSE_LOADING_SECONDS):
            logger.log(
                logging.WARNING if is_loaded else logging.INFO,
                "the engine did not end in time; what it was doing is given up",
            )
        self._demonstrations.close(_CLOSE_SECONDS)
        self._unsaved.close()
        self._folder.close()

    # ------------------------------------------------------------------------------------- chats

    def conversations(self) -> list[Conversation]:
        """All chats, the latest first."""
        return self._unsaved.conversations()

    def messages(self, conversation_id: int) -> list[ChatMessage]:
        """The current branch of a chat, in order."""
        return self._reader.messages(conversation_id)

    def uses_documents(self, conversation_id: int) -> bool:
        """Whether a chat's questions are answered with passages. Raises RecordNotFoundError."""
        return self._reader.uses_documents(conversation_id)

    def use_documents(self, conversation_id: int, is_used: bool) -> None:
        """Switch that on or off, for the questions to come. Raises RecordNotFoundError."""
        with self._lock:
            database, known_id = self._unsaved.place(conversation_id)
            database.passages.use(known_id, is_used)

    def delete_conversation(self, conversation_id: int) -> None:
        """Delete a chat with all that came of it; an answer being written for it is stopped.

        `undo` brings it back for some minutes. Raises RecordNotFoundError.
        """
        self._deleting.delete_conversation(conversation_id)

    def undo(self, kind: DeletedKind, ids: Collection[int]) -> None:
        """Bring back a chat, or documents deleted in one go.

        Raises RecordNotFoundError where the time for that has passed.
        """
        self._deleting.undo(kind, ids)

    def recent_deletions(self) -> list[RecentDeletion]:
        """What `undo` can bring back, the latest deletion first."""
        return self._deleting.recent()

    def ask(
        self,
        conversation_id: int | None,
        text: str,
        options: AnswerOptions,
        *,
        uses_documents: bool | None = None,
    ) -> AnswerJob:
        """Save a question and have it answered; without a conversation a new one begins.

        Args:
            uses_documents: the chat's switch is put there first; None: it stays as it is.

        Raises:
            NothingToAnswerError: the text is empty.
            BusyError: the conversation has an answer being written.
            RecordNotFoundError: there is no such conversation.
        """
        return self._asking.ask(conversation_id, text, options, uses_documents=uses_documents)

    def running_job(self, conversation_id: int) -> AnswerJob | None:
        """The answer being written in a chat, or waiting for its turn."""
        return self._asking.running_job(conversation_id)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ServiceClosedError("The program is closing. Start it again and ask again.")

    # ------------------------------------------------------------------------------------- panel

    def saved_answer(self, message_id: int) -> AnswerSnapshot:
        """An answer with its steps, from the database; as it stands now where it is being written.

        Needs no model. Raises RecordNotFoundError.
        """
        return self._reader.answer(message_id)

    def step_details(self, message_id: int, step_index: int) -> StepDetails:
        """A step of an answer, running or saved, with its whole draft tree.

        Raises RecordNotFoundError.
        """
        return self._reader.step(message_id, step_index)

    def origin_labels(self, sequence_ids: Collection[int]) -> dict[int, str]:
        """What the sequences are called: names of documents, titles of chats, or "deleted"."""
        return self._reader.origin_labels(sequence_ids)

    # --------------------------------------------------------------------------------------- API

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        options: AnswerOptions,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> Completion:
        """Answer a list of messages and wait for it; nothing is saved.

        Raises:
            EngineNotReadyError: the model is not loaded (yet).
            LookaheadError: the request cannot be answered as it is.
            ServiceError: the engine failed, or the program is closing.
        """
        self._require_open()
        if not messages:
            raise NothingToAnswerError("There are no messages to answer.")
        if not self.state.is_ready:
            raise EngineNotReadyError(f"The model is not ready: {self.state.detail}")
        task = CompletionTask(messages, options, is_cancelled)
        self._worker.submit(task)
        return task.result()

    # ---------------------------------------------------------------------- demo and comparisons

    def start_demo(self) -> DemoJob:
        """Have the prepared questions asked; where that goes on already, the running demo."""
        self._require_open()
        return self._demonstrations.start()

    def running_demo(self) -> DemoJob | None:
        """The demo that is being held."""
        return self._demonstrations.running()

    def compare(self, prompt: str, options: AnswerOptions) -> CompareJob:
        """Answer a prompt plainly and with lookahead in one run; nothing is saved or learned.

        Raises:
            NothingToAnswerError: the prompt is empty.
            BusyError: a comparison is running.
            InvalidRequestError: an option is out of range.
        """
        if not prompt.strip():
            raise NothingToAnswerError("The prompt is empty. Write something first.")
        with self._lock:
            self._require_open()
            return self._comparisons.start(prompt, options)

    def latest_comparison(self) -> CompareJob | None:
        """The running comparison, or else the last one."""
        return self._comparisons.latest()

    # ----------------------------------------------------------------------------- idle learning

    @property
    def is_idle_learning_on(self) -> bool:
        """Whether the model prepares drafts while nothing is asked."""
        chosen = bool(self._database.settings.get(IDLE_LEARNING_SETTING, True))
        return self.may_learn_while_idle and chosen

    @property
    def may_learn_while_idle(self) -> bool:
        """Whether it can be switched on: what the program was started with can forbid it."""
        return self._config.idle_learning

    def set_idle_learning(self, is_wanted: bool) -> None:
        """Switch it on or off for good."""
        self._database.settings.set(IDLE_LEARNING_SETTING, is_wanted)
        self._worker.request_idle_work()

    # --------------------------------------------------------------------------------- documents

    def import_paths(self, paths: Iterable[Path], *, is_deeper: bool = False) -> ImportJob:
        """Take in files and folders in the background, as soon as the tokenizer is there.

        Args:
            is_deeper: whether the model is to read them, too, once nothing is asked.

        Raises:
            BusyError: another import is running.
        """
        return self.imports.start(ImportRequest(tuple(paths), is_deeper=is_deeper))

    def import_uploads(
        self, folder: Path, skipped: Iterable[SkippedFile] = (), *, is_deeper: bool = False
    ) -> ImportJob:
        """Take in the files of a folder that came through the browser; in the end it is removed.

        A file takes the place of the one of the same name that was uploaded before. Raises as
        `import_paths`.

        Args:
            skipped: what was not wanted of them, for the report.
        """
        return self.imports.start(
            ImportRequest((folder,), is_upload=True, skipped=tuple(skipped), is_deeper=is_deeper)
        )

    def running_import(self) -> ImportJob | None:
        """The import that is running."""
        return self.imports.running()

    def documents(self) -> list[Source]:
        """The imported documents, the latest first."""
        return self._database.sources.list()

    def pin_document(self, source_id: int, is_pinned: bool) -> None:
        """Keep a document in the Trie whatever its budget, or no longer.

        Raises RecordNotFoundError.
        """
        self._database.sources.pin(source_id, is_pinned)
        self._worker.request_idle_work()

    def delete_document(self, source_id: int) -> None:
        """Delete one document; see `delete_documents`."""
        self.delete_documents([source_id])

    def delete_documents(self, source_ids: Collection[int]) -> None:
        """Delete documents and forget their words; `undo` brings them back for some minutes.

        Raises RecordNotFoundError where one is not there; then none is deleted.
        """
        self.imports.forget_copies(source_ids)
        self._forgetting.delete_documents(source_ids)

    def export_trie(self, path: Path, report: Callable[[str], None]) -> Written:
        """Write what the Trie was made from to a file.

        Raises EngineNotReadyError, or TrieFileError where it cannot be written.
        """
        return export_trie(self._database, self._ready_bench(), path, report)

    def import_trie(self, path: Path, report: Callable[[str], None]) -> TakenIn:
        """Take in what such a file holds, as documents.

        Raises EngineNotReadyError, or TrieFileError where it is no whole file of that kind.
        """
        return import_trie(self._database, self._ready_bench(), path, report)

    def _ready_bench(self) -> Workbench:
        bench = self._worker.bench
        if bench is None:
            raise EngineNotReadyError(f"The model is not ready: {self.state.detail}")
        return bench
