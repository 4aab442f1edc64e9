"""Files of a folder: which of them are documents, by their names.

Knows no content, no tokenizer and no database. Called by the import job. A file that is not taken
in is passed over with a reason.
"""

import contextlib
import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from app.importing.errors import explain_failure
from app.importing.kinds import kind_of_name

__all__ = [
    "DocumentFile",
    "FoundFile",
    "SkippedFile",
    "displayable_name",
    "find_files",
    "path_of_uri",
    "reason_against_upload",
    "uploaded_files",
]

_TOOLS = """
    .git .hg .svn .bzr .tox .nox .venv venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
    .idea .vscode .gradle .cache __pycache__ node_modules bower_components site-packages
"""
_TOOL_FOLDERS = frozenset(_TOOLS.split())
_LEFTOVER_PREFIXES = ("~$", "._")  # of an open Office file, of a file's properties on a Mac
_TOOLS_REASON = "a folder of tools, not of documents"
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, surrogates, line breaks


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that looks like a document.

    Args:
        name: its path inside the folder that was named, displayable.
        uri: where it comes from; the same again the next time it is imported.
        num_bytes: its size when it was found.
    """

    path: Path
    name: str
    uri: str
    num_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not taken in, and the reason for people.

    Args:
        is_read: whether it was looked into, so that what was read from it earlier is there no more.
            Not where the looking broke off: then there may be other causes than the file.
    """

    path: Path
    reason: str
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file's text, line ends made the same; `sha256` is that of its bytes."""

    path: Path
    name: str
    uri: str
    text: str
    sha256: str


def find_files(paths: Iterable[Path]) -> Iterator[FoundFile | SkippedFile]:
    """All files named by `paths` or lying in folders named by them, in a stable order.

    In a folder, files are chosen by their names; a file named by itself is judged by its content.
    Links are followed only where they were named by the caller: one inside a folder that leads out
    of it is refused, and one that stays inside shows what is found anyway.
    """
    for path in paths:
        try:
            root = path.expanduser().resolve(strict=True)
            if root.is_dir():
                yield from _walk(root)
            else:
                size = root.stat().st_size
                yield FoundFile(root, displayable_name(root.name), root.as_uri(), size)
        except (OSError, RuntimeError, ValueError) as error:
            yield SkippedFile(path, explain_failure(error))


def uploaded_files(folder: Path) -> Iterator[FoundFile]:
    """Copies of files that came through the browser: known by their names, wherever they lie."""
    for folder_name, folder_names, file_names in os.walk(folder):
        folder_names.sort()
        for name in sorted(file_names):
            path = Path(folder_name, name)
            relative = path.relative_to(folder).as_posix()
            uri = f"upload:{relative}".encode("utf-8", "backslashreplace").decode("utf-8")
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                yield FoundFile(path, displayable_name(relative), uri, path.stat().st_size)


def reason_against_upload(name: str) -> str | None:
    """Why a file that somebody is about to upload is not wanted; None: it is.

    Args:
        name: its path inside the chosen folder, with slashes; a file chosen by itself has none.
    """
    *folders, last = name.split("/")
    if any(folder.lower() in _TOOL_FOLDERS for folder in folders):
        return _TOOLS_REASON
    return _reason_against_name(last) if folders else None


def path_of_uri(uri: str) -> Path:
    """The path that a `file:` URI was made of, whatever bytes are in it."""
    quoted = urlsplit(uri).path
    if os.name == "nt":
        from urllib.request import url2pathname  # a large module, which the child needs not

        return Path(url2pathname(quoted))
    return Path(os.fsdecode(unquote_to_bytes(quoted)))


def displayable_name(name: str) -> str:
    """The name with backslash escapes for what cannot be shown or saved: bytes, controls."""
    return "".join(
        _escape(character) if unicodedata.category(character) in _HIDDEN_CATEGORIES else character
        for character in name
    )


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # how Python carries a byte that is no UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def _walk(root: Path) -> Iterator[FoundFile | SkippedFile]:
    failures: list[OSError] = []
    for folder_name, folder_names, file_names in os.walk(root, onerror=failures.append):
        folder = Path(folder_name)
        for name in sorted(folder_names):
            skipped = _reason_against_folder(folder / name, root)
            if skipped is not None:
                folder_names.remove(name)
                yield skipped
        folder_names.sort()
        for name in sorted(file_names):
            yield _judge(folder / name, root)
        while failures:
            failure = failures.pop()
            yield SkippedFile(Path(failure.filename or root), explain_failure(failure))
    for failure in failures:
        yield SkippedFile(Path(failure.filename or root), explain_failure(failure))


def _reason_against_folder(path: Path, root: Path) -> SkippedFile | None:
    if os.path.islink(path) or _leads_elsewhere(path):
        return _refuse_link(path, root)
    if path.name.lower() in _TOOL_FOLDERS:
        return SkippedFile(path, _TOOLS_REASON)
    return None


def _leads_elsewhere(path: Path) -> bool:
    """Whether a folder of a resolved path is another: a junction of Windows is no link."""
    return os.path.normcase(os.path.realpath(path)) != os.path.normcase(path)


def _judge(path: Path, root: Path) -> FoundFile | SkippedFile:
    if os.path.islink(path):  # unlike Path.is_symlink, false where the path cannot be looked at
        return _refuse_link(path, root)
    reason = _reason_against_name(path.name)
    if reason is not None:
        return SkippedFile(path, reason)
    try:
        num_bytes = path.stat().st_size
    except OSError as error:
        return SkippedFile(path, explain_failure(error))
    name = displayable_name(path.relative_to(root).as_posix())
    return FoundFile(path, name, path.as_uri(), num_bytes)


def _reason_against_name(name: str) -> str | None:
    if name.startswith(_LEFTOVER_PREFIXES):
        return "a leftover of another program"
    if kind_of_name(name) is None:
        return "not a kind of file that is imported from folders"
    return None


def _refuse_link(path: Path, root: Path) -> SkippedFile:
    try:
        is_inside = path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return SkippedFile(path, "a link that leads nowhere")
    if is_inside:
        return SkippedFile(path, "a link to what is in the folder already")
    return SkippedFile(path, "a link that leads out of the folder")
