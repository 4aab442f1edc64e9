"""Small things measured about a model on this machine: text by key, per model.

Knows nothing of what they mean. The app hands the mapping of a model to the engine.
"""

from collections.abc import Iterator, MutableMapping

from storage.connections import Connections
from storage.times import now

__all__ = ["Facts", "ModelFacts"]


class ModelFacts(MutableMapping[str, str]):
    """The facts of one model, read and written through."""

    def __init__(self, connections: Connections, model_fingerprint: str) -> None:
        self._connections = connections
        self._model_fingerprint = model_fingerprint

    def __getitem__(self, key: str) -> str:
        row = self._connections.row(
            "SELECT value FROM facts WHERE model_fingerprint = ? AND key = ?",
            [self._model_fingerprint, key],
        )
        if row is None:
            raise KeyError(key)
        value: str = row["value"]
        return value

    def __setitem__(self, key: str, value: str) -> None:
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO facts (model_fingerprint, key, value, updated_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET value = excluded.value,"
                " updated_at = excluded.updated_at",
                [self._model_fingerprint, key, value, now()],
            )

    def __delitem__(self, key: str) -> None:
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "DELETE FROM facts WHERE model_fingerprint = ? AND key = ?",
                [self._model_fingerprint, key],
            )
            if not cursor.rowcount:
                raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        rows = self._connections.rows(
            "SELECT key FROM facts WHERE model_fingerprint = ? ORDER BY key",
            [self._model_fingerprint],
        )
        return iter([row["key"] for row in rows])

    def __len__(self) -> int:
        return len(list(iter(self)))


class Facts:
    """The table `facts`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def for_model(self, model_fingerprint: str) -> ModelFacts:
        """The facts of a model, under any name that tells it from others."""
        return ModelFacts(self._connections, model_fingerprint)
