"""The demo: prepared questions over a sample document, asked one after the other.

It uses the chat service as a person would, in a thread of its own, and has no other way to the
model. Used by the chat service.
"""

import hashlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.demo import CHATS, DOCUMENT, SEED
from app.services.errors import BusyError, ServiceClosedError
from app.services.jobs import AnswerJob
from app.services.views import AnswerOptions
from app.services.watched import Stoppable
from app.services.worker import explain
from storage import Database, RecordNotFoundError

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["DemoJob", "DemoSnapshot", "Demonstrations"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1  # between looks whether to stop while an import is waited for

DemoStatus = Literal["preparing", "running", "complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """Where the demo stands.

    Args:
        status: "preparing" while the sample document is imported.
        conversation_id: the chat of the question asked last; None: none was asked yet.
        num_asked: questions asked so far.
        error: one sentence, set where `status` is "failed".
        is_stopping: somebody asked it to end.
    """

    version: int
    status: DemoStatus
    conversation_id: int | None = None
    num_asked: int = 0
    error: str = ""
    is_stopping: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be asked, and the last answer is there."""
        return self.status not in ("preparing", "running")


class DemoJob(Stoppable[DemoSnapshot]):
    """A demo being held. Stopping the answer that is being written ends it, too."""


class Demonstrations:
    """Holds the demo, one at a time."""

    def __init__(self, service: "ChatService", database: Database) -> None:
        self._service = service
        self._database = database
        self._job: DemoJob | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> DemoJob:
        """Begin the demo; where it is running already, that one.

        First the sample document is imported where it is not there, after the import that runs, if
        any. Then the chats of an earlier demo make room, unless somebody went on in them.
        """
        with self._lock:
            running = self.running()
            if running is not None:
                return running
            self._job = DemoJob(DemoSnapshot(0, "preparing"))
            self._thread = threading.Thread(
                target=self._run, args=[self._job], name="demo", daemon=True
            )
            self._thread.start()
            return self._job

    def running(self) -> DemoJob | None:
        """The demo that is being held."""
        job = self._job
        return job if job is not None and not job.snapshot().is_over else None

    def close(self, timeout: float) -> None:
        """End it, and wait for that."""
        if self._job is not None and self._thread is not None:
            self._job.stop()
            self._thread.join(timeout)

    def _is_imported(self) -> bool:
        sha256 = hashlib.sha256(DOCUMENT.read_bytes()).hexdigest()
        return self._database.sources.find_by_sha256(sha256) is not None

    def _prepare(self, job: DemoJob) -> bool:
        """Have the document imported; False where that did not come about, which is shown."""
        while not self._is_imported():
            running = self._service.running_import()
            try:
                importing = running or self._service.import_paths([DOCUMENT])
            except BusyError:  # another one began in this moment
                continue
            while not (end := importing.wait_until_over(_POLL_SECONDS)).is_over:
                if job.is_stopped:
                    if running is None:
                        importing.cancel()
                    job.show(status="stopped")
                    return False
            if running is None and not self._is_imported():
                reasons = [reason for _, reason in end.skipped]
                reason = end.error or ", ".join(reasons) or "its import was cancelled"
                job.show(
                    status="failed", error=f"The sample document could not be imported: {reason}"
                )
                return False
        return True

    def _remove_earlier(self) -> None:
        """Delete chats that hold nothing but the demo's questions, in order, under its title."""
        scripts = {chat.title: [question.text for question in chat.questions] for chat in CHATS}
        for conversation in self._service.conversations():
            script = scripts.get(conversation.title)
            if script is None:
                continue
            messages = self._service.messages(conversation.id)
            asked = [message.text for message in messages if message.role == "user"]
            if asked == script[: len(asked)]:
                self._service.delete_conversation(conversation.id)

    def _questions(self) -> Iterator[AnswerJob]:
        """Ask one question after the other, each when the next answer is wanted."""
        for chat in CHATS:
            conversation_id = self._database.conversations.create(chat.title).id
            for question in chat.questions:
                options = AnswerOptions(
                    lookahead=True,
                    temperature=0.0,
                    max_new_tokens=question.max_new_tokens,
                    seed=SEED,
                )
                yield self._service.ask(conversation_id, question.text, options)

    def _run(self, job: DemoJob) -> None:
        try:
            if not self._prepare(job):
                return
            self._remove_earlier()
            for number, answer in enumerate(self._questions(), 1):
                if job.is_stopped:
                    answer.stop()
                job.show(status="running", conversation_id=answer.conversation_id, num_asked=number)
                ended = answer.wait_until_over()
                if ended.status != "complete":
                    is_failed = ended.status == "failed"
                    job.show(status="failed" if is_failed else "stopped", error=ended.error)
                    return
            job.show(status="complete")
        except (RecordNotFoundError, BusyError, ServiceClosedError) as error:
            # the chat was deleted, somebody asked in it, or the program is closing
            logger.info("the demo ended early: %s", error)
            job.show(status="stopped")
        except Exception as error:  # the thread's boundary: logged, shown in a sentence
            logger.exception("the demo failed")
            job.show(status="failed", error=explain(error, "The demo failed"))
