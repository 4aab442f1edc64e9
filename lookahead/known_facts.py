"""Measurements of models on this machine, kept in one small JSON file in the cache folder.

The one place for them, whatever data folder the app works with. The file can be deleted at any
time: what is missing is measured anew. Knows nothing of what the values mean; imports no torch.
Made by the loader, by the app's engine and by the benchmark of drafters.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

from filelock import FileLock

from lookahead.embedded_model import default_cache_dir

__all__ = ["KnownFacts"]

_LOCK_SECONDS = 10.0  # another program holds it for milliseconds
# Of earlier versions: without a version, and a ratio taken from the clock on the wall.
_READ_BY_NOTHING = re.compile(
    r"(row_classes|strict_attention|fewest_rows)(:[a-z]+)?:[^:]*$|row_cost_ratio:"
)


class KnownFacts(MutableMapping[str, str]):
    """Facts by name, written through; a file that cannot be read counts as empty.

    Several programs may write: each changes single facts of what the file holds by then.

    Args:
        cache_dir: the folder of the file `facts.json`; None: the user's cache folder.
    """

    def __init__(self, cache_dir: Path | None = None) -> None:
        self._path = (cache_dir or default_cache_dir()) / "facts.json"
        self._patience = _LOCK_SECONDS
        self._facts = self._read()

    def __getitem__(self, key: str) -> str:
        return self._facts[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._facts[key] = value
        self._change(lambda facts: facts.update({key: value}))

    def __delitem__(self, key: str) -> None:
        del self._facts[key]
        self._change(lambda facts: facts.pop(key, None))

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def _read(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            known = json.loads(self._path.read_text(encoding="utf-8"))
            return {
                key: str(value) for key, value in known.items() if not _READ_BY_NOTHING.match(key)
            }
        return {}

    def _change(self, change: Callable[[dict[str, str]], object]) -> None:
        """Read again, change, write under another name, rename; nobody else writes meanwhile.

        Where nothing can be written, facts last for the run.
        """
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(FileLock(f"{self._path}.lock", timeout=self._patience))
            except NotImplementedError:
                pass  # the file system knows no locks
            except TimeoutError:
                self._patience = 0.0  # what holds it may hold it for ever
                raise
            facts = self._facts | self._read()
            change(facts)
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(facts, indent=1), encoding="utf-8")
            partial.replace(self._path)
            self._facts = facts
