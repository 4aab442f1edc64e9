"""Keeps what drafting has learned about one model: loaded at start, saved now and then.

Knows the database and the engine's formats. Owned by the workbench, used in the worker's thread.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from lookahead.blob import BlobFormatError
from lookahead.calibration import Calibration
from lookahead.learned import Learned
from lookahead.step_costs import StepCosts
from lookahead.successors import SuccessorTable
from storage import Database, StorageError

__all__ = ["LearnedKeeper"]

logger = logging.getLogger(__name__)

_SAVE_SECONDS = 60.0  # at least between two saves
_PartT = TypeVar("_PartT")


class LearnedKeeper:
    """The `Learned` of one model, as it was saved last; what cannot be read starts empty.

    Args:
        model_fingerprint: for what it would say, which no machine or version changes.
        runtime_fingerprint: for what a step costs here.

    Attributes:
        learned: to draft by and to feed.
        has_news: whether it has learned something since it was saved; set by whoever feeds it.
    """

    def __init__(
        self,
        database: Database,
        model_fingerprint: str,
        vocab_size: int,
        *,
        runtime_fingerprint: str,
    ) -> None:
        self._database = database
        self._model_fingerprint = model_fingerprint
        self._runtime_fingerprint = runtime_fingerprint
        self.has_news = False
        self._saved_at = time.monotonic()
        self._num_read: dict[int, int] = {}  # by document; not recorded yet
        self.learned = learned = Learned.empty(vocab_size)
        successors = _read(
            "successors", database.successors.load(model_fingerprint), SuccessorTable.from_bytes
        )
        if successors is not None and successors.vocab_size == vocab_size:
            learned.successors = successors
        elif successors is not None:
            logger.warning("the saved successors are of another vocabulary and start empty")
        step_costs = _read(
            "step costs", database.step_costs.load(runtime_fingerprint), StepCosts.from_bytes
        )
        learned.step_costs = step_costs or learned.step_costs
        calibration = _read(
            "calibration", database.calibration.load(model_fingerprint), Calibration.from_bytes
        )
        learned.calibration = calibration or learned.calibration

    def note_read(self, source_id: int, num_read: int) -> None:
        """So many tokens of a document were read: recorded once what they taught is saved."""
        self._num_read[source_id] = num_read
        self.has_news = True

    def save_if_due(self) -> None:
        """Save, unless it was done a moment ago; what fails is tried again a minute later."""
        if time.monotonic() - self._saved_at > _SAVE_SECONDS:
            try:
                self.save()
            except StorageError as error:
                logger.warning("what was learned is not saved yet: %s", error)

    def save(self) -> None:
        """Save what is new. Raises StorageError, and it stays new."""
        self._saved_at = time.monotonic()  # one that fails is tried again, but not at once
        if self.has_news:
            database, model, learned = self._database, self._model_fingerprint, self.learned
            database.successors.save(model, learned.successors.to_bytes())
            database.step_costs.save(self._runtime_fingerprint, learned.step_costs.to_bytes())
            database.calibration.save(model, learned.calibration.to_bytes())
            for source_id, num_read in self._num_read.items():
                database.deeper_readings.advance(source_id, model, num_read)
            self._num_read.clear()
            self.has_news = False  # only now, so that it is saved later where one failed


def _read(what: str, data: bytes | None, read: Callable[[bytes], _PartT]) -> _PartT | None:
    """A saved part; None where there is none, or it is damaged, which the log is told."""
    if data is None:
        return None
    try:
        return read(data)
    except BlobFormatError as error:
        logger.warning("the saved %s are not usable and start empty: %s", what, error)
        return None
