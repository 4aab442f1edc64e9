"""EPUB books to text: the chapters in the order in which they are read.

Knows the packing of a book, not its markup. Called by the converters, in the child process.
"""

import posixpath
import zipfile
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]

from app.importing.archives import read_part
from app.importing.errors import UnreadableError
from app.importing.markup import decode_markup, text_of_markup

__all__ = ["read_epub"]

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGE_TYPES = ("application/xhtml+xml", "text/html")


def read_epub(archive: zipfile.ZipFile) -> str:
    """The chapters' text. Raises UnreadableError."""
    container = _parse(archive, _CONTAINER)
    package_names = [str(name) for name in container.xpath("//@full-path")]
    if not package_names:
        raise UnreadableError("damaged (it names no book)")
    chapters = _chapter_names(archive, package_names[0])
    try:
        texts = [text_of_markup(decode_markup(read_part(archive, name))) for name in chapters]
    except UnreadableError as error:
        if _ENCRYPTION in archive.namelist():
            raise UnreadableError("protected against copying") from error
        raise
    return "\n\n".join(filter(None, texts))


def _chapter_names(archive: zipfile.ZipFile, package_name: str) -> list[str]:
    package = _parse(archive, package_name)
    folder = posixpath.dirname(package_name)
    parts = {
        item.get("id"): posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or "")))
        for item in package.xpath("//*[local-name()='manifest']/*[local-name()='item']")
        if item.get("media-type") in _PAGE_TYPES
    }
    order = package.xpath("//*[local-name()='spine']/*[local-name()='itemref']/@idref")
    return [parts[reference] for reference in order if reference in parts]


def _parse(archive: zipfile.ZipFile, name: str) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = etree.fromstring(read_part(archive, name), parser)
    if root is None:
        raise UnreadableError(f"damaged (its part {name} cannot be understood)")
    return root
