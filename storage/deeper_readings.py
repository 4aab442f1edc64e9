"""Documents that a model is to read itself, and how far each model has come.

Knows no model. Written by imports and by the app's idle work.
"""

from storage.connections import Connections
from storage.records import DeeperReading

__all__ = ["DeeperReadings"]

# A document counts under the tokenizer asked for; where it has no sequence yet, it waits.
_OPEN = """
    FROM deeper_documents
    JOIN shown_sequences AS sequences
        ON sequences.source_id = deeper_documents.source_id AND +tokenizer_id = ?
    LEFT JOIN deeper_readings ON deeper_readings.source_id = deeper_documents.source_id
        AND model_fingerprint = ?
    WHERE coalesce(num_read, 0) < num_tokens
"""


class DeeperReadings:
    """The tables `deeper_documents` and `deeper_readings`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def want(self, source_id: int) -> None:
        """Have a document read by every model, from its beginning where none has begun."""
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO deeper_documents (source_id)"
                " SELECT id FROM sources WHERE id = ? AND kind = 'document'",
                [source_id],
            )

    def next(
        self, model_fingerprint: str, tokenizer_id: int, *, after: int = 0
    ) -> DeeperReading | None:
        """The first document, with an id above `after`, that this model has not read to its end."""
        row = self._connections.row(
            "SELECT deeper_documents.source_id, sequences.id AS sequence_id, num_tokens,"
            f" coalesce(num_read, 0) AS num_read {_OPEN}"
            " AND deeper_documents.source_id > ?"
            " ORDER BY deeper_documents.source_id, sequences.id LIMIT 1",
            [tokenizer_id, model_fingerprint, after],
        )
        return None if row is None else DeeperReading(**row)

    def num_tokens_left(self, model_fingerprint: str, tokenizer_id: int) -> int:
        """Tokens of all documents that this model has still to read."""
        row = self._connections.row(
            f"SELECT coalesce(sum(num_tokens - coalesce(num_read, 0)), 0) AS num_left {_OPEN}",
            [tokenizer_id, model_fingerprint],
        )
        assert row is not None, "a sum is one row"
        num_left: int = row["num_left"]
        return num_left

    def advance(self, source_id: int, model_fingerprint: str, num_read: int) -> None:
        """This model has read so many tokens of it; nothing where the document is gone."""
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO deeper_readings (source_id, model_fingerprint, num_read)"
                " SELECT source_id, ?, ? FROM deeper_documents WHERE source_id = ?"
                " ON CONFLICT DO UPDATE SET num_read = excluded.num_read",
                [model_fingerprint, num_read, source_id],
            )
