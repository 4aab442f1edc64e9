"""What was learned about each model: one opaque blob per model fingerprint, a table for each kind.

Knows nothing of their formats. Called by the app's services.
"""

from typing import Literal

from storage.connections import Connections
from storage.times import now

__all__ = ["LearnedBlobs"]


class LearnedBlobs:
    """One of the tables `successors`, `calibration` and `step_costs`."""

    def __init__(
        self,
        connections: Connections,
        table: Literal["successors", "calibration", "step_costs"],
    ) -> None:
        self._connections = connections
        self._table = table

    def load(self, model_fingerprint: str) -> bytes | None:
        """What was saved last for this model."""
        row = self._connections.row(
            f"SELECT data FROM {self._table} WHERE model_fingerprint = ?", [model_fingerprint]
        )
        return None if row is None else bytes(row["data"])

    def save(self, model_fingerprint: str, data: bytes) -> None:
        """Replace what was saved for this model."""
        with self._connections.transaction() as connection:
            connection.execute(
                f"INSERT INTO {self._table} (model_fingerprint, data, updated_at) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET data = excluded.data, updated_at = excluded.updated_at",
                [model_fingerprint, data, now()],
            )
