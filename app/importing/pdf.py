"""PDF to text: lines become paragraphs again, what stands on every page is left out.

Knows one document at a time. Called by the converters, in the child process.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import pypdfium2  # type: ignore[import-untyped]

from app.importing.errors import UnreadableError
from app.importing.limits import ReadingLimits

__all__ = ["paragraphs", "read_pdf"]

_BROKEN_WORD = "\ufffe"  # how PDFium gives a hyphen that only a line's end put there
_FULL_LINE = 0.8  # of the page's usual line; a shorter line ends its paragraph
_ITEM = re.compile(r"([•◦▪‣∙·*–—-]|\(?\d{1,3}[.)]|\(?[a-z][.)]|--?\w\S*)\s")
_DIGITS = re.compile(r"\d+")
_MIN_PAGES = 4  # before what stands on most pages is taken for a running header
_MOST_PAGES = 0.6
_EDGE_LENGTH = 2  # lines at the head and at the foot of a page that may be such
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD


def read_pdf(data: bytes, limits: ReadingLimits) -> str:
    """The text of all pages. Raises UnreadableError."""
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise UnreadableError("protected by a password") from error
        raise UnreadableError("not a PDF that can be read (damaged)") from error
    with document:
        pages = []
        num_characters = 0
        for index in range(len(document)):
            pages.append(_lines(document, index))
            num_characters += sum(map(len, pages[-1]))
            if num_characters > limits.num_characters:
                raise UnreadableError("too much text for one document")
    if not num_characters:
        raise UnreadableError("no text in it (scanned pages are pictures)")
    running = _running_lines(pages)
    return "\n\n".join(filter(None, (paragraphs(_body(page, running)) for page in pages)))


def _lines(document: pypdfium2.PdfDocument, index: int) -> list[str]:
    try:
        page = document[index]
        text = page.get_textpage().get_text_range()
        page.close()
    except pypdfium2.PdfiumError:  # one page is damaged, others need not be
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _shape(line: str) -> str:
    """The line without its numbers: `Page 3 of 9` is on every page."""
    return _DIGITS.sub("0", line)


def _running_lines(pages: Sequence[Sequence[str]]) -> set[str]:
    """The shapes of first and last lines that stand on most pages."""
    if len(pages) < _MIN_PAGES:
        return set()
    counts = Counter(shape for page in pages for shape in {_shape(line) for line in _edges(page)})
    return {shape for shape, count in counts.items() if count > _MOST_PAGES * len(pages)}


def _edges(page: Sequence[str]) -> Sequence[str]:
    return [*page[:_EDGE_LENGTH], *page[-_EDGE_LENGTH:]]


def _body(page: list[str], running: set[str]) -> list[str]:
    """The page without running headers and page numbers."""
    first, last = 0, len(page)
    while first < min(_EDGE_LENGTH, last) and _is_running(page[first], running):
        first += 1
    while last > max(first, len(page) - _EDGE_LENGTH) and _is_running(page[last - 1], running):
        last -= 1
    return page[first:last]


def _is_running(line: str, running: set[str]) -> bool:
    return line.isdigit() or _shape(line) in running


def paragraphs(lines: Sequence[str]) -> str:
    """Lines joined where only the page's width parted them, which nobody writes in an answer."""
    if not lines:
        return ""
    usual = sorted(map(len, lines))[len(lines) * 9 // 10]
    joined = [lines[0]]
    for previous, line in itertools.pairwise(lines):
        if joined[-1].endswith(_BROKEN_WORD):
            joined[-1] = joined[-1][:-1] + line
        elif len(previous) >= _FULL_LINE * usual and not _ITEM.match(line):
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return "\n".join(joined).replace(_BROKEN_WORD, "")
