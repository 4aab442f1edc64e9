"""The tokenizers that token ids were made with, by fingerprint.

Knows no tokenizer library. Called by the app's services when a model is loaded.
"""

from storage.connections import Connections
from storage.times import now

__all__ = ["Tokenizers"]


class Tokenizers:
    """The table `tokenizers`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def ensure(self, fingerprint: str, name: str) -> int:
        """The id of the tokenizer with this fingerprint; a new one gets `name`."""
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO tokenizers (fingerprint, name, created_at) VALUES (?, ?, ?)"
                " ON CONFLICT (fingerprint) DO NOTHING",
                [fingerprint, name, now()],
            )
            row = connection.execute(
                "SELECT id FROM tokenizers WHERE fingerprint = ?", [fingerprint]
            ).fetchone()
        tokenizer_id: int = row[0]
        return tokenizer_id

    def copy_from(self, other: "Tokenizers") -> None:
        """Take over those of another database, under the same ids."""
        rows = other._connections.rows("SELECT id, fingerprint, name, created_at FROM tokenizers")
        with self._connections.transaction() as connection:
            connection.conn.executemany(
                "INSERT OR IGNORE INTO tokenizers (id, fingerprint, name, created_at)"
                " VALUES (:id, :fingerprint, :name, :created_at)",
                rows,
            )
