"""Documents from disk: which files of a folder are text, and what stands in them.

Knows no tokenizer and no database. Called by the import job. Files are only ever read; a file that
cannot be taken in is passed over with a reason.
"""

import codecs
import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from charset_normalizer import from_bytes

__all__ = [
    "DocumentFile",
    "FoundFile",
    "SkippedFile",
    "displayable_name",
    "find_files",
    "read_document",
    "uploaded_files",
]

MAX_FILE_BYTES = 16 * 1024 * 1024

_SUFFIXES = """
    .txt .text .md .markdown .mdx .rst .adoc .org .tex .bib .csv .tsv .log .srt .vtt .po .diff
    .py .pyi .pyx .ipynb .r .jl .lua .pl .pm .rb .php .sh .bash .zsh .fish .ps1 .bat .cmd
    .c .h .cc .cpp .cxx .hpp .hh .hxx .cu .cuh .cl .m .mm .rs .go .zig .nim .d .v .sv .vhd .vhdl
    .java .kt .kts .scala .groovy .gradle .clj .cljs .cs .fs .fsx .vb .swift .dart
    .js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte .html .htm .css .scss .sass .less
    .json .jsonl .yaml .yml .toml .ini .cfg .conf .properties .xml .xsd .xsl .svg .jinja .j2
    .sql .graphql .proto .thrift .cmake .mk .tf .nix .dockerfile .asm .s .sol .patch .tmpl .ada
    .hs .lhs .ml .mli .ex .exs .erl .hrl .elm .lisp .el .scm .rkt .f .f90 .f95 .for .pas .adb .ads
"""
_NAMES = """
    readme license licence copying notice authors changelog changes contributing todo makefile
    dockerfile containerfile gemfile rakefile procfile vagrantfile jenkinsfile justfile codeowners
"""
_TOOLS = """
    .git .hg .svn .bzr .tox .nox .venv venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
    .idea .vscode .gradle .cache __pycache__ node_modules bower_components site-packages
"""
_TEXT_SUFFIXES = frozenset(_SUFFIXES.split())
_TEXT_NAMES = frozenset(_NAMES.split())
_TOOL_FOLDERS = frozenset(_TOOLS.split())
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, surrogates, line breaks
_MARKED_ENCODINGS = (  # longer marks first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that looks like text.

    Args:
        name: its path inside the folder that was named, displayable.
        uri: where it comes from; the same again the next time it is imported.
    """

    path: Path
    name: str
    uri: str


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not taken in, and the reason for people.

    Args:
        is_read: whether it was opened, so that what was read from it earlier is there no more.
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
                yield FoundFile(root, displayable_name(root.name), root.as_uri())
        except (OSError, RuntimeError, ValueError) as error:
            yield SkippedFile(path, _explain(error))


def uploaded_files(paths: Iterable[Path]) -> Iterator[FoundFile]:
    """Copies of files that came through the browser: known by their names, wherever they lie."""
    for path in paths:
        uri = f"upload:{path.name}".encode("utf-8", "backslashreplace").decode("utf-8")
        yield FoundFile(path, displayable_name(path.name), uri)


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
            yield SkippedFile(Path(failure.filename or root), _explain(failure))
    for failure in failures:
        yield SkippedFile(Path(failure.filename or root), _explain(failure))


def _reason_against_folder(path: Path, root: Path) -> SkippedFile | None:
    if os.path.islink(path):  # unlike Path.is_symlink, false where the path cannot be looked at
        return _refuse_link(path, root)
    if path.name.lower() in _TOOL_FOLDERS:
        return SkippedFile(path, "a folder of tools, not of documents")
    return None


def _judge(path: Path, root: Path) -> FoundFile | SkippedFile:
    if os.path.islink(path):  # unlike Path.is_symlink, false where the path cannot be looked at
        return _refuse_link(path, root)
    if path.suffix.lower() in _TEXT_SUFFIXES or path.name.lower() in _TEXT_NAMES:
        return FoundFile(path, displayable_name(path.relative_to(root).as_posix()), path.as_uri())
    return SkippedFile(path, "not a kind of file that is imported from folders")


def _refuse_link(path: Path, root: Path) -> SkippedFile:
    try:
        is_inside = path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return SkippedFile(path, "a link that leads nowhere")
    if is_inside:
        return SkippedFile(path, "a link to what is in the folder already")
    return SkippedFile(path, "a link that leads out of the folder")


def read_document(found: FoundFile) -> DocumentFile | SkippedFile:
    """Read a file and find out its encoding; what is no text is skipped with a reason."""
    try:
        data = _read_bytes(found.path)
    except OSError as error:
        return SkippedFile(found.path, _explain(error))
    if isinstance(data, str):
        return SkippedFile(found.path, data, is_read=True)
    text = _decode(data)
    if text is None:
        reason = "not text (binary, or an unknown encoding)"
        return SkippedFile(found.path, reason, is_read=True)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        return SkippedFile(found.path, "empty", is_read=True)
    sha256 = hashlib.sha256(data).hexdigest()
    return DocumentFile(found.path, found.name, found.uri, text, sha256)


def _read_bytes(path: Path) -> bytes | str:
    """The content, or the reason against it. Checked on the opened file, so nothing can swap it."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "not an ordinary file"
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        size = max(status.st_size, len(data))
        return f"too large ({size:,} bytes; at most {MAX_FILE_BYTES:,})"
    return data


def _decode(data: bytes) -> str | None:
    """The text; None for what is no text."""
    for mark, encoding in _MARKED_ENCODINGS:
        if data.startswith(mark):
            return _decode_as(data, encoding)
    if b"\0" in data:
        return None
    text = _decode_as(data, "utf-8")
    if text is not None:
        return text
    best = from_bytes(data).best()
    return None if best is None else _decode_as(data, best.encoding)


def _decode_as(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None
    num_controls = sum(character < " " and character not in "\t\n\r\f\v\x1b" for character in text)
    return None if num_controls * 100 > len(text) else text


def _explain(error: OSError | RuntimeError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file or folder"
        case PermissionError():
            return "no permission to read it"
        case RecursionError():
            return "its folders lie too deep inside each other"
        case OSError() if error.strerror:
            return f"cannot be read ({error.strerror})"
        case _:
            return "cannot be read"
