"""What of a data folder is open: the database, the cached index, and who may do what with them.

Where the folder cannot be used, the database is one in memory. Knows no model and no chats. Owned
by the chat service.
"""

import logging

from app.services.lease import DataFolderLease
from app.services.unsaved import CANNOT_SAVE
from app.services.views import ServiceConfig
from storage import Database, SegmentCache

__all__ = ["DataFolder"]

logger = logging.getLogger(__name__)


class DataFolder:
    """Opens the folder; see `storage.Database` for what that may raise.

    Attributes:
        database: the file's, or one in memory. `cache`: the sorted Trie, which can be made again.
        unsaved_reason: why it is one in memory; "" where it is not.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self.database, self.unsaved_reason = _open_database(config)
        self._answering = DataFolderLease(config.data_dir, "answering")
        self._indexing = DataFolderLease(config.data_dir, "indexing")
        self.cache = SegmentCache(
            config.cache_dir / "segments.db",
            self.database.database_id,
            may_write=lambda: not self.database.is_in_memory and self.take_indexing(),
        )

    def take_indexing(self) -> bool:
        """Be the program that writes the cache; False while another one is."""
        return self._indexing.take()

    def recover_interrupted(self) -> None:
        """Mark as stopped what an ended program left unfinished, unless another one answers."""
        if self._answering.take():
            recovered = self.database.messages.recover_interrupted()
            if recovered:
                logger.info("%d interrupted answers were kept as far as they had come", recovered)

    def close(self) -> None:
        """Close the database and leave the folder to other programs."""
        self.database.close()
        self._indexing.release()
        self._answering.release()


def _open_database(config: ServiceConfig) -> tuple[Database, str]:
    """The database, and why it is one in memory; an import must have its file."""
    try:
        return Database(config.data_dir), ""
    except CANNOT_SAVE as error:
        if not config.can_answer:
            raise
        logger.warning("nothing is saved: %s", error)
        return Database(None), str(error)
