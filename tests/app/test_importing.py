"""Importing: which files are taken in, how they are read, and why others are not."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app import importing
from app.importing import (
    DocumentFile,
    FoundFile,
    SkippedFile,
    displayable_name,
    find_files,
    read_document,
    uploaded_files,
)

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
        (b"x" * 2001, "too large (2,001 bytes; at most 2,000)"),
    ],
)
def test_what_is_no_document_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, reason: str
) -> None:
    if len(data) == 2001:
        monkeypatch.setattr(importing, "MAX_FILE_BYTES", 2000)
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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"bad\xff\xfename.txt".decode("utf-8", "surrogateescape"), r"bad\xff\xfename.txt"),
        ("two\nlines\x1b[31m\x7f.txt", r"two\nlines\x1b[31m\x7f.txt"),
        ("a\u2028b\ud800.txt", r"a\u2028b\ud800.txt"),
        ("Grüße 東京\u3000👩\u200d🔬.txt", "Grüße 東京\u3000👩\u200d🔬.txt"),
    ],
)
def test_every_name_can_be_shown_and_saved(name: str, shown: str) -> None:
    assert displayable_name(name) == shown
    (found,) = uploaded_files([Path(name)])
    assert found.name == shown
    found.uri.encode("utf-8")


def test_a_path_that_no_file_can_have_is_told() -> None:
    long = "x" * 5000
    assert "too long" in reasons(Path("/") / long)[long].lower() or sys.platform == "win32"
    assert reasons(Path("a\0b")) == {"a\0b": "cannot be read"}


@pytest.mark.skipif(sys.platform == "win32", reason="paths have another limit there")
def test_a_folder_whose_path_is_too_long_is_passed_over_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    for _ in range(20):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    Path("deep.txt").write_text("text")
    assert found_names(tmp_path) == ["a.txt"]
    assert reasons(tmp_path) == {"d" * 250: "cannot be read (File name too long)"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file"), "there is no such file or folder"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error)"),
        (RecursionError(), "its folders lie too deep inside each other"),
    ],
)
@pytest.mark.parametrize("is_told", [True, False])
def test_a_folder_that_fails_while_it_is_listed_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: OSError | RecursionError,
    reason: str,
    is_told: bool,
) -> None:
    def walk(_: Path, onerror: Callable[[BaseException], None]) -> Iterator[None]:
        if not is_told or isinstance(error, RecursionError):
            raise error
        onerror(error)  # as of a listing that broke off: without a file name
        yield from ()

    monkeypatch.setattr(importing.os, "walk", walk)
    assert reasons(tmp_path) == {tmp_path.name: reason}
