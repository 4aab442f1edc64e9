"""The one precious file: opens it and holds a store for each kind of row.

Knows no SQL. Made by the app at start, closed by it at the end.
"""

from pathlib import Path
from types import TracebackType

from storage.connections import Connections
from storage.conversations import Conversations
from storage.deeper_readings import DeeperReadings
from storage.deletions import Deletions
from storage.erasures import Erasures
from storage.generations import Generations
from storage.learned_blobs import LearnedBlobs
from storage.messages import Messages
from storage.migrations import MIGRATIONS
from storage.passages import Passages
from storage.sequences import Sequences
from storage.settings import StoredSettings
from storage.sources import Sources
from storage.tokenizers import Tokenizers

__all__ = ["DATABASE_NAME", "FIRST_UNSAVED_ID", "Database"]

DATABASE_NAME = "lookahead-chat.db"
FIRST_UNSAVED_ID = 10**15  # of what stands in no file: no file has as many rows


class Database:
    """The database in `data_dir`, created or brought to this version; usable from any thread.

    Without a folder it is in memory, gone when it is closed, and its ids begin at FIRST_UNSAVED_ID.

    Raises DataFolderError, DatabaseDamagedError, SchemaTooNewError, MigrationError,
    DatabaseFullError or DatabaseBusyError; a file that cannot be used is left as it is. Every call
    on a store may raise these too, and DatabaseClosedError after `close`.

    Attributes:
        path: the file.
        is_in_memory: there is none.
        database_id: tells this database from every other one, wherever the file is moved.
    """

    def __init__(self, data_dir: Path | str | None) -> None:
        self.is_in_memory = data_dir is None
        self.path = Path(data_dir or "memory") / DATABASE_NAME
        self._connections = Connections(self.path, MIGRATIONS, is_in_memory=self.is_in_memory)
        if self.is_in_memory:
            self._connections.begin_ids(FIRST_UNSAVED_ID)
        self.conversations = Conversations(self._connections)
        self.messages = Messages(self._connections)
        self.generations = Generations(self._connections)
        self.sources = Sources(self._connections)
        self.passages = Passages(self._connections)
        self.sequences = Sequences(self._connections)
        self.deletions = Deletions(self._connections)
        self.erasures = Erasures(self._connections)
        self.tokenizers = Tokenizers(self._connections)
        self.successors = LearnedBlobs(self._connections, "successors")
        self.calibration = LearnedBlobs(self._connections, "calibration")
        self.step_costs = LearnedBlobs(self._connections, "step_costs")
        self.deeper_readings = DeeperReadings(self._connections)
        self.settings = StoredSettings(self._connections)
        try:
            self.database_id: str = self.settings.get("database_id")
            self.sources.repair_index()
            self._connections.check_structure()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> tuple[int, ...]:
        """The same as before where nothing was written since; to be compared within one thread."""
        return self._connections.version

    def give_back(self, max_seconds: float) -> bool:
        """Make the file smaller where much of it is free; whether there is more to do."""
        return self._connections.give_back(max_seconds)

    def close(self) -> None:
        """Close every connection, of all threads. Idempotent."""
        self._connections.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
