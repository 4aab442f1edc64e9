"""What was learned about each model: one opaque blob per fingerprint, a table for each kind.

Of each kind the latest few are kept, so that nothing of models long gone stays for ever.
Knows nothing of their formats. Called by the app's services.
"""

from typing import Literal

from storage.connections import Connections
from storage.times import now

__all__ = ["LearnedBlobs"]

_MAX_MODELS = 8  # a large vocabulary's successors are several megabytes


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
        """Replace what was saved for this model; those saved longest ago give way."""
        with self._connections.transaction() as connection:
            connection.execute(
                f"INSERT INTO {self._table} (model_fingerprint, data, updated_at) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET data = excluded.data, updated_at = excluded.updated_at",
                [model_fingerprint, data, now()],
            )
            connection.execute(
                f"DELETE FROM {self._table} WHERE model_fingerprint NOT IN (SELECT"
                f" model_fingerprint FROM {self._table}"
                " ORDER BY model_fingerprint = ? DESC, updated_at DESC LIMIT ?)",
                [model_fingerprint, _MAX_MODELS],  # whatever the clock says: not this one
            )
            if self._table == "successors":  # what was read is forgotten with what it taught
                connection.execute(
                    "DELETE FROM deeper_readings WHERE model_fingerprint NOT IN"
                    " (SELECT model_fingerprint FROM successors)"
                )
