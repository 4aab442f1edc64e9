"""The search index over the documents' texts, written anew so that no deleted word stays in it.

Deleting from FTS5 only adds a mark. Its own 'rebuild' takes fifteen seconds for a gigabyte in one
transaction, in which nobody can write; so a new index is filled beside the old one, page by page,
and takes its place; one that a killed program began is gone on with. In the place of a damaged
index comes an empty one, which is then written anew likewise. Not 'optimize': in SQLite 3.40 the
thousandth in a row leaves an index that cannot be read. Not 'secure-delete': earlier versions of
SQLite cannot open an index that was used with it. Called by the stores that delete, from any thread
and program.
"""

import logging
import math
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from sqlite_utils import Database as Connection

from storage.connections import Connections
from storage.errors import DatabaseDamagedError, DatabaseFullError

__all__ = [
    "IN_INDEX",
    "IN_REPLACED_INDEX",
    "PAUSE_SECONDS",
    "IndexRewriting",
    "drop_leftovers",
    "mended",
    "put_aside",
]

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# Rows of kind 'words' in `erasures`: where words of deleted documents stand.
IN_INDEX = 0
IN_REPLACED_INDEX = 1

NAME = "document_texts_fts"
PAGE_CHARACTERS = 1_000_000  # indexed in one transaction, where one document alone is not longer
PAGE_BLOCKS = 500  # of four kilobytes, overwritten in one transaction
TOTALS_ID = 1  # of the block with the number of documents and of words
STRUCTURE_ID = 10  # of the last block without words; an index without it cannot be dropped
NO_SEGMENTS = "x'00000000000000'"
# 2^28 documents with 2^49 words, as FTS5 writes numbers: what is deleted is taken off, also what
# the index never had, and below zero it would be damaged.
AMPLE_TOTALS = "x'FFFFFF7FFFFFFFFFFFFF7F'"
PAUSE_SECONDS = 0.02  # between two of them: who waits for the file looks every few milliseconds
MAX_ATTEMPTS = 3


class IndexRewriting:
    """Replaces the index by one without deleted words; others can read and write meanwhile.

    Not to be used by two threads at once; two of them may be at work, in one program or in two:
    then the one that began last does it.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._pieces: Iterator[None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it was begun and is to be gone on with."""
        return self._pieces is not None

    def work(self, max_seconds: float = math.inf) -> bool:
        """Do a piece of it; whether there is nothing more to do.

        Where there is no room for a second index, what was written of it is given back before
        DatabaseFullError is raised: somebody may have a message to save.
        """
        end = time.monotonic() + max_seconds
        pieces, self._pieces = self._pieces or _rewrite(self._connections), None
        try:
            for _ in pieces:
                if time.monotonic() >= end:
                    self._pieces = pieces
                    return False
                time.sleep(PAUSE_SECONDS)
        except DatabaseFullError:
            with suppress(DatabaseFullError):
                give_up(self._connections)
            raise
        return True


def _rewrite(connections: Connections) -> Iterator[None]:
    """Yields between transactions; ends early where another one has begun with it since."""
    after: int | None
    for _ in range(MAX_ATTEMPTS):
        with connections.transaction() as connection:
            name, after, num_documents = begin(connection)
        yield from clear_leftovers(connections)
        while after is not None:
            with connections.transaction() as connection:
                if not is_there(connection, name):
                    return
                after, num_added = add_page(connection, name, after)
                num_documents += num_added
                if after is None and has_just(connection, num_documents):
                    put_in_place(connection, name)
                    connection.execute(
                        "DELETE FROM erasures WHERE kind = 'words' AND row_id = ?", [IN_INDEX]
                    )
                    break
            yield
        else:
            continue  # a document was deleted that the new one has already
        yield from clear_leftovers(connections)
        return
    with connections.transaction() as connection:
        rebuild_index(connection)


def begin(connection: Connection) -> tuple[str, int, int]:
    """An index to be filled: its name, the last document in it, and how many it has.

    One that somebody began is taken over, unless a document in it was deleted since. Who is at it
    finds it gone, and leaves off.
    """
    name = f"{NAME}_new_{uuid.uuid4().hex}"
    after = num_documents = 0
    for begun in leftovers(connection, "new"):
        held = connection.execute(f"SELECT max(id), count(*) FROM {begun}_docsize").fetchone()
        there = connection.execute(
            "SELECT max(source_id), count(*) FROM document_texts WHERE source_id <= ?", [held[0]]
        ).fetchone()
        is_usable = not num_documents and held[1] and held == there
        target = name if is_usable else name_of_old()
        connection.execute(f"ALTER TABLE {begun} RENAME TO {target}")
        if is_usable:
            after, num_documents = held
    if not num_documents:
        create(connection, name)
    return name, after, num_documents


def give_up(connections: Connections) -> None:
    """Make the room free again that a begun index takes in the file."""
    with connections.transaction() as connection:
        for begun in leftovers(connection, "new"):
            connection.execute(f"ALTER TABLE {begun} RENAME TO {name_of_old()}")
    for _ in clear_leftovers(connections):
        time.sleep(PAUSE_SECONDS)


def name_of_old() -> str:
    """A name for an index that is to be overwritten."""
    return f"{NAME}_old_{uuid.uuid4().hex}"


def create(connection: Connection, name: str) -> None:
    """Make an empty index beside the one that is used."""
    sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [NAME]).fetchone()[0]
    connection.execute(sql.replace(NAME, name, 1))


def mended(connections: Connections, work: Callable[[], ResultT]) -> ResultT:
    """Do what writes to the index; where that turns out to be damaged, once more with a new one."""
    try:
        return work()
    except DatabaseDamagedError as error:
        put_aside(connections, error)
        return work()


def put_aside(connections: Connections, error: DatabaseDamagedError) -> None:
    """Where it is the index alone that is damaged, begin an empty one; raises the error else.

    The texts stand elsewhere: idle work writes the index anew, and until then it finds what was
    imported since.
    """
    if not (is_of_index(error) or is_damaged(connections)):
        raise error
    logger.warning("The search index was damaged and is built anew")
    with connections.transaction() as connection:
        set_aside(connection)


def is_of_index(error: DatabaseDamagedError) -> bool:
    """Whether it is certain that the index is damaged; ranking tells it as any damage."""
    return getattr(error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_CORRUPT_VTAB


def is_damaged(connections: Connections) -> bool:
    """Whether the index does not hold what it should; all of it is read."""
    try:
        with connections.transaction() as connection:
            connection.execute(f"INSERT INTO {NAME} ({NAME}) VALUES ('integrity-check')")
    except DatabaseDamagedError as error:
        return is_of_index(error)
    return False


def set_aside(connection: Connection) -> None:
    """Put an empty index in the place of a damaged one, and note that it is to be written anew."""
    connection.execute(  # with a broken list of segments it could not be opened to be renamed
        f"INSERT OR REPLACE INTO {NAME}_data (id, block) VALUES (?, {NO_SEGMENTS})", [STRUCTURE_ID]
    )
    name = f"{NAME}_new_{uuid.uuid4().hex}"
    create(connection, name)
    connection.execute(f"UPDATE {name}_data SET block = {AMPLE_TOTALS} WHERE id = ?", [TOTALS_ID])
    put_in_place(connection, name)
    connection.execute("INSERT OR IGNORE INTO erasures VALUES ('words', ?, NULL)", [IN_INDEX])


def rebuild_index(connection: Connection) -> None:
    """Write the index anew where it stands, within the caller's transaction."""
    drop_leftovers(connection)
    connection.execute(f"INSERT INTO {NAME} ({NAME}) VALUES ('rebuild')")
    connection.execute("DELETE FROM erasures WHERE kind = 'words'")


def drop_leftovers(connection: Connection | sqlite3.Connection) -> None:
    """Drop what was begun or replaced, within the caller's transaction."""
    for name in leftovers(connection):
        connection.execute(f"DROP TABLE {name}")


def add_page(connection: Connection, name: str, after: int) -> tuple[int | None, int]:
    """Index the next documents; the last one's id or None behind all, and how many they were."""
    end, num_added, num_characters = None, 0, 0
    for source_id, length in connection.execute(
        "SELECT source_id, num_characters FROM document_texts JOIN sources ON id = source_id"
        " WHERE source_id > ? ORDER BY source_id",
        [after],
    ):
        num_characters += length
        if end is not None and num_characters > PAGE_CHARACTERS:
            break
        end = source_id
        num_added += 1
    connection.execute(
        f"INSERT INTO {name} (rowid, text) SELECT source_id, text FROM document_texts"
        " WHERE source_id > ? AND source_id <= ?",
        [after, end or after],
    )
    return end, num_added


def has_just(connection: Connection, num_documents: int) -> bool:
    """Whether none of so many documents was deleted since: their ids are not used again."""
    count: int = connection.execute("SELECT count(*) FROM document_texts").fetchone()[0]
    return count == num_documents


def put_in_place(connection: Connection, name: str) -> None:
    """Let the new index be the index, and note the old one, which holds deleted words."""
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'document_texts'"
    ).fetchall()
    for trigger, _ in triggers:  # renaming would turn them to the old index
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(f"ALTER TABLE {NAME} RENAME TO {name_of_old()}")
    connection.execute(f"ALTER TABLE {name} RENAME TO {NAME}")
    for _, sql in triggers:
        connection.execute(sql)
    connection.execute(
        "INSERT OR IGNORE INTO erasures VALUES ('words', ?, NULL)", [IN_REPLACED_INDEX]
    )


def clear_leftovers(connections: Connections) -> Iterator[None]:
    """Overwrite what was replaced or given up, page by page; yields between them."""
    with connections.transaction() as connection:
        names = leftovers(connection, "old")
    for name in names:
        while clear_page(connections, name):
            yield
    with connections.transaction() as connection:
        if not leftovers(connection, "old"):
            connection.execute(
                "DELETE FROM erasures WHERE kind = 'words' AND row_id = ?", [IN_REPLACED_INDEX]
            )


def clear_page(connections: Connections, name: str) -> bool:
    """Empty a part of an index, and drop it once it is empty; whether there is more to do."""
    with connections.transaction() as connection:
        if not is_there(connection, name):
            return False
        cursor = connection.execute(
            f"DELETE FROM {name}_data WHERE id IN"
            f" (SELECT id FROM {name}_data WHERE id > ? LIMIT ?)",
            [STRUCTURE_ID, PAGE_BLOCKS],
        )
        if cursor.rowcount < PAGE_BLOCKS:
            connection.execute(f"DROP TABLE {name}")
            return False
    return True


def leftovers(connection: Connection | sqlite3.Connection, state: str = "[no]*") -> list[str]:
    """The indices besides the one that is used: "new" are begun, "old" to be overwritten."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        f" AND name GLOB '{NAME}_{state}_*'"
    )
    return [row[0] for row in rows.fetchall()]


def is_there(connection: Connection, name: str) -> bool:
    """Whether there is a table of this name."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone()
    return found is not None
