"""Asking: a question is saved, its answer queued, and known until it is over.

Where the file takes nothing the chat goes on in memory. Knows the database and the worker, no
model. Used by the chat service and its parts, from any thread.
"""

import threading
from collections.abc import Callable
from functools import partial

from app.services.answering import AnswerTask
from app.services.errors import BusyError, NothingToAnswerError
from app.services.forgetting import undoable_since
from app.services.jobs import AnswerJob
from app.services.unsaved import CANNOT_SAVE, UnsavedChats, unsaved_notice
from app.services.views import AnswerOptions, AnswerSnapshot
from app.services.workbench import Workbench
from app.services.worker import Worker
from storage import Database, StorageError

__all__ = ["Asking"]

_TITLE_LENGTH = 60


class Asking:
    """Begins answers, one at a time in each chat, and knows those that are not over.

    Args:
        lock: the one under which chats are changed.
        require_open: raises ServiceClosedError once the program is closing.
    """

    def __init__(
        self,
        database: Database,
        unsaved: UnsavedChats,
        worker: Worker[Workbench],
        *,
        lock: threading.RLock,
        require_open: Callable[[], None],
    ) -> None:
        self._database = database
        self._unsaved = unsaved
        self._worker = worker
        self._lock = lock
        self._require_open = require_open
        self._tasks: dict[int, AnswerTask] = {}  # running or waiting, by conversation

    def ask(
        self,
        conversation_id: int | None,
        text: str,
        options: AnswerOptions,
        *,
        uses_documents: bool | None = None,
    ) -> AnswerJob:
        """See `ChatService.ask`."""
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
                last = database.messages.current(known_id)
                if uses_documents is not None:
                    database.passages.use(known_id, uses_documents)
                if last is None or not (
                    database.is_in_memory and (last.role, last.text) == ("user", text)
                ):  # or else it was saved just before its answer could not be
                    last = database.messages.add_user(known_id, last.id if last else None, text)
                return self._start_answer(database, known_id, last.id)

            return self._answer(conversation_id, options, begin)

    def running_job(self, conversation_id: int) -> AnswerJob | None:
        """The answer being written in a chat, or waiting for its turn."""
        task = self._tasks.get(self._unsaved.known_id(conversation_id))
        return None if task is None else task.job

    def running_answer(self, message_id: int) -> AnswerSnapshot | None:
        """An answer as it stands now; None where it is over, or never was."""
        for task in list(self._tasks.values()):
            if task.job.message_id == message_id:
                return task.job.snapshot()
        return None

    def forget(self, job: AnswerJob) -> None:
        """A job is over, or its chat deleted: its chat is free for the next question."""
        task = self._tasks.get(job.conversation_id)
        if task is not None and task.job is job:
            self._tasks.pop(job.conversation_id, None)

    def _require_idle(self, conversation_id: int) -> None:
        if conversation_id in self._tasks:
            raise BusyError("An answer is being written in this chat. Wait for it, or stop it.")

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
            on_over=self.forget,
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

    def _stop_waiting(self, job: AnswerJob) -> None:
        """An answer that has not begun need not wait for its turn to be stopped."""
        task = self._tasks.get(job.conversation_id)
        if task is not None and task.job is job and self._worker.withdraw(task):
            task.abandon()


def _title_of(text: str) -> str:
    """The first line, shortened at a word."""
    line = " ".join(text.strip().splitlines()[0].split()) if text.strip() else ""
    if len(line) <= _TITLE_LENGTH:
        return line
    return line[: _TITLE_LENGTH - 1].rsplit(" ", 1)[0].rstrip() + "…"
