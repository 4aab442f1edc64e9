"""Importing: which files are taken in, how they are read, and why others are not."""

import os
import sys
from pathlib import Path

import pytest

from app import importing
from app.importing import DocumentFile, FoundFile, SkippedFile, find_files, read_document

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


def found_names(*paths: Path) -> list[str]:
    return [found.name for found in find_files(paths) if isinstance(found, FoundFile)]


def reasons(*paths: Path) -> dict[str, str]:
    return {f.path.name: f.reason for f in find_files(paths) if isinstance(f, SkippedFile)}


def read(path: Path) -> DocumentFile | SkippedFile:
    return read_document(FoundFile(path, path.name, path.as_uri()))


def test_text_and_source_files_of_a_folder_are_found_in_a_stable_order(tmp_path: Path) -> None:
    for name in (
        "b.md",
        "a.txt",
        "src/main.py",
        "src/deep/x.rs",
        "Makefile",
        "photo.jpg",
        "noname",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    assert found_names(tmp_path) == [
        *("Makefile", "a.txt", "b.md", "src/main.py", "src/deep/x.rs"),
    ]
    assert set(reasons(tmp_path)) == {"photo.jpg", "noname"}


def test_a_file_named_by_itself_is_judged_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "notes.unknown"
    path.write_text("words")
    assert found_names(path) == ["notes.unknown"]
    document = read(path)
    assert isinstance(document, DocumentFile)
    assert document.text == "words"


def test_folders_of_tools_are_passed_over_with_a_reason(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("text")
    assert found_names(tmp_path) == []
    assert set(reasons(tmp_path)) == {".git", "node_modules", "__pycache__"}


def test_a_path_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert reasons(tmp_path / "gone.txt") == {"gone.txt": "there is no such file or folder"}


@needs_links
def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own.txt").write_text("own")
    (folder / "file.txt").symlink_to(secret / "key.txt")
    (folder / "dir").symlink_to(secret)
    (folder / "inside.txt").symlink_to(folder / "own.txt")
    (folder / "nowhere.txt").symlink_to(folder / "gone.txt")
    (folder / "loop").symlink_to(folder)
    assert found_names(folder) == ["own.txt"]
    assert reasons(folder) == {
        "file.txt": "a link that leads out of the folder",
        "dir": "a link that leads out of the folder",
        "inside.txt": "a link to what is in the folder already",
        "loop": "a link to what is in the folder already",
        "nowhere.txt": "a link that leads nowhere",
    }


@needs_links
def test_a_file_swapped_for_a_link_after_it_was_found_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "a.txt"
    path.symlink_to(tmp_path / "secret")
    assert isinstance(read(path), SkippedFile)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    skipped = read(tmp_path / "pipe.txt")
    assert isinstance(skipped, SkippedFile)
    assert skipped.reason == "not an ordinary file"


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
def test_encodings_are_found_out(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    document = read(path)
    assert isinstance(document, DocumentFile)
    assert document.text == text


def test_line_ends_are_made_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\rthree\n")
    document = read(tmp_path / "a.txt")
    assert isinstance(document, DocumentFile)
    assert document.text == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not text (binary, or an unknown encoding)"),
        (bytes(range(1, 256)) * 8, "not text (binary, or an unknown encoding)"),
        (b"\xff\xfe\x00", "not text (binary, or an unknown encoding)"),
        (b"x" * 2000, "too large (0 MB; at most 0 MB)"),
    ],
)
def test_what_is_no_document_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, reason: str
) -> None:
    if len(data) == 2000:
        monkeypatch.setattr(importing, "MAX_FILE_BYTES", 1000)
    (tmp_path / "a.txt").write_bytes(data)
    skipped = read(tmp_path / "a.txt")
    assert isinstance(skipped, SkippedFile)
    assert skipped.reason == reason


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(importing.os, "open", refuse)
    skipped = read(tmp_path / "a.txt")
    assert isinstance(skipped, SkippedFile)
    assert skipped.reason == "no permission to read it"
