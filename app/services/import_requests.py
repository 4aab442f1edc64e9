"""What somebody asked to be imported, kept so that it can be gone on with: after a Cancel, a crash.

Knows the table of settings, no job. Used by the imports.
"""

import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.importing import FoundFile, SkippedFile, displayable_name, find_files, uploaded_files
from storage import Database

__all__ = ["ImportMemory", "ImportRequest"]

logger = logging.getLogger(__name__)

_UNFINISHED = "unfinished_import"
_UNFINISHED_IS_DEEPER = "unfinished_import_is_deeper"
_FOLDERS = "imported_folders"
_REMOVED_FOLDERS = "removed_folders"  # of these, to be forgotten with their documents
_MAX_FOLDERS = 1_000


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """Files and folders to import.

    Args:
        paths: of an upload, the one folder that its copies lie in.
        skipped: what was not uploaded, and why.
        is_deeper: whether the model is to read them, too, once nothing is asked.
    """

    paths: tuple[Path, ...]
    is_upload: bool = False
    skipped: tuple[SkippedFile, ...] = ()
    is_deeper: bool = False

    def files(self) -> Iterator[FoundFile | SkippedFile]:
        """What is found there now."""
        yield from self.skipped
        yield from uploaded_files(self.paths[0]) if self.is_upload else find_files(self.paths)

    def shown_path(self, path: Path) -> str:
        """The path for people; of a copy they know the name only."""
        is_copy = self.is_upload and path.is_relative_to(self.paths[0])
        return displayable_name(str(path.relative_to(self.paths[0]) if is_copy else path))


class ImportMemory:
    """What outlives the program: the import that was not finished, the folders imported so far."""

    def __init__(self, database: Database) -> None:
        self._settings = database.settings
        self._deletions = database.deletions

    def unfinished(self) -> ImportRequest | None:
        """The import that was begun and not ended, in this run of the program or an earlier one."""
        paths = self._texts(_UNFINISHED)
        if not paths:
            return None
        is_deeper = self._settings.get(_UNFINISHED_IS_DEEPER, False) is True
        return ImportRequest(tuple(map(Path, paths)), is_deeper=is_deeper)

    def begun(self, request: ImportRequest) -> None:
        """Remember it. The copies of an upload go with the program, so that it is not."""
        paths = [os.path.abspath(path.expanduser()) for path in request.paths]
        self._settings.set(_UNFINISHED_IS_DEEPER, request.is_deeper)
        self._settings.set(_UNFINISHED, [] if request.is_upload else paths)
        if not request.is_upload:
            folders = [Path(path).resolve().as_uri() for path in paths if os.path.isdir(path)]
            self._add_folders(folders)

    def ended(self) -> None:
        """There is nothing to go on with."""
        self._settings.set(_UNFINISHED, [])

    def folders(self) -> list[str]:
        """The URIs of all folders that were imported and not deleted since."""
        return self._texts(_FOLDERS)

    def remove_folder(self, uri: str) -> None:
        """Its documents were deleted; that may be undone, until they are purged."""
        if uri in self.folders():
            self._change(_REMOVED_FOLDERS, added=[uri])

    def forget_folders(self) -> None:
        """Something was purged: a removed folder without documents was never imported."""
        removed = self._texts(_REMOVED_FOLDERS)
        gone = [uri for uri in removed if not self._deletions.hold_documents_under(f"{uri}/")]
        if gone:
            self._change(_FOLDERS, removed=gone)
            self._change(_REMOVED_FOLDERS, removed=gone)

    def _add_folders(self, uris: Collection[str]) -> None:
        if uris:
            self._change(_REMOVED_FOLDERS, removed=uris)
            self._change(_FOLDERS, added=uris)

    def _texts(self, key: str) -> list[str]:
        return _texts(key, self._settings.get(key))

    def _change(self, key: str, added: Collection[str] = (), removed: Collection[str] = ()) -> None:
        """Add texts to a list that others may change, too, and take others out."""

        def changed(value: Any) -> list[str]:
            texts = [text for text in _texts(key, value) if text not in removed]
            return list(dict.fromkeys([*texts, *added]))[-_MAX_FOLDERS:]

        self._settings.change(key, changed)


def _texts(key: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    logger.warning("the setting %s is not usable and is forgotten", key)
    return []
