"""The search index over the documents' texts, written anew so that no deleted word stays in it.

Deleting from FTS5 only adds a mark. Its own 'rebuild' takes fifteen seconds for a gigabyte in one
transaction, in which nobody can write; so a new index is filled beside the old one, page by page,
and takes its place. Not 'optimize': in SQLite 3.40 the thousandth in a row leaves an index that
cannot be read. Not 'secure-delete': earlier versions of SQLite cannot open an index that was used
with it. Called by the stores that delete, from any thread and program.
"""

import math
import sqlite3
import time
import uuid
from collections.abc import Iterator

from sqlite_utils import Database as Connection

from storage.connections import Connections

__all__ = ["IN_INDEX", "IN_REPLACED_INDEX", "IndexRewriting", "drop_leftovers", "rebuild_index"]

# Rows of kind 'words' in `erasures`: where words of deleted documents stand.
IN_INDEX = 0
IN_REPLACED_INDEX = 1

NAME = "document_texts_fts"
PAGE_CHARACTERS = 1_000_000  # indexed in one transaction, where one document alone is not longer
PAGE_BLOCKS = 500  # of four kilobytes, overwritten in one transaction
STRUCTURE_ID = 10  # of the last block without words; an index without it cannot be dropped
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
        """Do a piece of it; whether there is nothing more to do."""
        end = time.monotonic() + max_seconds
        pieces, self._pieces = self._pieces or _rewrite(self._connections), None
        for _ in pieces:
            if time.monotonic() >= end:
                self._pieces = pieces
                return False
            time.sleep(PAUSE_SECONDS)
        return True


def _rewrite(connections: Connections) -> Iterator[None]:
    """Yields between transactions; ends early where another one has begun with it since."""
    for _ in range(MAX_ATTEMPTS):
        yield from clear_leftovers(connections)
        name = f"{NAME}_new_{uuid.uuid4().hex}"
        with connections.transaction() as connection:
            sql = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", [NAME]
            ).fetchone()[0]
            connection.execute(sql.replace(NAME, name, 1))
        after: int | None = 0
        num_documents = 0
        while after is not None:
            with connections.transaction() as connection:
                if not is_there(connection, name):
                    return
                after, num_added = add_page(connection, name, after)
                num_documents += num_added
                if after is None and has_just(connection, num_documents):
                    put_in_place(connection, name)
                    break
            yield
        else:
            continue  # a document was deleted that the new one has already
        yield from clear_leftovers(connections)
        return
    with connections.transaction() as connection:
        rebuild_index(connection)


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
    connection.execute(f"ALTER TABLE {NAME} RENAME TO {NAME}_old_{uuid.uuid4().hex}")
    connection.execute(f"ALTER TABLE {name} RENAME TO {NAME}")
    for _, sql in triggers:
        connection.execute(sql)
    connection.execute("DELETE FROM erasures WHERE kind = 'words'")
    connection.execute("INSERT INTO erasures VALUES ('words', ?, NULL)", [IN_REPLACED_INDEX])


def clear_leftovers(connections: Connections) -> Iterator[None]:
    """Overwrite what was begun or replaced, page by page; yields between them."""
    with connections.transaction() as connection:
        for name in leftovers(connection):
            if name.startswith(f"{NAME}_new_"):  # who fills it finds it gone, and leaves off
                connection.execute(f"ALTER TABLE {name} RENAME TO {NAME}_old_{uuid.uuid4().hex}")
        names = leftovers(connection)
    for name in names:
        while clear_page(connections, name):
            yield
    with connections.transaction() as connection:
        if not leftovers(connection):
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


def leftovers(connection: Connection | sqlite3.Connection) -> list[str]:
    """The indices besides the one that is used."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        f" AND (name GLOB '{NAME}_new_*' OR name GLOB '{NAME}_old_*')"
    )
    return [row[0] for row in rows.fetchall()]


def is_there(connection: Connection, name: str) -> bool:
    """Whether there is a table of this name."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone()
    return found is not None
