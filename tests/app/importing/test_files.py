"""Importing: which files are taken in, how they are read, and why others are not."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.importing import FoundFile, SkippedFile, displayable_name, files, find_files
from app.importing.files import reason_against_upload, uploaded_files

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


def found_names(*paths: Path) -> list[str]:
    return [found.name for found in find_files(paths) if isinstance(found, FoundFile)]


def reasons(*paths: Path) -> dict[str, str]:
    return {f.path.name: f.reason for f in find_files(paths) if isinstance(f, SkippedFile)}


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
def test_folders_that_lead_elsewhere_without_being_links_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A junction of Windows is such a folder, and was walked through."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("secret")
    folder = tmp_path / "folder"
    (folder / "plain").mkdir(parents=True)
    (folder / "plain" / "own.txt").write_text("own")
    (folder / "junction").symlink_to(tmp_path / "secret")
    (folder / "plain" / "loop").symlink_to(folder)
    monkeypatch.setattr(files.os.path, "islink", lambda _: False)
    assert found_names(folder) == ["plain/own.txt"]
    assert reasons(folder) == {
        "junction": "a link that leads out of the folder",
        "loop": "a link to what is in the folder already",
    }


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

    monkeypatch.setattr(files.os, "walk", walk)
    assert reasons(tmp_path) == {tmp_path.name: reason}


def test_uploads_are_known_by_their_names_in_the_chosen_folder(tmp_path: Path) -> None:
    for name in ("notes/a.md", "notes/deep/a.md", "odd.unknown"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("words")
    assert [(found.name, found.uri, found.num_bytes) for found in uploaded_files(tmp_path)] == [
        ("odd.unknown", "upload:odd.unknown", 5),
        ("notes/a.md", "upload:notes/a.md", 5),
        ("notes/deep/a.md", "upload:notes/deep/a.md", 5),
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("odd.unknown", None),
        ("notes/a.pdf", None),
        ("notes/odd.unknown", "not a kind of file that is imported from folders"),
        ("notes/.git/a.md", "a folder of tools, not of documents"),
        ("notes/~$a.docx", "a leftover of another program"),
    ],
)
def test_what_of_a_folder_need_not_be_uploaded_is_known_before(
    name: str, reason: str | None
) -> None:
    assert reason_against_upload(name) == reason
