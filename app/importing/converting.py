"""The bytes of a file to the text that stands in it.

Knows the formats, no process and no folder. Called in the child process alone: what it hands the
bytes to may crash, hang or eat memory over a file that was made for it.
"""

import re

from app.importing.archives import checked_archive
from app.importing.encodings import decode
from app.importing.errors import UnreadableError
from app.importing.kinds import DocumentKind, kind_of_content
from app.importing.limits import ReadingLimits, too_large

__all__ = ["convert"]

_UNWANTED = re.compile("[\0\ud800-\udfff]")  # which no database and no page takes


def convert(data: bytes, name: str, limits: ReadingLimits) -> str:
    """The text of a document, line ends made the same.

    Args:
        name: the file's name, for the kinds that only a name tells.

    Raises:
        UnreadableError: there is no text to be had from it.
    """
    if not data.strip():
        raise UnreadableError("empty")
    kind = kind_of_content(data, name)
    if len(data) > limits.most_bytes(kind):
        raise UnreadableError(too_large(len(data), limits.most_bytes(kind)))
    try:
        text = _read(data, kind, limits)
    except (UnreadableError, MemoryError):
        raise
    except ImportError as error:
        raise UnreadableError(f"needs the package {error.name}, which is not installed") from error
    except Exception as error:  # a converter's; whatever it is, the file is skipped
        raise UnreadableError(
            f"not {kind} that can be read (damaged: {type(error).__name__})"
        ) from error
    text = _UNWANTED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.strip():
        raise UnreadableError("empty" if kind is DocumentKind.TEXT else "no text in it")
    if len(text) > limits.num_characters:
        raise UnreadableError("too much text for one document")
    return text


def _read(data: bytes, kind: DocumentKind, limits: ReadingLimits) -> str:
    """Converters are imported where they are needed: most folders need one or two of them."""
    match kind:
        case DocumentKind.TEXT:
            return decode(data)
        case DocumentKind.NOTEBOOK:
            from app.importing.notebook import read_notebook

            return read_notebook(decode(data))
        case DocumentKind.HTML:
            from app.importing.markup import decode_markup, text_of_markup

            return text_of_markup(decode_markup(data))
        case DocumentKind.PDF:
            from app.importing.pdf import read_pdf

            return read_pdf(data, limits)
    archive = checked_archive(data, limits)
    if kind is DocumentKind.EPUB:
        from app.importing.epub import read_epub

        return read_epub(archive)
    from app.importing import office

    match kind:
        case DocumentKind.WORD:
            return office.read_word(data)
        case DocumentKind.SLIDES:
            return office.read_slides(data)
    return office.read_sheets(data, limits)
