"""The chat service: what the page and the API ask for, answered by one worker thread.

Knows the database and the worker, no page and no HTTP. Made by the server or the command line,
usable from any thread.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.importing import SkippedFile
from app.services.answering import AnswerTask
from app.services.comparing import Comparisons
from app.services.completing import CompletionTask
from app.services.demonstrating import DemoJob, Demonstrations
from app.services.documents import DocumentImports
from app.services.engine import Engine, LookaheadEngine
from app.services.errors import (
    BusyError,
    EngineNotReadyError,
    NothingToAnswerError,
    ServiceClosedError,
)
from app.services.forgetting import Forgetting, RecentDeletion, undoable_since
from app.services.idle_learning import IDLE_LEARNING_SETTING
from app.services.import_requests import ImportRequest
from app.services.jobs import AnswerJob, CompareJob, ImportJob
from app.services.lease import DataFolderLease
from app.services.recording import chat_message
from app.services.saved_answers import SavedAnswers
from app.services.step_views import StepDetails
from app.services.trie_files import TakenIn, Written, export_trie, import_trie
from app.services.trie_reader import TrieReader
from app.services.unsaved import CANNOT_SAVE, UnsavedChats, unsaved_notice
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
from lookahead.trie import TrieStatistics
from storage import (
    Conversation,
    Database,
    RecordNotFoundError,
    SegmentCache,
    Source,
    StorageError,
)
from storage.records import DeletedKind

__all__ = ["ChatService"]

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

_TITLE_LENGTH = 60
_CLOSE_SECONDS = 60.0  # for the last step, the last file and the last saving
_CLOSE_LOADING_SECONDS = 10.0  # for the part of loading that runs; it leaves nothing to save


class ChatService:
    """Chats, documents and one model.

    Making it opens the database; see `storage.Database` for what that may raise.

    Args:
        engine: another engine than the real one, for tests.
    """

    def __init__(self, config: ServiceConfig, *, engine: Engine | None = None) -> None:
        self._database, reason = _open_database(config)
        self._unsaved = UnsavedChats(self._database, reason)
        self._indexing = DataFolderLease(config.data_dir, "indexing")
        self._cache = SegmentCache(
            config.cache_dir / "segments.db",
            self._database.database_id,
            may_write=lambda: not self._database.is_in_memory and self._indexing.take(),
        )
        self._engine = engine or LookaheadEngine()
        self._config = config
        self._worker: Worker[Workbench] = Worker(
            self._load, EngineState("preparing", "Starting the engine …", config.model)
        )
        self._tasks: dict[int, AnswerTask] = {}  # running or waiting, by conversation
        self._answers = SavedAnswers(self._database, lambda: self._worker.bench)
        self.imports = DocumentImports(self._database, self._worker, self.delete_documents)
        self.trie = TrieReader(self._database, lambda: self._worker.bench)
        self._comparisons = Comparisons(self._worker)
        self._demonstrations = Demonstrations(self, self._database)
        self._forgetting = Forgetting(self._database, self._worker, self._cache)
        self._lease = DataFolderLease(config.data_dir, "answering")
        self._is_closed = False
        self._lock = threading.RLock()

    def start(self) -> None:
        """Begin loading the model; returns at once.

        What an ended program left unfinished is marked as stopped, unless another one answers here.
        """
        if self._config.can_answer and self._lease.take():
            recovered = self._database.messages.recover_interrupted()
            if recovered:
                logger.info("%d interrupted answers were kept as far as they had come", recovered)
        self._forgetting.resume()
        self._worker.start()

    def _load(self, show: Callable[[EngineState], None]) -> Workbench:
        self._indexing.take()
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
        self._database.close()
        self._indexing.release()
        self._lease.release()

    # ------------------------------------------------------------------------------------- chats

    def conversations(self) -> list[Conversation]:
        """All chats, the latest first."""
        return self._unsaved.conversations()

    def messages(self, conversation_id: int) -> list[ChatMessage]:
        """The current branch of a chat, in order."""

        def read(database: Database, known_id: int) -> list[ChatMessage]:
            messages = database.messages.list(known_id)
            message_ids = [message.id for message in messages]
            generations = database.generations.for_messages(message_ids)
            quoted = database.passages.quoted(message_ids)
            return [
                chat_message(message, generations.get(message.id), quoted.get(message.id, ()))
                for message in messages
            ]

        return _read_in_place(partial(self._unsaved.place, conversation_id), read)

    def uses_documents(self, conversation_id: int) -> bool:
        """Whether a chat's questions are answered with passages. Raises RecordNotFoundError."""
        return _read_in_place(
            partial(self._unsaved.place, conversation_id),
            lambda database, known_id: database.passages.are_used(known_id),
        )

    def use_documents(self, conversation_id: int, is_used: bool) -> None:
        """Switch that on or off, for the questions to come. Raises RecordNotFoundError."""
        with self._lock:
            database, known_id = self._unsaved.place(conversation_id)
            database.passages.use(known_id, is_used)

    def delete_conversation(self, conversation_id: int) -> None:
        """Delete a chat with all that came of it; an answer being written for it is stopped.

        `undo` brings it back for some minutes. Raises RecordNotFoundError.
        """
        with self._lock:
            conversation_id = self._unsaved.known_id(conversation_id)
            task = self._tasks.get(conversation_id)
            with task.job.save_lock if task is not None else contextlib.nullcontext():
                self._delete(conversation_id)
                if task is not None:
                    task.job.is_discarded = True
            if task is not None:
                task.job.stop()
                self._is_over(task.job)
        for name in self._unsaved.names_of(conversation_id):
            self._worker.submit(_DropSession(name))

    def _delete(self, conversation_id: int) -> None:
        file_id = self._unsaved.file_id(conversation_id)
        if file_id is not None:
            self._forgetting.delete_conversation(file_id)
        self._unsaved.hide(conversation_id)

    def undo(self, kind: DeletedKind, ids: Collection[int]) -> None:
        """Bring back a chat, or documents deleted in one go.

        Raises RecordNotFoundError where the time for that has passed.
        """
        if kind == "document":
            self._forgetting.undo(kind, ids)
            return
        for conversation_id in ids:
            file_id = self._unsaved.file_id(conversation_id)
            if file_id is not None:
                self._forgetting.undo(kind, [file_id])  # may have to sort: nobody waits for it
            with self._lock:
                self._unsaved.restore(self._unsaved.known_id(conversation_id))

    def recent_deletions(self) -> list[RecentDeletion]:
        """What `undo` can bring back, the latest deletion first."""
        return self._forgetting.recent(self._unsaved.deletions())

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
        if not text.strip():
            raise NothingToAnswerError("The message is empty. Write something first.")
        with self._lock:
            self._require_open()
            self._save_unsaved()
            if conversation_id is None:
                conversation_id = self._begin(_title_of(text))
            conversation_id = self._unsaved.known_id(conversation_id)
            self._require_idle(conversation_id)

            def begin(database: Database, known_id: int) -> int:
                branch = database.messages.list(known_id)
                if uses_documents is not None:
                    database.passages.use(known_id, uses_documents)
                last = branch[-1] if branch else None
                if last is None or not (
                    database.is_in_memory and (last.role, last.text) == ("user", text)
                ):  # or else it was saved just before its answer could not be
                    last = database.messages.add_user(known_id, last.id if last else None, text)
                return self._start_answer(database, known_id, last.id)

            return self._answer(conversation_id, options, begin)

    def regenerate(self, conversation_id: int, options: AnswerOptions) -> AnswerJob:
        """Answer the last question of a chat again; the earlier answer stays beside the new one.

        Raises:
            NothingToAnswerError, BusyError, RecordNotFoundError: see `ask`.
        """
        with self._lock:
            self._require_open()
            self._save_unsaved()
            conversation_id = self._unsaved.known_id(conversation_id)
            self._require_idle(conversation_id)

            def begin(database: Database, known_id: int) -> int:
                branch = database.messages.list(known_id)
                questions = [message.id for message in branch if message.role == "user"]
                if not questions:
                    raise NothingToAnswerError("This chat has no question yet. Write one first.")
                return self._start_answer(database, known_id, questions[-1])

            return self._answer(conversation_id, options, begin)

    def _save_unsaved(self) -> None:
        self._unsaved.purge(undoable_since())
        self._unsaved.save()

    def _begin(self, title: str) -> int:
        """A new chat; in memory, where it cannot be saved."""
        try:
            return self._database.conversations.create(title).id
        except CANNOT_SAVE as error:
            return self._unsaved.begin(title, error)

    def _start_answer(self, database: Database, conversation_id: int, question_id: int) -> int:
        bench = self._worker.bench
        tokenizer_id = None if bench is None else bench.tokenizer_id
        answer = database.messages.start_answer(
            conversation_id, question_id, tokenizer_id=tokenizer_id
        )
        return answer.id

    def _answer(
        self,
        conversation_id: int,
        options: AnswerOptions,
        begin: Callable[[Database, int], int],
    ) -> AnswerJob:
        """Have an answer written that `begin` makes in a database; in memory, if it must be."""
        try:
            message_id = begin(*self._unsaved.place(conversation_id))
        except CANNOT_SAVE as error:
            self._unsaved.move(conversation_id, error)
            message_id = begin(*self._unsaved.place(conversation_id))
        database, known_id = self._unsaved.place(conversation_id)
        job = AnswerJob(conversation_id, message_id, options, on_stop=self._stop_waiting)
        task = AnswerTask(
            database,
            job,
            conversation_id=known_id,
            find_own_sequences=partial(self._own_sequences, conversation_id),
            notice=unsaved_notice(self._unsaved.reason if database.is_in_memory else ""),
            on_over=self._is_over,
            on_unsaved=self._go_on_in_memory,
        )
        self._tasks[conversation_id] = task
        self._worker.submit(task)
        return job

    def _own_sequences(self, conversation_id: int) -> list[int]:
        """The history of a chat that the Trie may hold, wherever the chat goes on."""
        file_id = self._unsaved.file_id(conversation_id)
        return [] if file_id is None else self._database.sequences.for_conversation(file_id)

    def _go_on_in_memory(self, job: AnswerJob, error: StorageError) -> tuple[Database, int]:
        """The answer of a job in memory, with its chat, since its end cannot be saved."""
        with self._lock:
            copies = self._unsaved.move(job.conversation_id, error)
            return self._unsaved.place(job.conversation_id)[0], copies[job.message_id]

    def running_job(self, conversation_id: int) -> AnswerJob | None:
        """The answer being written in a chat, or waiting for its turn."""
        task = self._tasks.get(self._unsaved.known_id(conversation_id))
        return None if task is None else task.job

    def _stop_waiting(self, job: AnswerJob) -> None:
        """An answer that has not begun need not wait for its turn to be stopped."""
        task = self._tasks.get(job.conversation_id)
        if task is not None and task.job is job and self._worker.withdraw(task):
            task.abandon()

    def _is_over(self, job: AnswerJob) -> None:
        task = self._tasks.get(job.conversation_id)
        if task is not None and task.job is job:
            self._tasks.pop(job.conversation_id, None)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ServiceClosedError("The program is closing. Start it again and ask again.")

    def _require_idle(self, conversation_id: int) -> None:
        if conversation_id in self._tasks:
            raise BusyError("An answer is being written in this chat. Wait for it, or stop it.")

    # ------------------------------------------------------------------------------------- panel

    def saved_answer(self, message_id: int) -> AnswerSnapshot:
        """An answer with its steps, from the database; as it stands now where it is being written.

        Needs no model. Raises RecordNotFoundError.
        """
        for task in list(self._tasks.values()):
            if task.job.message_id == message_id:
                return task.job.snapshot()
        place = partial(self._unsaved.place_of_message, message_id)
        return _read_in_place(
            place, lambda database, known_id: self._answers_in(database).snapshot(known_id)
        )

    def step_details(self, message_id: int, step_index: int) -> StepDetails:
        """A step of an answer, running or saved, with its whole draft tree.

        Raises RecordNotFoundError.
        """
        snapshot = self.saved_answer(message_id)
        place = partial(self._unsaved.place_of_message, snapshot.message_id)

        def read(database: Database, known_id: int) -> StepDetails:
            known = replace(snapshot, message_id=known_id)
            return self._answers_in(database).details(known, step_index)

        return _read_in_place(place, read)

    def _answers_in(self, database: Database) -> SavedAnswers:
        if database is self._database:
            return self._answers
        return SavedAnswers(database, lambda: self._worker.bench)

    def origin_labels(self, sequence_ids: Collection[int]) -> dict[int, str]:
        """What the sequences are called: names of documents, titles of chats, or "deleted"."""
        return self._answers.origin_labels(sequence_ids)

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

    def trie_statistics(self) -> TrieStatistics | None:
        """What the Trie holds; None until it is open."""
        bench = self._worker.bench
        return None if bench is None else bench.keeper.trie.statistics()


def _open_database(config: ServiceConfig) -> tuple[Database, str]:
    """The database, and why it is one in memory; an import must have its file."""
    try:
        return Database(config.data_dir), ""
    except CANNOT_SAVE as error:
        if not config.can_answer:
            raise
        logger.warning("nothing is saved: %s", error)
        return Database(None), str(error)


def _read_in_place(
    place: Callable[[], tuple[Database, int]], read: Callable[[Database, int], Found]
) -> Found:
    """What is read where something stands; once more where it was brought elsewhere meanwhile."""
    first = place()
    try:
        return read(*first)
    except RecordNotFoundError:
        second = place()
        if second == first:
            raise
        return read(*second)


class _DropSession:
    """The task of giving back a deleted chat's keys and values."""

    def __init__(self, conversation_id: int) -> None:
        self._conversation_id = conversation_id

    def run(self, bench: Workbench) -> None:
        bench.drop_session(self._conversation_id)

    def fail(self, sentence: str) -> None:
        """There is no session where there is no model."""

    def stop(self) -> None:
        """It takes no time."""

    def abandon(self) -> None:
        """All sessions are dropped at the end."""


def _title_of(text: str) -> str:
    """The first line, shortened at a word."""
    line = " ".join(text.strip().splitlines()[0].split()) if text.strip() else ""
    if len(line) <= _TITLE_LENGTH:
        return line
    return line[: _TITLE_LENGTH - 1].rsplit(" ", 1)[0].rstrip() + "…"
