"""A folder of model files that is whole or not there: manifest, check, publication.

Knows nothing of what the files hold and needs no torch. Called by the GGUF conversion, which writes
such a folder, and by the embedded model's set-up, which asks whether it can be used.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["is_whole", "new_model_folder"]

_MANIFEST_NAME = "manifest.json"


def is_whole(folder: Path) -> bool:
    """Whether `folder` was published and every file still has the size it was published with."""
    try:
        sizes = json.loads((folder / _MANIFEST_NAME).read_text(encoding="utf-8"))["file_bytes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def new_model_folder(folder: Path) -> Iterator[Path]:
    """Give an empty folder to write into; leaving without an error publishes it as `folder`.

    What an interrupted attempt left and a damaged `folder` are replaced. The caller sees to it that
    only one process at a time does this.

    Raises:
        OSError: the disk is full or the place cannot be written.
    """
    temporary = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _seal(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _seal(folder: Path) -> None:
    """Write the manifest and wait until every file is on the disk, not only in its cache."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    manifest = json.dumps({"file_bytes": sizes}, indent=2)
    (folder / _MANIFEST_NAME).write_text(manifest, encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
