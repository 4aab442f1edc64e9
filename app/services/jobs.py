"""The handles of running work: what the page holds on to, watches and stops.

Know neither model nor database. Made by the chat service and its parts.
"""

import threading
from collections.abc import Callable

from app.services.comparison import ComparisonSnapshot
from app.services.views import AnswerOptions, AnswerSnapshot, ImportSnapshot
from app.services.watched import Stoppable, Watched

__all__ = ["AnswerJob", "CompareJob", "ImportJob"]


class AnswerJob(Stoppable[AnswerSnapshot]):
    """An answer being written. It goes on when nobody watches.

    Args:
        on_stop: told when somebody asks it to end.

    Attributes:
        save_lock: held while anything of the answer is written to the database or the Trie.
        is_discarded: its conversation is gone; nothing of it may be saved any more.
    """

    def __init__(
        self,
        conversation_id: int,
        message_id: int,
        options: AnswerOptions,
        on_stop: Callable[["AnswerJob"], None],
    ) -> None:
        super().__init__(AnswerSnapshot(0, conversation_id, message_id, "queued"), on_stop)
        self.conversation_id = conversation_id
        self.message_id = message_id
        self.options = options
        self.save_lock = threading.Lock()
        self.is_discarded = False


class CompareJob(Stoppable[ComparisonSnapshot]):
    """A comparison. It goes on when nobody watches.

    Args:
        on_stop: told when somebody asks it to end.
    """

    def __init__(
        self,
        snapshot: ComparisonSnapshot,
        options: AnswerOptions,
        on_stop: Callable[["CompareJob"], None],
    ) -> None:
        super().__init__(snapshot, on_stop)
        self.options = options


class ImportJob(Watched[ImportSnapshot]):
    """An import of documents. What was taken in before it ends stays."""

    def __init__(self) -> None:
        super().__init__(ImportSnapshot(0, "waiting"))
        self._cancel = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked it to end."""
        return self._cancel.is_set()

    def cancel(self) -> None:
        """End the import after the file being read. Returns at once."""
        self._cancel.set()
