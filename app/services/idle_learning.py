"""Lets a model prepare drafts while nothing is asked: batch by batch, giving way to every question.

First it is primed, then it reads the documents that somebody wants read deeper. Knows the engine,
the database, and what is kept of the model. Owned by the workbench, used in the worker's thread.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from app.services.engine import Engine
from app.services.learned_keeper import LearnedKeeper
from storage import Database, DeeperReading, RecordNotFoundError, StorageError

if TYPE_CHECKING:
    from lookahead import LoadedModel

__all__ = ["IDLE_LEARNING_SETTING", "IdleLearning"]

IDLE_LEARNING_SETTING = "idle_learning"  # the page's switch; on where nothing was chosen

_FAILED = "Preparing drafts failed; the log has the details."
_WINDOW_LENGTH = 1024  # tokens of a document that are read as one text


class IdleLearning:
    """Feeds the successors of one model.

    Args:
        find_prefix_ids: gives what stands before an answer.
        is_allowed: what the program was started with; the page's switch counts as well.

    Attributes:
        progress: what is being done and how far it is, for people; empty where nothing is.
    """

    def __init__(
        self,
        engine: Engine,
        model: "LoadedModel",
        kept: LearnedKeeper,
        database: Database,
        *,
        tokenizer_id: int,
        find_prefix_ids: Callable[[], Sequence[int]],
        is_allowed: bool,
    ) -> None:
        self._engine = engine
        self._model = model
        self._kept = kept
        self._database = database
        self._tokenizer_id = tokenizer_id
        self._find_prefix_ids = find_prefix_ids
        self._is_allowed = is_allowed
        self._batches: Iterator[None] | None = None
        self._is_failing = False
        self._num_read = 0  # tokens of documents, since reading began
        self.progress = ""

    def work(self) -> bool:
        """Run one batch; whether there is more to do.

        What the database refuses is tried again in the next round; after another failure there is
        nothing more to do, and `progress` says so until the program is started again.
        """
        is_wanted = self._database.settings.get(IDLE_LEARNING_SETTING, True)
        if not (self._is_allowed and is_wanted):
            self.progress = ""
            return False
        if self._is_failing:
            self.progress = _FAILED
            return False
        if self._batches is None:
            self._batches = chain(self._prime(), self._read())
        try:
            return self._advance(self._batches)
        except StorageError:
            self._batches, self.progress = None, ""
            raise
        except Exception:  # whatever it was is raised again, for the worker to log
            self._is_failing, self.progress = True, _FAILED
            raise

    def _advance(self, batches: Iterator[None]) -> bool:
        if next(batches, self) is None:
            self._kept.has_news = True
            return True
        was_busy = bool(self.progress)
        if was_busy:
            self._kept.save()
        self._batches, self.progress = None, ""
        return was_busy  # what was wanted meanwhile is looked for once more

    def _prime(self) -> Iterator[None]:
        successors = self._kept.learned.successors
        for share in self._engine.prime(self._model, successors, self._find_prefix_ids()):
            self.progress = f"Preparing drafts: {100 * share:.1f} %"
            yield

    def _read(self) -> Iterator[None]:
        readings = self._database.deeper_readings
        successors = self._kept.learned.successors
        left = readings.num_tokens_left(self._model.model_fingerprint, self._tokenizer_id)
        self._num_read = 0
        for num_read in self._engine.read(self._model, successors, self._windows()):
            num_left = max(0, left - self._num_read - num_read)  # some may have come or gone
            self.progress = f"Reading documents: {num_left:,} tokens left"
            yield

    def _windows(self) -> Iterator[Sequence[int]]:
        """Pieces of the documents still to be read; asked for the next, the one before was read."""
        readings, fingerprint = self._database.deeper_readings, self._model.model_fingerprint
        source_id = 0
        while reading := readings.next(fingerprint, self._tokenizer_id, after=source_id):
            source_id = reading.source_id
            with contextlib.suppress(RecordNotFoundError):  # deleted a moment ago
                yield from self._windows_of(reading)

    def _windows_of(self, reading: DeeperReading) -> Iterator[Sequence[int]]:
        """The pieces of one document. Raises RecordNotFoundError where it was deleted."""
        length = min(_WINDOW_LENGTH, self._model.context_length)
        for start in range(reading.num_read, reading.num_tokens, length):
            end = min(start + length, reading.num_tokens)
            token_ids = self._database.sequences.token_ids(
                reading.sequence_id, start=start, end=end
            )
            yield token_ids.tolist()
            self._num_read += end - start
            self._kept.note_read(reading.source_id, end)
