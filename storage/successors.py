"""The recycled successors of each model: one opaque blob per model fingerprint.

Knows nothing of its format. Called by the app's services.
"""

from storage.connections import Connections
from storage.times import now

__all__ = ["Successors"]


class Successors:
    """The table `successors`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def load(self, model_fingerprint: str) -> bytes | None:
        """What was saved last for this model."""
        row = self._connections.row(
            "SELECT data FROM successors WHERE model_fingerprint = ?", [model_fingerprint]
        )
        return None if row is None else bytes(row["data"])

    def save(self, model_fingerprint: str, data: bytes) -> None:
        """Replace what was saved for this model."""
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO successors (model_fingerprint, data, updated_at) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET data = excluded.data, updated_at = excluded.updated_at",
                [model_fingerprint, data, now()],
            )
