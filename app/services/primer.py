"""Primes a model in idle time: batch by batch, given way to every question, told to the page.

Knows the engine, the settings, and what is kept of the model. Owned by the workbench, used in the
worker's thread.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.services.engine import Engine
from app.services.learned_keeper import LearnedKeeper
from storage import Database

if TYPE_CHECKING:
    from lookahead import LoadedModel

__all__ = ["PRIMING_SETTING", "Primer"]

logger = logging.getLogger(__name__)

PRIMING_SETTING = "priming"  # the page's switch; on where nothing was chosen


class Primer:
    """Fills the successors of one model.

    Args:
        find_prefix_ids: gives what stands before an answer.
        is_allowed: what the program was started with; the page's switch counts as well.
    """

    def __init__(
        self,
        engine: Engine,
        model: "LoadedModel",
        kept: LearnedKeeper,
        *,
        database: Database,
        find_prefix_ids: Callable[[], Sequence[int]],
        is_allowed: bool,
    ) -> None:
        self._engine = engine
        self._model = model
        self._kept = kept
        self._database = database
        self._find_prefix_ids = find_prefix_ids
        self._is_allowed = is_allowed
        self._batches: Iterator[float] | None = None
        self._share: float | None = None  # of the vocabulary; None: not begun, or done

    @property
    def progress(self) -> str:
        """How far it is, in a sentence for people; empty where nothing is to be done."""
        if self._share is None:
            return ""
        state = "Preparing drafts" if self._is_wanted else "Preparing drafts is switched off"
        return f"{state}: {int(100 * self._share)} % of the vocabulary"

    def work(self) -> bool:
        """Run one batch; whether there is more to do."""
        if not self._is_wanted:
            return False
        if self._batches is None:
            self._batches = self._engine.prime(
                self._model, self._kept.learned.successors, self._find_prefix_ids()
            )
        share = next(self._batches, None)  # ended for good where a batch failed
        was_running, self._share = self._share is not None, share
        if share is not None:
            self._kept.has_news = True
        elif was_running:
            logger.info("the successors of all tokens are known")
            self._kept.save()
        return share is not None

    @property
    def _is_wanted(self) -> bool:
        return self._is_allowed and bool(self._database.settings.get(PRIMING_SETTING, True))
