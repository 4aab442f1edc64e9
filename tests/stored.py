"""What tests do with stored documents that the product does in pieces, and ask of them all."""

from datetime import UTC, datetime, timedelta

from storage import Database
from storage.sources import delete_versions


def purge_documents(database: Database, *source_ids: int) -> list[int]:
    """Delete them, and all that was deleted before; the ids of the sequences.

    Raises RecordNotFoundError where one is not there; then none is deleted.
    """
    database.deletions.hide_documents(source_ids)
    return database.deletions.purge(datetime.now(UTC) + timedelta(days=1))


def purge_versions(database: Database, uri: str, *, except_id: int | None = None) -> None:
    """What was read from there, but for one document, as an import does that replaces it."""
    with database._connections.transaction() as connection:
        delete_versions(connection, uri, except_id=except_id)


def shown_sequence_ids(database: Database, tokenizer_id: int) -> list[int]:
    """All sequences of a tokenizer that are not hidden, rising: what an index must hold."""
    rows = database.sequences.to_index(tokenizer_id)
    return [sequence_id for sequence_id, *_, is_hidden in rows if not is_hidden]
