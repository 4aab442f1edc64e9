"""Measurements of models on this machine, kept in one small JSON file in the cache folder.

What the loader uses where its caller brings no place of its own. The file can be deleted at any
time: what is missing is measured anew. Imports no torch.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from lookahead.embedded_model import default_cache_dir

__all__ = ["KnownFacts"]


class KnownFacts(MutableMapping[str, str]):
    """Facts by name, written through; an unreadable file counts as empty.

    Args:
        path: the file; None: `facts.json` in the user's cache folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or default_cache_dir() / "facts.json"
        self._facts: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            known = json.loads(self._path.read_text(encoding="utf-8"))
            self._facts = {str(key): str(value) for key, value in known.items()}

    def __getitem__(self, key: str) -> str:
        return self._facts[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._facts[key] = value
        self._write()

    def __delitem__(self, key: str) -> None:
        del self._facts[key]
        self._write()

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def _write(self) -> None:
        """A temporary name, then a rename; where nothing can be written, facts last for the run."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix="facts-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._facts, file, indent=1)
            Path(temporary).replace(self._path)
