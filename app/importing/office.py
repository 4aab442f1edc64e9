"""Word, PowerPoint and Excel files to text in the manner of Markdown.

Knows one document at a time. Called by the converters, in the child process; that the archive
unpacks to something sensible was checked before.
"""

import io
from collections.abc import Iterator
from typing import Any

from app.importing.errors import UnreadableError
from app.importing.limits import ReadingLimits
from app.importing.markup import text_of_markup

__all__ = ["read_sheets", "read_slides", "read_word"]


def read_word(data: bytes) -> str:
    """Headings, paragraphs, lists, tables and footnotes; pictures are left out."""
    import mammoth  # type: ignore[import-untyped]

    result = mammoth.convert_to_html(
        io.BytesIO(data),
        style_map="p[style-name='Title'] => h1:fresh",
        convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
    )
    return text_of_markup(result.value)


def read_slides(data: bytes) -> str:
    """Each slide's title, its texts and tables in reading order, and its notes."""
    import pptx

    slides = []
    for slide in pptx.Presentation(io.BytesIO(data)).slides:
        title = slide.shapes.title
        heading = _plain(title.text_frame.text) if title is not None else ""
        parts = [f"# {heading}"] if heading else []
        parts += [
            text
            for shape in slide.shapes
            if title is None or shape.shape_id != title.shape_id
            for text in _shape_texts(shape)
        ]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts.append(slide.notes_slide.notes_text_frame.text.strip())
        slides.append("\n\n".join(filter(None, parts)))
    return "\n\n".join(filter(None, slides))


def _shape_texts(shape: Any) -> Iterator[str]:
    waiting = [shape]
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):  # a group
            waiting += reversed(list(shape.shapes))
        elif getattr(shape, "has_table", False):
            rows = ([_plain(cell.text) for cell in row.cells] for row in shape.table.rows)
            yield "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
        elif shape.has_text_frame:
            yield "\n".join(filter(None, map(_bullet, shape.text_frame.paragraphs)))


def _bullet(paragraph: Any) -> str:
    text = _plain(paragraph.text)
    return f"{'  ' * paragraph.level}- {text}" if text else ""


def _plain(text: str) -> str:
    return " ".join(text.split())


def read_sheets(data: bytes, limits: ReadingLimits) -> str:
    """Each sheet under its name: a row a line, cells parted by tabs, empty rows left out."""
    from python_calamine import CalamineWorkbook

    workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
    sheets = []
    num_characters = 0
    for name in workbook.sheet_names:
        lines = []
        for row in workbook.get_sheet_by_name(name).iter_rows():
            line = "\t".join(map(_cell, row)).rstrip("\t")
            if line:
                lines.append(line)
                num_characters += len(line)
                if num_characters > limits.num_characters:
                    raise UnreadableError("too much text for one document")
        if lines:
            sheets.append("\n".join([f"# {name}", *lines]))
    return "\n\n".join(sheets)


def _cell(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.15g}"  # as many places as the workbook itself keeps
    return _plain(str(value))
