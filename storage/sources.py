"""Where sequences come from: imported documents with their text, and one history per chat.

Knows no tokenizer and no file formats. Called by the app's services; `messages.py` asks for a
chat's history.
"""

import re
from datetime import datetime

from sqlite_utils import Database as Connection

from storage.connections import Connections, Row
from storage.erasures import delete_sources
from storage.errors import (
    DatabaseDamagedError,
    RecordDamagedError,
    RecordExistsError,
    RecordNotFoundError,
)
from storage.integrity import checksum, is_whole
from storage.records import DocumentMatch, Source
from storage.search_index import IndexRewriting, mended, put_aside
from storage.sequences import insert_sequence
from storage.times import now, parse_time, time_text
from storage.token_blobs import TokenIds

__all__ = ["Sources", "delete_versions", "ensure_history_source", "hide_versions", "not_found"]

REPAIR_SECONDS = 1.0  # at start

SELECT_FROM = """
    SELECT sources.*, coalesce((
        SELECT max(total) FROM (
            SELECT sum(num_tokens) AS total FROM sequences
            WHERE source_id = sources.id GROUP BY tokenizer_id
        )
    ), 0) AS num_tokens FROM
"""
SELECT_SOURCES = f"{SELECT_FROM} shown_sources AS sources"


class Sources:
    """The tables `sources` and `document_texts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add_document(
        self,
        *,
        name: str,
        uri: str,
        sha256: str,
        text: str,
        token_ids: TokenIds,
        tokenizer_id: int,
        versions_deleted_at: datetime | None = None,
    ) -> tuple[int, list[int]]:
        """Save a document with its text and its tokens as one sequence, in one transaction.

        It takes the place of what was read from the same `uri` before, pinned and read deeper as
        that was; where there was something, `erase_deleted_words` is to be called in the end.
        Returns the source's id and the sequences' ids: one, or none for an empty document. Raises
        RecordExistsError where a document of the same content is there.

        Args:
            versions_deleted_at: the time at which what was read before is deleted, so that it can
                be brought back; None: it is deleted for good.
        """

        def save() -> tuple[int, list[int]]:
            with self._connections.transaction() as connection:
                same = connection.execute(
                    "SELECT id, deleted_at FROM sources WHERE sha256 = ?", [sha256]
                ).fetchone()
                if same is not None and same[1] is None:
                    raise RecordExistsError(f"{name} has been imported already.")
                if same is not None:  # it was deleted, and is there again
                    delete_sources(connection, [same[0]])
                cursor = connection.execute(
                    "INSERT INTO sources (kind, name, uri, sha256, num_characters, created_at)"
                    " VALUES ('document', ?, ?, ?, ?, ?)",
                    [name, uri, sha256, len(text), now()],
                )
                source_id = cursor.lastrowid
                assert source_id is not None
                connection.execute(
                    "INSERT INTO document_texts (source_id, text, checksum) VALUES (?, ?, ?)",
                    [source_id, text, checksum(text)],
                )
                inherit(connection, uri, source_id)
                if versions_deleted_at is None:
                    delete_versions(connection, uri, except_id=source_id)
                else:
                    hide_versions(connection, uri, versions_deleted_at, except_id=source_id)
                return source_id, add_tokens(connection, source_id, token_ids, tokenizer_id)

        return mended(self._connections, save)

    def add_sequence(self, source_id: int, token_ids: TokenIds, tokenizer_id: int) -> list[int]:
        """Save a document's tokens under another tokenizer; returns the ids as `add_document`.

        Raises RecordNotFoundError, or RecordExistsError where that tokenizer has it already.
        """
        with self._connections.transaction() as connection:
            row = connection.execute(
                "SELECT EXISTS (SELECT 1 FROM sequences"
                " WHERE source_id = sources.id AND +tokenizer_id = ?)"
                " FROM shown_sources AS sources WHERE id = ? AND kind = 'document'",
                [tokenizer_id, source_id],
            ).fetchone()
            if row is None:
                raise not_found(source_id)
            if row[0]:
                raise RecordExistsError(f"Document {source_id} is indexed for this model already.")
            return add_tokens(connection, source_id, token_ids, tokenizer_id)

    def get(self, source_id: int) -> Source:
        """The document or history. Raises RecordNotFoundError."""
        row = self._connections.row(f"{SELECT_SOURCES} WHERE id = ?", [source_id])
        if row is None:
            raise not_found(source_id)
        return source(row)

    def text(self, source_id: int) -> str:
        """The text of a document. Raises RecordNotFoundError or RecordDamagedError."""
        row = self._connections.row(
            "SELECT text, checksum, name FROM document_texts"
            " JOIN shown_sources ON shown_sources.id = source_id WHERE source_id = ?",
            [source_id],
        )
        if row is None:
            raise not_found(source_id)
        text: str = row["text"]
        if not is_whole(row["checksum"], text):
            raise RecordDamagedError(
                f"The text of {row['name']} was damaged on the disk. Delete the document and "
                f"import it again."
            )
        return text

    def move(self, source_id: int, *, name: str, uri: str, deleted_at: datetime) -> bool:
        """A document is what is read from `uri` now; what was read from there before is deleted.

        Returns whether the document is there.

        Args:
            deleted_at: the time of what is deleted; a document that was deleted then is back.
        """
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE sources SET name = ?, uri = ?, deleted_at = NULL WHERE id = ?"
                " AND kind = 'document' AND (deleted_at IS NULL OR deleted_at = ?)",
                [name, uri, source_id, time_text(deleted_at)],
            )
            if cursor.rowcount:
                hide_versions(connection, uri, deleted_at, except_id=source_id)
            return bool(cursor.rowcount)

    def find_by_sha256(self, sha256: str, *, deleted_at: datetime | None = None) -> Source | None:
        """The document with this content, whatever its name, or one that was deleted then."""
        row = self._connections.row(
            f"{SELECT_FROM} sources WHERE sha256 = ? AND deleted_at IS ?",
            [sha256, deleted_at and time_text(deleted_at)],
        )
        return None if row is None else source(row)

    def find_by_uri(self, uri: str) -> Source | None:
        """The document that was last read from there."""
        row = self._connections.row(
            f"{SELECT_SOURCES} WHERE uri = ? AND kind = 'document' ORDER BY id DESC", [uri]
        )
        return None if row is None else source(row)

    def search(self, text: str, *, limit: int = 10) -> list[DocumentMatch]:
        """The documents that hold any of these words, best match first.

        Where the index turns out to be damaged it is built anew in idle time, and nothing is found.
        """
        try:
            return self._search(text, limit)
        except DatabaseDamagedError as error:
            put_aside(self._connections, error)
            return []

    def _search(self, text: str, limit: int) -> list[DocumentMatch]:
        query = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text))
        if not query:
            return []
        rows = self._connections.rows(
            "SELECT sources.id AS source_id, name, uri,"
            " snippet(document_texts_fts, 0, '', '', '…', 24) AS excerpt"
            " FROM document_texts_fts"
            " JOIN shown_sources AS sources ON sources.id = document_texts_fts.rowid"
            " WHERE document_texts_fts MATCH ? ORDER BY rank LIMIT ?",
            [query, limit],
        )
        return [DocumentMatch(**row) for row in rows]

    def pin(self, source_id: int, is_pinned: bool) -> None:
        """Keep a document in the index whatever the budget, or no longer.

        Raises RecordNotFoundError.
        """
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE sources SET pinned = ?"
                " WHERE id = ? AND kind = 'document' AND deleted_at IS NULL",
                [is_pinned, source_id],
            )
            if not cursor.rowcount:
                raise not_found(source_id)

    def erase_deleted_words(self) -> None:
        """Overwrite where the words of replaced documents stood, in the search index too."""
        IndexRewriting(self._connections).work()
        self._connections.truncate_log()

    def repair_index(self) -> None:
        """Build the search index anew where it is found damaged.

        For a moment; with many texts the rest is left to `Erasures.finish`.
        """
        try:
            self._search("a", 1)
        except DatabaseDamagedError as error:
            put_aside(self._connections, error)
            IndexRewriting(self._connections).work(REPAIR_SECONDS)

    def next_without_sequence(self, tokenizer_id: int, *, after: int = 0) -> int | None:
        """The first document above `after` that a tokenizer has not indexed yet, by rising id."""
        row = self._connections.row(
            "SELECT id FROM shown_sources AS sources"
            " WHERE kind = 'document' AND id > ? AND NOT EXISTS"
            " (SELECT 1 FROM sequences WHERE source_id = sources.id AND +tokenizer_id = ?)"
            " ORDER BY id LIMIT 1",
            [after, tokenizer_id],
        )
        return None if row is None else int(row["id"])

    def list(self) -> list[Source]:
        """All documents, the one imported last first."""
        rows = self._connections.rows(f"{SELECT_SOURCES} WHERE kind = 'document' ORDER BY id DESC")
        return [source(row) for row in rows]


def ensure_history_source(connection: Connection, conversation_id: int) -> int:
    """The history of a chat, made where it is missing, within the caller's transaction."""
    connection.execute(
        "INSERT INTO sources (kind, conversation_id, name, uri, num_characters, created_at)"
        " VALUES ('history', ?, '', '', 0, ?) ON CONFLICT (conversation_id) DO NOTHING",
        [conversation_id, now()],
    )
    row = connection.execute("SELECT id FROM sources WHERE conversation_id = ?", [conversation_id])
    source_id: int = row.fetchone()[0]
    return source_id


def add_tokens(
    connection: Connection, source_id: int, token_ids: TokenIds, tokenizer_id: int
) -> list[int]:
    """The document's sequence, within the caller's transaction; none where there are no tokens."""
    if not len(token_ids):
        return []
    return [
        insert_sequence(
            connection, source_id=source_id, tokenizer_id=tokenizer_id, token_ids=token_ids
        )
    ]


def inherit(connection: Connection, uri: str, source_id: int) -> None:
    """Pin a document, and have it read deeper, where the last one from there was so."""
    connection.execute(
        "UPDATE sources SET pinned = coalesce((SELECT pinned FROM shown_sources AS older"
        " WHERE older.uri = ? AND older.kind = 'document' AND older.id < ?"
        " ORDER BY older.id DESC LIMIT 1), pinned) WHERE id = ?",
        [uri, source_id, source_id],
    )
    connection.execute(
        "INSERT OR IGNORE INTO deeper_documents (source_id) SELECT ? FROM deeper_documents"
        " WHERE source_id = (SELECT max(id) FROM shown_sources"
        " WHERE uri = ? AND kind = 'document' AND id < ?)",
        [source_id, uri, source_id],
    )


def delete_versions(connection: Connection, uri: str, *, except_id: int | None) -> None:
    """Delete what was read from there but for one, within the caller's transaction."""
    found = connection.execute(
        "SELECT id FROM sources WHERE uri = ? AND kind = 'document' AND id IS NOT ?",
        [uri, except_id],
    )
    delete_sources(connection, [row[0] for row in found.fetchall()])


def hide_versions(
    connection: Connection, uri: str, deleted_at: datetime, *, except_id: int | None = None
) -> None:
    """Delete the same for now, within the caller's transaction."""
    connection.execute(
        "UPDATE sources SET deleted_at = ?"
        " WHERE uri = ? AND kind = 'document' AND id IS NOT ? AND deleted_at IS NULL",
        [time_text(deleted_at), uri, except_id],
    )


def not_found(source_id: int) -> RecordNotFoundError:
    """The error for a document that is not there."""
    return RecordNotFoundError(f"Document {source_id} does not exist; it may have been deleted.")


def source(row: Row) -> Source:
    """The record of a row."""
    return Source(
        id=row["id"],
        kind=row["kind"],
        conversation_id=row["conversation_id"],
        name=row["name"],
        uri=row["uri"],
        sha256=row["sha256"],
        num_characters=row["num_characters"],
        num_tokens=row["num_tokens"],
        is_pinned=bool(row["pinned"]),
        created_at=parse_time(row["created_at"]),
    )
