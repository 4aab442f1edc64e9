"""Imported documents by the folder that they were imported from.

Knows records only. Used by the Documents tab.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.importing.files import displayable_name, path_of_uri
from storage.records import Source

__all__ = ["DocumentFolder", "document_folders"]

_UPLOAD = "upload:"


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """Documents that came from one place.

    Args:
        key: the folder's URI; `upload:` and what follows for uploads, "" for single files.
        name: for people.
        sources: by name.
    """

    key: str
    name: str
    sources: tuple[Source, ...]

    @property
    def is_upload(self) -> bool:
        """Whether only copies of it were ever there."""
        return self.key.startswith(_UPLOAD)


def document_folders(sources: Iterable[Source], folder_uris: Sequence[str]) -> list[DocumentFolder]:
    """The documents, put together by folder; the folders by name, single files at the end.

    Args:
        folder_uris: the folders that were imported; one inside another keeps its own documents.
    """
    uris = sorted(folder_uris, key=len, reverse=True)
    found: dict[str, list[Source]] = {}
    for source in sources:
        found.setdefault(_key(source.uri, uris), []).append(source)
    folders = [
        DocumentFolder(key, _name(key), tuple(sorted(group, key=lambda source: source.name)))
        for key, group in found.items()
    ]
    return sorted(folders, key=lambda folder: (not folder.key, folder.is_upload, folder.name))


def _key(uri: str, folder_uris: Sequence[str]) -> str:
    if uri.startswith(_UPLOAD):
        return f"{uri.split('/', 1)[0]}/" if "/" in uri else _UPLOAD
    return next((folder for folder in folder_uris if uri.startswith(f"{folder}/")), "")


def _name(key: str) -> str:
    if not key:
        return "Single files"
    if key == _UPLOAD:
        return "Uploaded files"
    if key.startswith(_UPLOAD):
        return f"{key.removeprefix(_UPLOAD).rstrip('/')} (uploaded)"
    return displayable_name(str(path_of_uri(key)))
