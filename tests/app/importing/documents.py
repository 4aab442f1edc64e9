"""Documents of every kind, made when a test wants them. Used by the tests of importing."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence

__all__ = ["docx", "epub", "notebook", "packed", "pdf", "pptx", "xlsx"]

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def packed(parts: Mapping[str, str | bytes], *, is_small: bool = False) -> bytes:
    """A ZIP file of these parts."""
    target = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if is_small else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", how) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return target.getvalue()


def pdf(pages: Sequence[Sequence[str]], *, trailer: str = "") -> bytes:
    """A PDF with lines of plain text on each page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", _FONT]
    kids = []
    for lines in pages:
        shown = "".join(f"({_escaped(line)}) Tj T*\n" for line in lines)
        stream = f"BT /F1 10 Tf 12 TL 50 780 Td\n{shown}ET"
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {number + 1} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    return _pdf_file(objects, trailer)


_FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _pdf_file(objects: Sequence[str], trailer: str) -> bytes:
    text = "%PDF-1.4\n"
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(text))
        text += f"{number} 0 obj\n{content}\nendobj\n"
    start = len(text)
    text += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    text += "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    text += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\n"
    return f"{text}startxref\n{start}\n%%EOF\n".encode("latin-1")


def docx(body: str, **parts: str | bytes) -> bytes:
    """A Word file with this markup in its body; `w:` is Word's namespace."""
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"><Default Extension="xml" '
            'ContentType="application/xml"/><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/></Types>',
            "_rels/.rels": _relations(("officeDocument", "word/document.xml")),
            "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body>'
            "</w:document>",
            "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">'
            + "".join(
                f'<w:style w:type="paragraph" w:styleId="{style}"><w:name w:val="{name}"/>'
                "</w:style>"
                for style, name in (("Title", "Title"), ("Heading1", "heading 1"))
            )
            + "</w:styles>",
            "word/_rels/document.xml.rels": _relations(("styles", "styles.xml")),
            **parts,
        },
        is_small=True,
    )


def _relations(*targets: tuple[str, str]) -> str:
    made = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_RELATIONS}">{made}</Relationships>'


def pptx(slides: Sequence[tuple[str, Sequence[str], str]]) -> bytes:
    """A presentation: of each slide the title, the points and the notes."""
    from pptx import Presentation

    presentation = Presentation()
    for title, points, notes in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "\n".join(points)
        slide.notes_slide.notes_text_frame.text = notes
        table = slide.shapes.add_table(1, 2, 0, 0, 99_999, 99_999).table
        table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    target = io.BytesIO()
    presentation.save(target)
    return target.getvalue()


def xlsx(rows: Sequence[Sequence[str | float]], name: str = "Stock") -> bytes:
    """A workbook with one sheet."""

    def cell(value: str | float) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    data = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    return packed(
        {
            "[Content_Types].xml": f'<Types xmlns="{_TYPES}"><Default Extension="xml" '
            'ContentType="application/xml"/></Types>',
            "_rels/.rels": _relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>'
            f'<sheet name="{name}" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": _relations(("worksheet", "worksheets/sheet1.xml")),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{data}'
            "</sheetData></worksheet>",
        },
        is_small=True,
    )


def epub(chapters: Mapping[str, str], **parts: str | bytes) -> bytes:
    """A book whose chapters are read in this order; they are packed in another."""
    items = "".join(
        f'<item id="{name}" href="text/{name}.xhtml" media-type="application/xhtml+xml"/>'
        for name in chapters
    )
    order = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": "<container><rootfiles><rootfile "
            'full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
            f"{items}</manifest><spine>{order}</spine></package>",
            **{
                f"OEBPS/text/{name}.xhtml": f"<html><body>{text}</body></html>"
                for name, text in reversed(chapters.items())
            },
            **parts,
        },
        is_small=True,
    )


def notebook(cells: Sequence[tuple[str, str, str]]) -> bytes:
    """A notebook: of each cell the kind, the source and what it printed."""
    return json.dumps(
        {
            "nbformat": 4,
            "metadata": {"language_info": {"name": "python"}},
            "cells": [
                {
                    "cell_type": kind,
                    "source": source.splitlines(keepends=True),
                    **({"outputs": [{"text": [printed]}]} if printed else {}),
                }
                for kind, source, printed in cells
            ],
        }
    ).encode()
