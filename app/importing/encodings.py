"""Bytes to text: which encoding a file is in.

Knows no format. Called by the converters, in the child process.
"""

import codecs
import re

from charset_normalizer import from_bytes

from app.importing.errors import UnreadableError

__all__ = ["decode"]

_MARKED_ENCODINGS = (  # longer marks first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile("[\0-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]")  # those that no text has many of


def decode(data: bytes, declared: str | None = None) -> str:
    """The text of a file.

    Args:
        declared: the encoding that the file itself names, believed where it is possible.

    Raises:
        UnreadableError: it is no text.
    """
    text = _decode(data, declared)
    if text is None:
        raise UnreadableError("not text (binary, or an unknown encoding)")
    return text


def _decode(data: bytes, declared: str | None) -> str | None:
    for mark, encoding in _MARKED_ENCODINGS:
        if data.startswith(mark):
            return _decode_as(data, encoding)
    if b"\0" in data:
        return None
    try:
        return _plausible(data.decode("utf-8"))  # what is UTF-8 by chance is no text at all
    except UnicodeDecodeError:
        pass
    text = _decode_as(data, declared) if declared else None
    if text is not None:
        return text
    best = from_bytes(data).best()
    return None if best is None else _decode_as(data, best.encoding)


def _decode_as(data: bytes, encoding: str) -> str | None:
    try:
        return _plausible(data.decode(encoding))
    except (UnicodeError, LookupError):
        return None


def _plausible(text: str) -> str | None:
    num_controls = sum(1 for _ in _CONTROLS.finditer(text))
    return None if num_controls * 100 > len(text) else text
