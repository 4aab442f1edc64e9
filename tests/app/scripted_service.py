"""A chat service that answers from a script, so that tests of the page need no model."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.importing import SkippedFile
from app.services.comparison import ComparisonSnapshot
from app.services.errors import BusyError, EngineNotReadyError, NothingToAnswerError
from app.services.forgetting import RecentDeletion
from app.services.import_requests import ImportRequest
from app.services.jobs import AnswerJob, CompareJob, ImportJob
from app.services.step_views import StepDetails
from app.services.views import (
    AnswerNumbers,
    AnswerOptions,
    AnswerSnapshot,
    ChatMessage,
    Completion,
    EngineState,
)
from storage.errors import RecordNotFoundError
from storage.records import Conversation, DeletedKind, Source
from tests.app.scripted_steps import ORIGINS, scripted_answer, scripted_details

NUMBERS = AnswerNumbers(
    num_tokens=107,
    num_steps=36,
    num_forwards=37,
    tokens_per_second=41.2,
    tokens_per_step=2.94,
    acceptance_rate=0.618,
    reused_length=0,
    prefilled_length=12,
    mode="strict",
    seed=0,
    reason="end",
    num_drafted_tokens=115,
    num_accepted_tokens=71,
)
READY = EngineState("ready", "The model is ready.", "smollm2-135m", "strict", "bf16")
LOADING = EngineState("loading", "The model is loading …", "smollm2-135m")
NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


class ScriptedImportJob(ImportJob):
    """Tells the test when somebody cancelled it."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        super().cancel()
        self.cancelled.set()


class ScriptedImports:
    """The imports of a scripted service: what was not finished is set by the test."""

    def __init__(self, service: "ScriptedService") -> None:
        self._service = service
        self.request: ImportRequest | None = None
        self.folder_uris: list[str] = []

    def unfinished(self) -> ImportRequest | None:
        return self.request

    def resume(self) -> ScriptedImportJob:
        assert self.request is not None
        request, self.request = self.request, None
        return self._service.import_paths(request.paths, is_deeper=request.is_deeper)

    def dismiss(self) -> None:
        self.request = None

    def folders(self) -> list[str]:
        return self.folder_uris

    def remove_folder(self, uri: str) -> None:
        self.folder_uris = [folder for folder in self.folder_uris if folder != uri]


class ScriptedService:
    """Answers word by word; with 0 seconds a word each job is left to the test (`job.show`).

    An answer goes no further than three words while `may_go_on` is cleared. With steps, it is
    written step by step, each as long as so many words, and no further than three steps.
    """

    def __init__(
        self, answer: str = "Paris.", seconds_per_word: float = 0.0, *, has_steps: bool = False
    ) -> None:
        self.has_steps = has_steps
        self.state = READY
        self.answer = answer
        self.seconds_per_word = seconds_per_word
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.chats: dict[int, tuple[Conversation, list[ChatMessage]]] = {}
        self.jobs: list[AnswerJob] = []
        self.comparisons: list[CompareJob] = []
        self.import_job: ScriptedImportJob | None = None
        self.imported_paths: list[Path] = []
        self.is_import_deeper = False
        self.may_learn_while_idle = True
        self.is_idle_learning_on = True
        self.uploaded_paths: list[Path] = []
        self.not_uploaded: list[SkippedFile] = []
        self.imports = ScriptedImports(self)
        self.sources: list[Source] = []
        self.completed: list[tuple[list[dict[str, str]], AnswerOptions]] = []
        self.chats_with_documents: set[int] = set()
        self.deletions: list[tuple[RecentDeletion, Callable[[], None]]] = []
        self._num_messages = 0

    def start(self) -> None: ...

    def close(self) -> None:
        for job in self.jobs:
            job.stop()

    def conversations(self) -> list[Conversation]:
        return [conversation for conversation, _ in reversed(self.chats.values())]

    def messages(self, conversation_id: int) -> list[ChatMessage]:
        assert abs(conversation_id) < 2**63, "SQLite raises OverflowError"
        if conversation_id not in self.chats:
            raise RecordNotFoundError(f"There is no chat {conversation_id} any more.")
        return list(self.chats[conversation_id][1])

    def delete_conversation(self, conversation_id: int) -> None:
        self.messages(conversation_id)
        chat = self.chats.pop(conversation_id)
        self._deleted(
            "conversation",
            [conversation_id],
            chat[0].title,
            lambda: self.chats.update({conversation_id: chat}),
        )

    def _deleted(
        self, kind: DeletedKind, ids: Sequence[int], name: str, bring_back: Callable[[], None]
    ) -> None:
        self.deletions.insert(0, (RecentDeletion(kind, tuple(ids), name, 300.0), bring_back))

    def recent_deletions(self) -> list[RecentDeletion]:
        return [deletion for deletion, _ in self.deletions]

    def undo(self, kind: DeletedKind, ids: Sequence[int]) -> None:
        for place, (deletion, bring_back) in enumerate(self.deletions):
            if (deletion.kind, deletion.ids) == (kind, tuple(ids)):
                del self.deletions[place]
                bring_back()
                return
        raise RecordNotFoundError("This cannot be brought back any more.")

    def running_job(self, conversation_id: int) -> AnswerJob | None:
        for job in self.jobs:
            if job.conversation_id == conversation_id and not job.snapshot().is_over:
                return job
        return None

    def uses_documents(self, conversation_id: int) -> bool:
        self.messages(conversation_id)
        return conversation_id in self.chats_with_documents

    def use_documents(self, conversation_id: int, is_used: bool) -> None:
        self.messages(conversation_id)
        (set.add if is_used else set.discard)(self.chats_with_documents, conversation_id)

    def ask(
        self,
        conversation_id: int | None,
        text: str,
        options: AnswerOptions,
        *,
        uses_documents: bool | None = None,
    ) -> AnswerJob:
        if not text.strip():
            raise NothingToAnswerError("The message is empty. Write something first.")
        if conversation_id is None:
            conversation_id = len(self.chats) + 1
            self.chats[conversation_id] = (
                Conversation(conversation_id, text[:60], None, NOW, NOW),
                [],
            )
        self.messages(conversation_id)
        if self.running_job(conversation_id):
            raise BusyError("This chat is still being answered. Wait for it, or press Stop.")
        if uses_documents is not None:
            self.use_documents(conversation_id, uses_documents)
        self._add_message(conversation_id, "user", text, "complete")
        answer = self._add_message(conversation_id, "assistant", "", "streaming")
        job = AnswerJob(conversation_id, answer.id, options, lambda _: None)
        self.jobs.append(job)
        if self.seconds_per_word:
            threading.Thread(target=self._write, args=[job], daemon=True).start()
        return job

    def finish(self, job: AnswerJob, text: str, status: str = "complete") -> None:
        messages = self.chats[job.conversation_id][1]
        place = next(i for i, message in enumerate(messages) if message.id == job.message_id)
        numbers = self.numbers_of(text)
        messages[place] = replace(messages[place], text=text, status=status, numbers=numbers)
        steps = tuple(scripted_answer(text).steps) if self.has_steps else ()
        job.show(status=status, text=text, numbers=numbers, steps=steps)

    def numbers_of(self, text: str, num_steps: int | None = None) -> AnswerNumbers:
        if not self.has_steps:
            return NUMBERS
        answer = scripted_answer(text)
        return answer.numbers(len(answer.steps) if num_steps is None else num_steps, NUMBERS)

    def saved_answer(self, message_id: int) -> AnswerSnapshot:
        for job in self.jobs:
            if job.message_id == message_id and job.conversation_id in self.chats:
                return job.snapshot()
        raise RecordNotFoundError(f"There is no message {message_id} any more.")

    def step_details(self, message_id: int, step_index: int) -> StepDetails:
        snapshot = self.saved_answer(message_id)
        if not 0 <= step_index < len(snapshot.steps):
            raise RecordNotFoundError(f"Answer {message_id} has no step {step_index}.")
        # while it is written, the steps are those of the whole answer
        text = snapshot.text if snapshot.is_over else self.answer
        return scripted_details(message_id, text, step_index)

    def origin_labels(self, sequence_ids: Collection[int]) -> dict[int, str]:
        return {key: ORIGINS[key] for key in sequence_ids}

    def _write(self, job: AnswerJob) -> None:
        while not self.state.is_ready:
            time.sleep(0.02)
        if self.has_steps:
            self._write_steps(job)
            return
        text = ""
        for index, word in enumerate(self.answer.split(" ")):
            while index == 3 and not (self.may_go_on.wait(0.01) or job.is_stopped):
                pass
            if job.is_stopped:
                self.finish(job, text, "stopped")
                return
            text = f"{text} {word}".lstrip()
            job.show(status="decoding", text=text, numbers=NUMBERS)
            time.sleep(self.seconds_per_word)
        self.finish(job, text)

    def _write_steps(self, job: AnswerJob) -> None:
        answer = scripted_answer(self.answer)
        text = answer.first
        for index, texts in enumerate(answer.texts):
            while index == 3 and not (self.may_go_on.wait(0.01) or job.is_stopped):
                pass
            if job.is_stopped:
                self.finish(job, text, "stopped")
                return
            text += "".join(texts)
            numbers = answer.numbers(index + 1, NUMBERS)
            steps = tuple(answer.steps[: index + 1])
            job.show(status="decoding", text=text, numbers=numbers, steps=steps)
            time.sleep(self.seconds_per_word * len(texts))
        self.finish(job, text)

    def _add_message(self, conversation_id: int, role: str, text: str, status: str) -> ChatMessage:
        self._num_messages += 1
        message = ChatMessage(self._num_messages, conversation_id, role, text, status)
        self.chats[conversation_id][1].append(message)
        return message

    def complete(
        self, messages: list[dict[str, str]], options: AnswerOptions, is_cancelled: Any = None
    ) -> Completion:
        if not self.state.is_ready:
            raise EngineNotReadyError("The model could not be loaded: no such folder.")
        self.completed.append((messages, options))
        return Completion(self.answer, 12, 3, "end", "smollm2-135m", NUMBERS)

    def compare(self, prompt: str, options: AnswerOptions) -> CompareJob:
        """A comparison that the test shows."""
        if not prompt.strip():
            raise NothingToAnswerError("The prompt is empty. Write something first.")
        job = CompareJob(ComparisonSnapshot(0, "queued", prompt, "plain"), options, self.stopped)
        self.comparisons.append(job)
        return job

    def stopped(self, job: CompareJob) -> None:
        """What stopping a comparison leads to."""
        job.show(status="stopped")

    def latest_comparison(self) -> CompareJob | None:
        return self.comparisons[-1] if self.comparisons else None

    def running_demo(self) -> None:
        """No demo runs."""

    def set_idle_learning(self, is_wanted: bool) -> None:
        self.is_idle_learning_on = is_wanted

    def import_paths(self, paths: Sequence[Path], *, is_deeper: bool) -> ScriptedImportJob:
        self.is_import_deeper = is_deeper
        self.imported_paths = list(paths)
        self.import_job = ScriptedImportJob()
        self.import_job.show(status="running", num_files_total=len(paths))
        return self.import_job

    def import_uploads(
        self, folder: Path, skipped: Sequence[SkippedFile] = (), *, is_deeper: bool = False
    ) -> ScriptedImportJob:
        self.uploaded_paths = sorted(path for path in folder.rglob("*") if path.is_file())
        self.not_uploaded = list(skipped)
        return self.import_paths(self.uploaded_paths, is_deeper=is_deeper)

    def running_import(self) -> ScriptedImportJob | None:
        job = self.import_job
        return job if job is not None and not job.snapshot().is_over else None

    def documents(self) -> list[Source]:
        return list(self.sources)

    def pin_document(self, source_id: int, is_pinned: bool) -> None:
        for place, source in enumerate(self.sources):
            if source.id == source_id:
                self.sources[place] = replace(source, is_pinned=is_pinned)
                return
        raise RecordNotFoundError(f"There is no document {source_id} any more.")

    def delete_documents(self, source_ids: Sequence[int]) -> None:
        before = list(self.sources)
        kept = [source for source in before if source.id not in source_ids]
        if len(kept) + len(source_ids) > len(before):
            raise RecordNotFoundError(f"There is no document {min(source_ids)} any more.")
        self.sources = kept
        name = next(source.name for source in before if source.id in source_ids)
        self._deleted("document", source_ids, name, lambda: setattr(self, "sources", before))

    def delete_document(self, source_id: int) -> None:
        self.delete_documents([source_id])
