"""What is left to do once rows are deleted: nothing of them may stay in any file.

A deletion takes rows out of the database, with a note here in the same transaction. What held
something of theirs elsewhere is cleared afterwards, again at the next start where the program was
ended before: drafts recorded with other answers, the search index, copies made before upgrades, the
write-ahead log, and the cache of the app. Knows SQL and files, no Trie. Called by the stores that
delete and by the app.
"""

import json
import logging
import math
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlite_utils import Database as Connection

from storage.connections import Connections
from storage.records import ERASED_TOKEN_ID, DraftOrigin, StepRecord
from storage.search_index import IN_INDEX, IndexRewriting, drop_leftovers

__all__ = [
    "Erasures",
    "delete_conversations",
    "delete_sources",
    "erased_token_ids",
    "without_purged",
]

logger = logging.getLogger(__name__)

PAGE_LENGTH = 1_000  # steps looked at in one go
ORIGIN = re.compile(r"\[(\d+),-?\d+\]")  # a node's sequence and offset


class Erasures:
    """The table `erasures`: deleted rows of which something may still stand somewhere."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._rewriting = IndexRewriting(connections)

    @property
    def are_under_way(self) -> bool:
        """Whether `finish` ran out of time and is to be called again."""
        return self._rewriting.is_under_way

    @property
    def are_pending(self) -> bool:
        """Whether there is something left to do."""
        return self._connections.row("SELECT 1 FROM erasures LIMIT 1") is not None

    def finish(self, erase_index: Callable[[int], bool], max_seconds: float = math.inf) -> bool:
        """Clear all that may hold something of deleted rows; whether that was possible.

        Not while an answer is written: it may have drafted from what was deleted since.

        Args:
            erase_index: is given the id of a tokenizer whose index held some, and takes them out of
                what is kept of it on the disk; whether that was possible.
            max_seconds: of work on the search index, which takes longest; then `are_under_way`.
        """
        pending = self._connections.rows("SELECT kind, row_id, tokenizer_id FROM erasures")
        if not pending:
            return True
        ids = {
            kind: frozenset(row["row_id"] for row in pending if row["kind"] == kind)
            for kind in ("conversation", "source", "sequence", "words")
        }
        if ids["words"] and not self._rewriting.work(max_seconds):
            return False
        is_done = True
        self._erase_drafts(ids["sequence"])
        tokenizer_ids = {row["tokenizer_id"] for row in pending} - {None}
        for tokenizer_id in sorted(tokenizer_ids):
            is_done &= erase_index(tokenizer_id)
        for path in copies_of(self._connections.path):
            is_done &= erase_from_copy(path, self._database_id(), ids)
        if self._connections.truncate_log() and is_done:
            with self._connections.transaction() as connection:
                connection.conn.executemany(
                    "DELETE FROM erasures WHERE kind = ? AND row_id = ?",
                    [(r["kind"], r["row_id"]) for r in pending if r["kind"] != "words"],
                )
            return not self.are_pending
        return False

    def _database_id(self) -> str:
        row = self._connections.row("SELECT value FROM settings WHERE key = 'database_id'")
        assert row is not None, "every database has an id"
        database_id: str = row["value"]
        return database_id

    def _erase_drafts(self, sequence_ids: Collection[int]) -> None:
        """Page by page, so that nobody waits long for the database."""
        after = 0
        while sequence_ids:
            rows = self._connections.rows(
                "SELECT rowid, draft, accepted_nodes FROM steps WHERE rowid > ?"
                " ORDER BY rowid LIMIT ?",
                [after, PAGE_LENGTH],
            )
            if not rows:
                return
            after = rows[-1]["rowid"]
            changes = erased_drafts(
                ((row["rowid"], row["draft"], row["accepted_nodes"]) for row in rows), sequence_ids
            )
            if changes:
                with self._connections.transaction() as connection:
                    connection.conn.executemany(SET_DRAFT, changes)


SET_DRAFT = "UPDATE steps SET draft = ? WHERE rowid = ?"


def delete_conversations(connection: Connection, conversation_ids: Collection[int]) -> list[int]:
    """Delete chats with all that came of them, within the caller's transaction.

    Returns the ids of their sequences. `Connections.truncate_log` is to be called afterwards.
    """
    sources = connection.execute(
        "SELECT id FROM sources WHERE conversation_id IN (SELECT value FROM json_each(?))",
        [as_json(conversation_ids)],
    )
    sequence_ids = note_sequences(connection, [row[0] for row in sources.fetchall()])
    note(connection, "conversation", conversation_ids)
    connection.execute(
        "DELETE FROM conversations WHERE id IN (SELECT value FROM json_each(?))",
        [as_json(conversation_ids)],
    )
    return sequence_ids


def delete_sources(connection: Connection, source_ids: Collection[int]) -> list[int]:
    """Delete documents with text and sequences, within the caller's transaction.

    Returns the ids of their sequences. Their words stay in the search index until it is rebuilt.
    """
    sequence_ids = note_sequences(connection, source_ids)
    note(connection, "source", source_ids)
    if source_ids:
        note(connection, "words", [IN_INDEX])
    connection.execute(
        "DELETE FROM sources WHERE id IN (SELECT value FROM json_each(?))", [as_json(source_ids)]
    )
    return sequence_ids


def note_sequences(connection: Connection, source_ids: Collection[int]) -> list[int]:
    """Note the sequences of these sources as deleted; their ids, rising."""
    rows = connection.execute(
        "SELECT id, tokenizer_id FROM sequences"
        " WHERE source_id IN (SELECT value FROM json_each(?)) ORDER BY id",
        [as_json(source_ids)],
    ).fetchall()
    connection.conn.executemany("INSERT OR IGNORE INTO erasures VALUES ('sequence', ?, ?)", rows)
    return [row[0] for row in rows]


def note(connection: Connection, kind: str, row_ids: Iterable[int]) -> None:
    """Note rows as deleted."""
    connection.conn.executemany(
        "INSERT OR IGNORE INTO erasures VALUES (?, ?, NULL)", [(kind, i) for i in row_ids]
    )


def erased_drafts(
    steps: Iterable[tuple[int, str, str]], sequence_ids: Collection[int]
) -> list[tuple[str, int]]:
    """The drafts among (row id, draft, accepted nodes) that must change: (new draft, row id)."""
    changes = []
    for row_id, draft, accepted_nodes in steps:
        if any(int(found) in sequence_ids for found in ORIGIN.findall(draft)):
            erased = without_sequences(json.loads(draft), json.loads(accepted_nodes), sequence_ids)
            changes.append((json.dumps(erased, separators=(",", ":")), row_id))
    return changes


def without_sequences(
    draft: dict[str, Any], accepted_nodes: Collection[int], sequence_ids: Collection[int]
) -> dict[str, Any]:
    """The draft without the tokens taken from these sequences, and without what followed them.

    Accepted ones stay: they are words of the answer.
    """
    are_taken = [
        isinstance(origin, list) and origin[0] in sequence_ids for origin in draft["origins"]
    ]
    token_ids = erased_token_ids(draft["token_ids"], draft["parents"], are_taken, accepted_nodes)
    return {**draft, "token_ids": token_ids}


def erased_token_ids(
    token_ids: Iterable[int],
    parents: Sequence[int],
    are_taken: Sequence[bool],
    accepted_nodes: Collection[int],
) -> list[int]:
    """The nodes' ids, of those taken from what is gone, and below them, none but accepted ones."""
    erased = [int(token_id) for token_id in token_ids]
    for node, parent in enumerate(parents):
        is_below = parent >= 0 and erased[parent] == ERASED_TOKEN_ID
        if node not in accepted_nodes and (are_taken[node] or is_below):
            erased[node] = ERASED_TOKEN_ID
    return erased


def without_purged(connection: Connection, steps: Sequence[StepRecord]) -> Sequence[StepRecord]:
    """Steps to be written, without what was drafted from sequences that were purged meanwhile.

    Another program may have purged them, or the answer stood in memory for long: nobody would look
    at its drafts again.
    """
    named = {
        origin[0] for step in steps for origin in step.draft.origins if isinstance(origin, tuple)
    }
    gone = frozenset(
        row[0]
        for row in connection.execute(
            "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT id FROM sequences)"
            " AND value <= (SELECT seq FROM sqlite_sequence WHERE name = 'sequences')",
            [as_json(named)],
        )
    )
    return [without_gone(step, gone) for step in steps] if gone else steps


def without_gone(step: StepRecord, sequence_ids: Collection[int]) -> StepRecord:
    """A step without what was drafted from these sequences; see `without_sequences`."""

    def is_taken(origin: DraftOrigin) -> bool:
        return isinstance(origin, tuple) and int(origin[0]) in sequence_ids

    draft = step.draft
    token_ids = erased_token_ids(
        draft.token_ids, draft.parents, [*map(is_taken, draft.origins)], step.accepted_nodes
    )
    return replace(step, draft=replace(draft, token_ids=tuple(token_ids)))


def copies_of(path: Path) -> list[Path]:
    """The copies of a database that were made before upgrades, those broken off too."""
    return sorted(path.with_name("backups").glob(f"{path.stem}-before-*"))


def erase_from_copy(path: Path, database_id: str, ids: dict[str, frozenset[int]]) -> bool:
    """Delete these rows from a copy as well; one that cannot be cleared is removed itself."""
    try:
        if path.suffix == ".db":
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("PRAGMA secure_delete = ON")
                erase_rows(connection, database_id, ids)
                connection.execute("PRAGMA journal_mode = DELETE")  # empties its log
            return True
        if path.suffix.startswith(".partial"):  # or its journal
            path.unlink(missing_ok=True)
    except sqlite3.Error as error:
        logger.warning("The copy %s could not be cleared and is removed: %s", path, error)
        try:
            path.unlink()
        except OSError:
            return False
    except OSError as error:
        logger.warning("%s could not be removed: %s", path, error)
        return False
    return True


def erase_rows(
    connection: sqlite3.Connection, database_id: str, ids: dict[str, frozenset[int]]
) -> None:
    """Delete the rows from a copy of this database; any other one is left as it is."""
    found = connection.execute("SELECT value FROM settings WHERE key = 'database_id'").fetchone()
    if found != (database_id,):
        return
    connection.execute("BEGIN IMMEDIATE")
    for table, kind in (("conversations", "conversation"), ("sources", "source")):
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", [(i,) for i in ids[kind]])
    drop_leftovers(connection)
    connection.execute("INSERT INTO document_texts_fts (document_texts_fts) VALUES ('rebuild')")
    steps = connection.execute("SELECT rowid, draft, accepted_nodes FROM steps")
    connection.executemany(SET_DRAFT, erased_drafts(steps, ids["sequence"]))
    connection.execute("COMMIT")


def as_json(ids: Collection[int]) -> str:
    """Ids as one parameter, for `json_each`."""
    return json.dumps([int(row_id) for row_id in ids])
