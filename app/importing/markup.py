"""Web pages to text in the manner of Markdown: headings, lists, tables and code stay what they are.

Knows HTML, no files. Called by the converters of web pages, Word documents and books, in the child
process. Chat models answer in Markdown, so that is the shape in which a text is drafted best.
"""

import re

from lxml import etree, html  # type: ignore[import-untyped]

from app.importing.encodings import decode

__all__ = ["decode_markup", "text_of_markup"]

_LEFT_OUT_TAGS = """
    head script style noscript template svg iframe object select button textarea
"""
_BLOCK_TAGS = """
    address article aside blockquote body caption center dd details div dl dt fieldset figcaption
    figure footer form header hr html li main nav ol p section summary table ul
"""
_LEFT_OUT = frozenset(_LEFT_OUT_TAGS.split())
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{2,40})""", re.IGNORECASE)
_CHARSET_WITHIN = 2048  # bytes, as browsers look for it


def decode_markup(data: bytes) -> str:
    """The source of a page. Raises UnreadableError for what is no text."""
    declared = _CHARSET.search(data[:_CHARSET_WITHIN])
    return decode(data, declared[1].decode("ascii", "replace") if declared else None)


def text_of_markup(source: str) -> str:
    """What a reader of the page sees."""
    parser = html.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, recover=True
    )
    try:
        root = html.document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:  # nothing in it
        return ""
    writer = _Writer()
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            if tag in _LEFT_OUT:
                walk.skip_subtree()
                continue
            writer.begin(tag)
            writer.write(element.text)
        else:
            if tag not in _LEFT_OUT:
                writer.end(tag)
            writer.write(element.tail)
    return writer.text()


class _Writer:
    """Collects blocks of text, one element after the other."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, str]] = []  # (kind, text)
        self._inline: list[str] = []
        self._prefix = ""
        self._lists: list[int | None] = []  # number of the last item; None: not numbered
        self._num_tables = 0
        self._cells: list[str] = []
        self._is_in_cell = False
        self._is_header = False
        self._num_pre = 0

    def begin(self, tag: str) -> None:
        if tag in _HEADINGS or tag in _BLOCKS or tag in ("tr", "pre"):
            self._flush()
        match tag:
            case "ul" | "ol":
                self._lists.append(0 if tag == "ol" else None)
            case "li":
                self._prefix = self._item_prefix()
            case "table":
                self._num_tables += 1
            case "tr" if self._num_tables == 1:
                self._cells, self._is_header = [], False
            case "td" | "th" if self._num_tables == 1:
                self._is_in_cell, self._inline = True, []
                self._is_header |= tag == "th"
            case "td" | "th":
                self._inline.append(" ")
            case "pre":
                self._num_pre += 1
            case "br":
                self._inline.append("\n")
            case "code" if not self._num_pre:
                self._inline.append("`")
        if tag in _HEADINGS:
            self._prefix = _HEADINGS[tag]

    def end(self, tag: str) -> None:
        match tag:
            case "td" | "th" if self._num_tables == 1 and self._is_in_cell:
                self._cells.append(" ".join("".join(self._inline).split()))
                self._is_in_cell, self._inline = False, []
            case "tr" if self._num_tables == 1:
                self._end_row()
            case "pre" if self._num_pre:
                self._end_pre()
            case "code" if not self._num_pre:
                self._inline.append("`")
        if tag in _HEADINGS or tag in _BLOCKS:
            self._flush()
        match tag:
            case "ul" | "ol" if self._lists:
                self._lists.pop()
            case "table" if self._num_tables:
                self._num_tables -= 1
            case "li":
                self._prefix = ""
        if tag in _HEADINGS:
            self._prefix = ""

    def write(self, text: str | None) -> None:
        if text:
            self._inline.append(text if self._num_pre else _SPACE.sub(" ", text))

    def text(self) -> str:
        self._flush()
        parts: list[str] = []
        previous = ""
        for kind, text in self._blocks:
            if parts:
                parts.append("\n" if kind == previous != "paragraph" else "\n\n")
            parts.append(text)
            previous = kind
        return "".join(parts)

    def _flush(self) -> None:
        """End the paragraph; in a cell of a table there is only one."""
        if self._is_in_cell or self._num_pre:
            self._inline.append(" " if self._is_in_cell else "")
            return
        lines = (line.strip() for line in "".join(self._inline).split("\n"))
        text = "\n".join(lines).strip()
        self._inline = []
        if text.strip("`"):
            kind = "item" if self._prefix.lstrip()[:1] in ("-", *"0123456789") else "paragraph"
            if self._prefix.startswith("#"):
                text = text.replace("\n", " ")
            self._blocks.append((kind if self._prefix else "paragraph", self._prefix + text))
            self._prefix = ""

    def _item_prefix(self) -> str:
        indent = "  " * max(len(self._lists) - 1, 0)
        number = self._lists[-1] if self._lists else None
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _end_row(self) -> None:
        cells, self._cells = self._cells, []
        if len(cells) < 2:  # pages are laid out with tables, too
            self._blocks += [("paragraph", cell) for cell in cells if cell]
            return
        if any(cells):
            self._blocks.append(("row", f"| {' | '.join(cells)} |"))
            if self._is_header and all(kind != "row" for kind, _ in self._blocks[-2:-1]):
                self._blocks.append(("row", f"| {' | '.join('---' for _ in cells)} |"))

    def _end_pre(self) -> None:
        self._num_pre -= 1
        if not self._num_pre and not self._is_in_cell:
            code = "".join(self._inline).strip("\n")
            self._inline = []
            if code.strip():
                self._blocks.append(("paragraph", f"```\n{code}\n```"))
