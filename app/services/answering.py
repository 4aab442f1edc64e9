"""The task of writing one answer of a chat: prompt, generation, progress, and the final save.

Knows the workbench, the database and its job. Run by the worker.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from app.prompting import Prompt
from app.services.chat_prompt import ChatPrompt, full_notice
from app.services.jobs import AnswerJob
from app.services.recording import generation_record, settled, step_record
from app.services.transcript import Transcript
from app.services.unsaved import CANNOT_SAVE, unsaved_notice
from app.services.views import AnswerNumbers
from app.services.workbench import Workbench
from lookahead.events import Finished, FinishReason, PrefillDone, StepDone
from storage import (
    Database,
    DocumentPassage,
    GenerationRecord,
    NewSequence,
    StepRecord,
    StorageError,
)
from storage.records import FinalStatus

__all__ = ["AnswerTask"]

logger = logging.getLogger(__name__)

SAVE_SECONDS = 0.5  # at least between two saves of a growing answer


class AnswerTask:
    """Writes one answer.

    Args:
        database: where it is written to; the chat's id there is `conversation_id`.
        find_own_sequences: the chat's own history, which it is not to draft from twice.
        notice: one sentence to show with it.
        on_unsaved: told when the end cannot be saved; gives the database in which it can be, and
            the id of the answer there.
        on_over: told when the job is over, whatever came of it.
    """

    def __init__(
        self,
        database: Database,
        job: AnswerJob,
        *,
        conversation_id: int,
        find_own_sequences: Callable[[], Sequence[int]],
        notice: str = "",
        on_over: Callable[[AnswerJob], None],
        on_unsaved: Callable[[AnswerJob, StorageError], tuple[Database, int]],
    ) -> None:
        self.job = job
        self._database = database
        self._conversation_id = conversation_id
        self._find_own_sequences = find_own_sequences
        self._notice = notice
        self._on_unsaved = on_unsaved
        self._on_over = on_over
        self._transcript: Transcript | None = None
        self._machine: dict[str, Any] = {}  # what writes, as it is recorded
        self._step_records: tuple[StepRecord, ...] = ()
        self._num_saved_steps = 0
        self._saved_at = 0.0

    def stop(self) -> None:
        """End within one step."""
        self.job.stop()

    def abandon(self) -> None:
        """It never began: the answer stays empty, and is marked as stopped."""
        self._break_off("stopped")

    def fail(self, sentence: str) -> None:
        """Keep what was said, mark the answer as failed and say why."""
        self._break_off("failed", sentence)

    def _break_off(self, status: FinalStatus, error: str = "") -> None:
        said: dict[str, Any] = {"text": "", "steps": ()}
        token_ids: tuple[int, ...] = ()
        numbers = generation = None
        transcript = self._transcript
        if transcript is not None and transcript.token_ids:
            token_ids = transcript.token_ids
            said = {
                "text": transcript.text,
                "steps": settled(self._step_records, transcript.text_lengths),
            }
            numbers = AnswerNumbers.from_stats(transcript.stats, status)
            generation = self._generation(transcript, status)
        with self.job.save_lock:
            if not self.job.is_discarded:
                try:
                    self._database.messages.finish_answer(
                        self.job.message_id,
                        token_ids=token_ids,
                        status=status,
                        generation=generation,
                        error=error,
                        **said,
                    )
                except StorageError as failure:  # recovered at the next start
                    logger.warning("an answer could not be marked as %s: %s", status, failure)
        self._end(status=status, numbers=numbers, error=error, **said)

    def _generation(self, transcript: Transcript, reason: str) -> GenerationRecord:
        return generation_record(transcript.stats, reason=reason, **self._machine)

    def run(self, bench: Workbench) -> None:
        """Write the answer; errors are the worker's to catch."""
        if self.job.is_stopped:
            self.abandon()
            return
        asked = ChatPrompt(self._database, self._conversation_id, self.job.message_id)
        passages = self._passages(bench, asked)
        prompt = asked.build(bench, passages)
        notice = " ".join(part for part in (full_notice(prompt), self._notice) if part)
        self.job.show(status="prefill", notice=notice, passages=passages)
        self._transcript = transcript = bench.transcript(prompt, self.job.options)
        self._machine = {
            "model": bench.ready_state.model,
            "dtype": str(bench.model.dtype).removeprefix("torch."),
            "device": str(bench.model.device),
        }
        self._saved_at = time.monotonic()
        for event in bench.generate(
            prompt,
            self.job.options,
            session_key=self.job.conversation_id,
            masked_sequence_ids=frozenset(self._find_own_sequences()),
            stop=transcript.stop,
            is_cancelled=lambda: self.job.is_stopped,
        ):
            transcript.take(event)
            match event:
                case PrefillDone():
                    self._show(transcript)
                case StepDone():
                    self._record(event, bench, prompt, transcript)
                    self._show(transcript)
                    self._save_progress(transcript)
                case Finished():
                    transcript.finish()
        self._finish(bench, prompt, transcript)
        if self.job.is_discarded:
            bench.drop_session(self.job.conversation_id)

    def _passages(self, bench: Workbench, asked: ChatPrompt) -> tuple[DocumentPassage, ...]:
        """What is quoted for this answer, where the chat uses documents; it is remembered."""
        with self.job.save_lock:
            if self.job.is_discarded or not self._database.passages.are_used(self._conversation_id):
                return ()
        passages = asked.find_passages(bench)
        with self.job.save_lock:
            if passages and not self.job.is_discarded:
                self._database.passages.save(
                    self.job.message_id, [(p.source_id, p.start, p.end) for p in passages]
                )
        return passages

    def _record(
        self, step: StepDone, bench: Workbench, prompt: Prompt, transcript: Transcript
    ) -> None:
        lengths = transcript.text_lengths[len(transcript.text_lengths) - len(step.token_ids) :]
        index = len(self._step_records)
        record = step_record(index, step, lengths, bench.keeper.trie, prompt.origin)
        self._step_records += (record,)

    def _show(self, transcript: Transcript) -> None:
        self.job.show(
            status="decoding",
            text=transcript.text,
            numbers=transcript.numbers,
            steps=self._step_records,
        )

    def _save_progress(self, transcript: Transcript) -> None:
        if time.monotonic() - self._saved_at < SAVE_SECONDS:
            return
        with self.job.save_lock:
            if self.job.is_discarded:
                return
            try:
                self._database.messages.save_progress(
                    self.job.message_id,
                    transcript.text,
                    transcript.token_ids,
                    generation=self._generation(transcript, reason=""),
                    steps=self._step_records[self._num_saved_steps :],
                    num_kept_steps=self._num_saved_steps,
                )
                self._num_saved_steps = len(self._step_records)
            except StorageError as error:  # the answer goes on; its end is saved or reported
                logger.warning("the progress of an answer could not be saved: %s", error)
        self._saved_at = time.monotonic()

    def _finish(self, bench: Workbench, prompt: Prompt, transcript: Transcript) -> None:
        """Save answer, numbers, steps and history in one transaction, then let the Trie know."""
        transcript.finish()
        steps = settled(self._step_records, transcript.text_lengths)
        is_stopped = transcript.reason is FinishReason.CANCELLED
        status: FinalStatus = "stopped" if is_stopped else "complete"
        history = [*prompt.history_ids, *transcript.token_ids]
        values: dict[str, Any] = {
            "text": transcript.text,
            "token_ids": transcript.token_ids,
            "status": status,
            "generation": self._generation(transcript, transcript.reason.value),
            "steps": steps,
            "sequence": (
                NewSequence(bench.tokenizer_id, history) if transcript.token_ids else None
            ),
        }
        try:
            self._save_end(values)
        except CANNOT_SAVE as error:
            self._database, self.job.message_id = self._on_unsaved(self.job, error)
            self._save_end(values)
            self.job.show(message_id=self.job.message_id, notice=unsaved_notice(str(error)))
        bench.keeper.catch_up()
        self._end(
            status=status,
            text=transcript.text,
            numbers=transcript.numbers,
            steps=steps,
        )

    def _save_end(self, values: dict[str, Any]) -> None:
        with self.job.save_lock:
            if not self.job.is_discarded:
                self._database.messages.finish_answer(self.job.message_id, **values)

    def _end(self, **changes: object) -> None:
        self._on_over(self.job)
        self.job.show(**changes)
