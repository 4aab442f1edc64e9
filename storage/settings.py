"""What the user chose in the page: JSON values by key.

Knows nothing of what they mean. Called by the app's services.
"""

import json
from typing import Any

from storage.connections import Connections

__all__ = ["StoredSettings"]


class StoredSettings:
    """The table `settings`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` where none was set."""
        row = self._connections.row("SELECT value FROM settings WHERE key = ?", [key])
        return default if row is None else json.loads(row["value"])

    def set(self, key: str, value: Any) -> None:
        """Replace the value; it must be possible in JSON."""
        with self._connections.transaction() as connection:
            connection.execute(
                "INSERT INTO settings (key, value) VALUES (?, ?)"
                " ON CONFLICT DO UPDATE SET value = excluded.value",
                [key, json.dumps(value)],
            )
