"""What the user chose in the page: JSON values by key.

Knows nothing of what they mean. Called by the app's services.
"""

import json
from collections.abc import Callable
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
        self.change(key, lambda _: value)

    def change(self, key: str, function: Callable[[Any], Any]) -> None:
        """Replace the value by what a function makes of it, which is given None where none was set.

        Nobody else, no other program either, sets it meanwhile.
        """
        with self._connections.transaction() as connection:
            found = connection.execute("SELECT value FROM settings WHERE key = ?", [key]).fetchone()
            value = function(None if found is None else json.loads(found[0]))
            connection.execute(
                "INSERT INTO settings (key, value) VALUES (?, ?)"
                " ON CONFLICT DO UPDATE SET value = excluded.value",
                [key, json.dumps(value)],
            )
