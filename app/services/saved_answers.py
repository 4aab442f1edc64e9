"""Answers as the panel is shown them: from the database, with what tells where tokens came from.

Knows the database and, where one is loaded, the tokenizer; needs no model. Used by the chat
service, from any thread.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from app.services.recording import answer_numbers, settled
from app.services.step_details import DELETED_LABEL, StepReader, label_of
from app.services.step_views import StepDetails
from app.services.text_stream import TextStream
from app.services.views import AnswerSnapshot, AnswerStatus
from app.services.workbench import Workbench
from storage import Database, Message, RecordNotFoundError, StepRecord

__all__ = ["SavedAnswers"]

_VERSION = 2**31  # above that of any running answer


class SavedAnswers:
    """Reads answers.

    Args:
        loaded: gives the workbench, None while no model is loaded. Its tokenizer is used to decode
            only, which any thread may do while another one encodes.
    """

    def __init__(self, database: Database, loaded: Callable[[], Workbench | None]) -> None:
        self._database = database
        self._loaded = loaded
        self._latest: tuple[Message, Workbench | None, AnswerSnapshot] | None = None

    def snapshot(self, message_id: int) -> AnswerSnapshot:
        """A saved answer with its steps. Raises RecordNotFoundError."""
        message = self._database.messages.get(message_id)
        if message.role != "assistant":
            raise RecordNotFoundError(f"Message {message_id} is a question, not an answer.")
        bench = self._loaded()
        latest = self._latest
        if latest is not None and latest[:2] == (message, bench) and message.status != "streaming":
            return latest[2]
        snapshot = self._read(message)
        self._latest = (message, bench, snapshot)  # the page asks for one step after the other
        return snapshot

    def _read(self, message: Message) -> AnswerSnapshot:
        generation = self._database.generations.for_message(message.id)
        steps: Sequence[StepRecord] = ()
        if generation is not None and generation.id is not None:
            steps = self._with_lengths(
                message, self._database.generations.list_steps(generation.id)
            )
        status: AnswerStatus = "decoding" if message.status == "streaming" else message.status
        return AnswerSnapshot(
            version=_VERSION,
            conversation_id=message.conversation_id,
            message_id=message.id,
            status=status,
            text=message.text,
            numbers=answer_numbers(generation),
            steps=tuple(steps),
            error=message.error,
            passages=self._database.passages.quoted([message.id]).get(message.id, ()),
        )

    def _with_lengths(self, message: Message, steps: Sequence[StepRecord]) -> Sequence[StepRecord]:
        """The steps; those recorded without text lengths get them, where the ids can be read."""
        if all(step.text_lengths or not step.token_ids for step in steps):
            return steps
        tokenizer = self._tokenizer_of(message)
        if tokenizer is None:
            return steps
        stream = TextStream(tokenizer)
        stream.append(message.token_ids)
        if stream.settle(len(message.token_ids)) != message.text:
            return steps
        return settled(steps, stream.text_lengths)

    def _tokenizer_of(self, message: Message) -> Any:
        """The tokenizer of an answer's ids; None where it is not the loaded one.

        An answer begun while the model was loading does not say so itself; its history does.
        """
        bench = self._loaded()
        if bench is None:
            return None
        tokenizer_id = message.tokenizer_id
        if tokenizer_id is None:
            sequence = self._database.sequences.for_message(message.id)
            is_written_now = message.status == "streaming"
            tokenizer_id = bench.tokenizer_id if is_written_now else None
            tokenizer_id = tokenizer_id if sequence is None else sequence.tokenizer_id
        return bench.model.tokenizer if tokenizer_id == bench.tokenizer_id else None

    def details(self, snapshot: AnswerSnapshot, step_index: int) -> StepDetails:
        """The whole tree of a step of an answer, running or saved. Raises RecordNotFoundError."""
        message = self._database.messages.get(snapshot.message_id)
        if not 0 <= step_index < len(snapshot.steps):
            raise RecordNotFoundError(
                f"Answer {snapshot.message_id} has no step {step_index}: it has "
                f"{len(snapshot.steps)}, counted from 0."
            )
        return StepReader(self._database, self._tokenizer_of(message)).details(snapshot, step_index)

    def origin_labels(self, sequence_ids: Collection[int]) -> dict[int, str]:
        """What each sequence is called: its document's name, its chat's title, or "deleted"."""
        origins = self._database.sequences.origins(sequence_ids)
        known = {sequence_id: label_of(origin) for sequence_id, origin in origins.items()}
        return dict.fromkeys(sequence_ids, DELETED_LABEL) | known
