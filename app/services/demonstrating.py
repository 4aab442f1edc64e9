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
from app.services.jobs import AnswerJob, ImportJob
from app.services.views import AnswerOptions
from app.services.watched import Watched
from app.services.worker import explain
from storage import Database, RecordNotFoundError

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["DemoJob", "DemoSnapshot", "Demonstrations"]

logger = logging.getLogger(__name__)

_IMPORT_SECONDS = 10.0  # a page of text takes a fraction of one

DemoStatus = Literal["running", "complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """Where the demo stands.

    Args:
        conversation_id: the chat of the question asked last.
        num_asked: questions asked so far, of `num_questions`.
        error: one sentence, set where `status` is "failed".
    """

    version: int
    status: DemoStatus
    conversation_id: int
    num_asked: int
    num_questions: int
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be asked, and the last answer is there."""
        return self.status != "running"


class DemoJob(Watched[DemoSnapshot]):
    """A demo being held. Stopping the answer that is being written ends it."""


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

        The chats of an earlier demo make room, unless somebody went on in them. The sample document
        is imported where it is not there.

        Raises:
            BusyError: an import is running, so that the document would have to wait.
        """
        with self._lock:
            running = self.running()
            if running is not None:
                return running
            importing = self._import_document()
            self._remove_earlier()
            questions = self._questions()
            answer = next(questions)
            number = sum(len(chat.questions) for chat in CHATS)
            job = self._job = DemoJob(DemoSnapshot(0, "running", answer.conversation_id, 1, number))
            self._thread = threading.Thread(
                target=self._run,
                args=(job, answer, questions, importing),
                name="demo",
                daemon=True,
            )
            self._thread.start()
            return job

    def running(self) -> DemoJob | None:
        """The demo that is being held."""
        job = self._job
        return job if job is not None and not job.snapshot().is_over else None

    def close(self, timeout: float) -> None:
        """Wait for its end, once its answer was stopped."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _import_document(self) -> ImportJob | None:
        sha256 = hashlib.sha256(DOCUMENT.read_bytes()).hexdigest()
        if self._database.sources.find_by_sha256(sha256) is not None:
            return None
        importing = self._service.import_paths([DOCUMENT])
        if self._service.state.is_ready:  # else the first question waits for the model, too
            importing.wait_until_over(_IMPORT_SECONDS)
        return importing

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

    def _run(
        self,
        job: DemoJob,
        answer: AnswerJob,
        questions: Iterator[AnswerJob],
        importing: ImportJob | None,
    ) -> None:
        try:
            while True:
                ended = answer.wait_until_over()
                if ended.status != "complete":
                    is_failed = ended.status == "failed"
                    job.show(status="failed" if is_failed else "stopped", error=ended.error)
                    return
                if importing is not None and (failure := importing.snapshot()).status == "failed":
                    job.show(status="failed", error=failure.error)
                    return
                following = next(questions, None)
                if following is None:
                    job.show(status="complete")
                    return
                answer = following
                job.show(
                    conversation_id=answer.conversation_id,
                    num_asked=job.snapshot().num_asked + 1,
                )
        except (RecordNotFoundError, BusyError, ServiceClosedError) as error:
            # the chat was deleted, somebody asked in it, or the program is closing
            logger.info("the demo ended early: %s", error)
            job.show(status="stopped")
        except Exception as error:  # the thread's boundary: logged, shown in a sentence
            logger.exception("the demo failed")
            job.show(status="failed", error=explain(error, "The demo failed"))
