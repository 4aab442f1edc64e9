"""What kind of document a file is: by its name while a folder is listed, by its content when read.

Knows nothing of what stands in it. Called by the file finder and by the converters.
"""

import io
import zipfile
from enum import StrEnum
from pathlib import PurePath

from app.importing.errors import UnreadableError

__all__ = ["DocumentKind", "kind_of_content", "kind_of_name"]

_SUFFIXES = """
    .txt .text .md .markdown .mdx .rst .adoc .org .tex .bib .csv .tsv .log .srt .vtt .po .diff
    .py .pyi .pyx .r .jl .lua .pl .pm .rb .php .sh .bash .zsh .fish .ps1 .bat .cmd
    .c .h .cc .cpp .cxx .hpp .hh .hxx .cu .cuh .cl .m .mm .rs .go .zig .nim .d .v .sv .vhd .vhdl
    .java .kt .kts .scala .groovy .gradle .clj .cljs .cs .fs .fsx .vb .swift .dart
    .js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte .css .scss .sass .less
    .json .jsonl .yaml .yml .toml .ini .cfg .conf .properties .xml .xsd .xsl .svg .jinja .j2
    .sql .graphql .proto .thrift .cmake .mk .tf .nix .dockerfile .asm .s .sol .patch .tmpl .ada
    .hs .lhs .ml .mli .ex .exs .erl .hrl .elm .lisp .el .scm .rkt .f .f90 .f95 .for .pas .adb .ads
"""
_NAMES = """
    readme license licence copying notice authors changelog changes contributing todo makefile
    dockerfile containerfile gemfile rakefile procfile vagrantfile jenkinsfile justfile codeowners
"""


class DocumentKind(StrEnum):
    """How a file is read. The values are what people call it."""

    TEXT = "text"
    HTML = "a web page"
    PDF = "a PDF"
    WORD = "a Word document"
    SLIDES = "a PowerPoint presentation"
    SHEETS = "an Excel workbook"
    NOTEBOOK = "a Jupyter notebook"
    EPUB = "an EPUB book"

    @property
    def is_container(self) -> bool:
        """Whether text has to be taken out of something that is no text."""
        return self not in (DocumentKind.TEXT, DocumentKind.HTML, DocumentKind.NOTEBOOK)


_KINDS_BY_SUFFIX = {
    **dict.fromkeys(_SUFFIXES.split(), DocumentKind.TEXT),
    **dict.fromkeys((".html", ".htm", ".xhtml"), DocumentKind.HTML),
    ".pdf": DocumentKind.PDF,
    ".docx": DocumentKind.WORD,
    ".pptx": DocumentKind.SLIDES,
    ".xlsx": DocumentKind.SHEETS,
    ".ipynb": DocumentKind.NOTEBOOK,
    ".epub": DocumentKind.EPUB,
}
_TEXT_NAMES = frozenset(_NAMES.split())
_KINDS_BY_PART = {  # a part that every packed file of the kind has
    "word/document.xml": DocumentKind.WORD,
    "ppt/presentation.xml": DocumentKind.SLIDES,
    "xl/workbook.xml": DocumentKind.SHEETS,
    "META-INF/container.xml": DocumentKind.EPUB,
}
_OLD_OFFICE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF_MARK_WITHIN = 1024  # bytes in which readers look for it


def kind_of_name(name: str) -> DocumentKind | None:
    """The kind that a file of this name is expected to be; None: none that is imported."""
    path = PurePath(name.lower())
    kind = _KINDS_BY_SUFFIX.get(path.suffix)
    return DocumentKind.TEXT if kind is None and path.name in _TEXT_NAMES else kind


def kind_of_content(data: bytes, name: str) -> DocumentKind:
    """The kind of a file, whatever its name promises.

    Raises:
        UnreadableError: it is packed, and nothing that is read; or its name promises a container
            that it is not.
    """
    expected = kind_of_name(name) or DocumentKind.TEXT
    is_pdf = expected is DocumentKind.PDF and b"%PDF-" in data[:_PDF_MARK_WITHIN]
    if is_pdf or data.lstrip()[:5] == b"%PDF-":
        return DocumentKind.PDF
    if data.startswith(b"PK"):
        return _kind_of_archive(data, expected)
    if data.startswith(_OLD_OFFICE_MARK):
        raise UnreadableError(
            "protected by a password, or of an old Office version; save it as .docx, .pptx or .xlsx"
        )
    if expected.is_container and data:
        raise UnreadableError(f"not {expected} (damaged, or another kind of file)")
    return expected


def _kind_of_archive(data: bytes, expected: DocumentKind) -> DocumentKind:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        if expected.is_container:
            raise UnreadableError(f"not {expected} (damaged, or another kind of file)") from None
        if b"\0" not in data:
            return expected  # a text that begins so
        raise UnreadableError("not text (binary, or an unknown encoding)") from None
    for part, kind in _KINDS_BY_PART.items():
        if part in names:
            return kind
    raise UnreadableError("an archive; unpack it and import the folder")
