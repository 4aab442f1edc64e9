"""Converters: what a reader of each kind of document sees, as text that is good to draft from."""

import json

import pytest

from app.importing.converting import convert
from app.importing.errors import UnreadableError
from app.importing.limits import ReadingLimits
from app.importing.pdf import paragraphs
from tests.app.importing import documents

LIMITS = ReadingLimits()


def text_of(data: bytes, name: str, limits: ReadingLimits = LIMITS) -> str:
    return convert(data, name, limits)


def reason_against(data: bytes, name: str, limits: ReadingLimits = LIMITS) -> str:
    with pytest.raises(UnreadableError) as caught:
        convert(data, name, limits)
    return str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "Grüße aus Köln, 東京 und 🎉"),
        ("utf-8-sig", "Grüße"),
        ("utf-16", "Grüße 東京"),
        ("utf-32", "Grüße 東京"),
        ("cp1252", "Die Straße führt über die Brücke, und das Mädchen grüßt höflich zurück. " * 5),
        ("cp1251", "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5),
        ("shift_jis", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 5),
    ],
)
def test_encodings_are_found_out(encoding: str, text: str) -> None:
    assert text_of(text.encode(encoding), "a.txt") == text


def test_line_ends_are_made_the_same_and_nothing_is_left_that_no_database_takes() -> None:
    assert text_of(b"one\r\ntwo\rthree\n", "a.txt") == "one\ntwo\nthree\n"
    assert text_of(("a" * 200 + "\0b").encode("utf-16"), "a.txt") == "a" * 200 + "b"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        bytes(range(1, 256)) * 8,
        b"\xff\xfe\x00",
        b"PK\x03\x04\0\0",
    ],
)
def test_what_is_no_text_is_told(data: bytes) -> None:
    assert reason_against(data, "a.txt") == "not text (binary, or an unknown encoding)"


def test_a_text_that_begins_like_an_archive_is_a_text() -> None:
    assert text_of(b"PKs are keys.", "a.md") == "PKs are keys."


@pytest.mark.parametrize("data", [b"", b" \n\t\n"])
@pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a.docx"])
def test_what_is_empty_is_told(data: bytes, name: str) -> None:
    assert reason_against(data, name) == "empty"


def test_a_web_page_keeps_headings_lists_tables_and_code() -> None:
    page = (
        "<html><head><title>T</title><style>p{}</style></head><body><nav>Home</nav><h2>Pumps</h2>"
        "<p>The <b>pump</b>\n  is <a href='x'>serviced</a> in <code>May</code>.<br>Or later.</p>"
        "<script>alert(1)</script><ul><li>one<ol><li><p>inner</p></li><li>next</li></ol></li>"
        "<li>two</li></ul><table><tr><th>part</th><th>count</th></tr><tr><td>seal</td><td>4</td>"
        "</tr></table><pre>if x:\n    y()\n</pre>after<!-- no --></body></html>"
    )
    assert text_of(page.encode(), "a.html") == (
        "Home\n\n## Pumps\n\nThe pump is serviced in `May`.\nOr later.\n\n"
        "- one\n  1. inner\n  2. next\n- two\n\n"
        "| part | count |\n| --- | --- |\n| seal | 4 |\n\n```\nif x:\n    y()\n```\n\nafter"
    )


def test_a_page_laid_out_with_a_table_is_no_table() -> None:
    page = "<table><tr><td><p>First</p><table><tr><td>in</td><td>ner</td></tr></table></td></tr>"
    assert text_of(page.encode(), "a.htm") == "First in ner"


def test_the_encoding_that_a_page_names_is_believed() -> None:
    page = '<meta charset="koi8-r"><p>Привет</p>'
    assert text_of(page.encode("koi8-r"), "a.html") == "Привет"


def test_the_pages_of_a_pdf_are_paragraphs_without_what_stands_on_each() -> None:
    pages = [
        [
            "Manual of the pump",
            f"Pump {name} is serviced in May, when the garden is dry, and its old",
            f"seal is replaced by one of {name}.",
            f"It is then filled with {name}.",
            f"Page {number} of 5",
        ]
        for number, name in enumerate(("oak", "elm", "ash", "yew", "fir"), 1)
    ]
    assert text_of(documents.pdf(pages), "a.pdf") == "\n\n".join(
        f"{page[1]} {page[2]}\n{page[3]}" for page in pages
    )


def test_pages_whose_lines_are_alike_keep_their_lines() -> None:
    """All lines of a table were taken for running headers, and nothing was left of it."""
    pages = [[f"Row {row} of sheet {page}" for row in range(9)] for page in range(9)]
    text = text_of(documents.pdf(pages), "a.pdf")
    assert all(f"Row {row} of sheet {page}" in text for row in range(2, 7) for page in range(9))


def test_a_word_that_a_line_end_broke_is_whole_again() -> None:
    assert paragraphs(["a very long first line that iden\ufffe", "tifies it", "- item"]) == (
        "a very long first line that identifies it\n- item"
    )


def test_a_pdf_is_known_by_its_content() -> None:
    assert text_of(documents.pdf([["Words"]]), "paper.txt") == "Words"
    assert text_of(b"A PDF begins with %PDF-1.4", "a.md") == "A PDF begins with %PDF-1.4"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"%PDF-1.7\nnothing more", "not a PDF that can be read (damaged)"),
        (documents.pdf([[], []]), "no text in it (scanned pages are pictures)"),
        (b"plain words", "not a PDF (damaged, or another kind of file)"),
        (documents.pdf([["Words"]])[:300], "not a PDF that can be read (damaged)"),
    ],
)
def test_a_pdf_without_text_is_told(data: bytes, reason: str) -> None:
    assert reason_against(data, "a.pdf") == reason


def test_a_word_document_keeps_headings_lists_and_tables() -> None:
    def paragraph(text: str, style: str = "") -> str:
        kind = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        return f"<w:p>{kind}<w:r><w:t>{text}</w:t></w:r></w:p>"

    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("seal", "4"))
    body = (
        paragraph("Manual", "Title")
        + paragraph("Service", "Heading1")
        + paragraph("In May &amp; June.")
        + f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    )
    assert text_of(documents.docx(body), "a.docx") == (
        "# Manual\n\n# Service\n\nIn May & June.\n\n| seal | 4 |"
    )


def test_slides_come_with_points_tables_and_notes() -> None:
    data = documents.pptx([("Pumps", ["one", "two"], "Say slowly")])
    assert text_of(data, "a.pptx") == "# Pumps\n\n- one\n- two\n\n| left | right |\n\nSay slowly"


def test_sheets_are_lines_with_tabs_and_whole_numbers() -> None:
    data = documents.xlsx([["part", "count"], ["seal", 4.0], ["ring", 0.5]])
    assert text_of(data, "a.xlsx") == "# Stock\npart\tcount\nseal\t4\nring\t0.5"


def test_chapters_of_a_book_come_in_reading_order() -> None:
    data = documents.epub({"z": "<h1>One</h1><p>First.</p>", "a": "<p>Second.</p>"})
    assert text_of(data, "a.epub") == "# One\n\nFirst.\n\nSecond."


def test_a_notebook_is_words_and_fenced_code() -> None:
    data = documents.notebook([("markdown", "# Title", ""), ("code", "print(1)\n", "1\n")])
    assert text_of(data, "a.ipynb") == "# Title\n\n```python\nprint(1)\n```\n\n```\n1\n```"
    assert reason_against(b"{", "a.ipynb") == "not a Jupyter notebook (damaged)"
    assert reason_against(json.dumps([1]).encode(), "a.ipynb") == "no text in it"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", documents.docx("<w:p><w:r><w:t>Words</w:t></w:r></w:p>")),
        ("a.xlsx", documents.xlsx([["Words"]])),
        ("a.epub", documents.epub({"a": "<p>Words</p>"})),
    ],
)
def test_a_truncated_or_mistaken_container_is_told(name: str, data: bytes) -> None:
    assert "Words" in text_of(data, "another.bin"), "known by its content"
    assert "damaged" in reason_against(data[: len(data) // 2], name)
    assert "damaged" in reason_against(b"just words", name)


def test_archives_and_old_or_encrypted_office_files_are_told() -> None:
    assert "unpack it" in reason_against(documents.packed({"a.txt": "words"}), "a.zip")
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100)
    assert "protected by a password" in reason_against(old, "a.docx")


def test_what_would_unpack_to_too_much_is_not_unpacked() -> None:
    bomb = documents.docx("", **{"word/media.xml": bytes(64 * 1024 * 1024)})
    assert len(bomb) < 200_000
    assert "unpacks from" in reason_against(bomb, "a.docx")
    parts = documents.packed({"word/document.xml": "", **{f"p{n}": "" for n in range(20)}})
    assert "packed of 21 parts" in reason_against(parts, "a.docx", ReadingLimits(num_parts=10))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", documents.pdf([["Words and more words"]])),
        ("a.xlsx", documents.xlsx([["Words and more words"]])),
        ("a.txt", b"Words and more words"),
    ],
)
def test_too_much_text_is_told(name: str, data: bytes) -> None:
    limits = ReadingLimits(num_characters=10)
    assert reason_against(data, name, limits) == "too much text for one document"


def test_a_large_text_is_told_with_its_size() -> None:
    limits = ReadingLimits(text_bytes=2000)
    reason = reason_against(b"x" * 2001, "a.txt", limits)
    assert reason == "too large (2,001 bytes; at most 2,000)"


def test_deep_nesting_is_no_danger() -> None:
    assert "words" in text_of(b"<div>" * 200 + b"words", "a.html")
    assert reason_against(b"<div>" * 100_000, "a.html") == "no text in it"
    assert reason_against(b"[" * 100_000, "a.ipynb") == "not a Jupyter notebook (damaged)"
