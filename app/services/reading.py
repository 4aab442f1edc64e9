"""Reading chats: their messages and the steps of their answers, wherever each chat stands.

Knows the database; needs no model, and asks those that write what is not saved yet. Used by the
chat service, from any thread.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from app.services.asking import Asking
from app.services.recording import chat_message
from app.services.saved_answers import SavedAnswers
from app.services.step_views import StepDetails
from app.services.unsaved import UnsavedChats
from app.services.views import AnswerSnapshot, ChatMessage
from app.services.workbench import Workbench
from storage import Database

__all__ = ["ChatReader"]


class ChatReader:
    """Reads chats.

    Args:
        loaded: gives the workbench, None while no model is loaded.
    """

    def __init__(
        self,
        database: Database,
        unsaved: UnsavedChats,
        asking: Asking,
        loaded: Callable[[], Workbench | None],
    ) -> None:
        self._database = database
        self._unsaved = unsaved
        self._asking = asking
        self._loaded = loaded
        self._answers = SavedAnswers(database, loaded)

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

        return self._unsaved.read(conversation_id, read)

    def uses_documents(self, conversation_id: int) -> bool:
        """Whether a chat's questions are answered with passages. Raises RecordNotFoundError."""
        return self._unsaved.read(
            conversation_id, lambda database, known_id: database.passages.are_used(known_id)
        )

    def answer(self, message_id: int) -> AnswerSnapshot:
        """An answer with its steps; as it stands now where it is being written.

        Raises RecordNotFoundError.
        """
        running = self._asking.running_answer(message_id)
        if running is not None:
            return running
        return self._unsaved.read_message(
            message_id, lambda database, known_id: self._answers_in(database).snapshot(known_id)
        )

    def step(self, message_id: int, step_index: int) -> StepDetails:
        """A step of an answer with its whole draft tree. Raises RecordNotFoundError."""
        snapshot = self.answer(message_id)

        def read(database: Database, known_id: int) -> StepDetails:
            known = replace(snapshot, message_id=known_id)
            return self._answers_in(database).details(known, step_index)

        return self._unsaved.read_message(snapshot.message_id, read)

    def origin_labels(self, sequence_ids: Collection[int]) -> dict[int, str]:
        """What the sequences are called: names of documents, titles of chats, or "deleted"."""
        return self._answers.origin_labels(sequence_ids)

    def _answers_in(self, database: Database) -> SavedAnswers:
        """Those of the file are kept: they remember what they read last."""
        return self._answers if database is self._database else SavedAnswers(database, self._loaded)
