"""The reader: whatever a file does to the child process, the parent gets a reason and goes on."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.importing import (
    DocumentFile,
    DocumentReader,
    FoundFile,
    ReadingCancelledError,
    ReadingLimits,
    SkippedFile,
    reader,
)
from tests.app.importing import documents

pytestmark = pytest.mark.real

AFTER_A_REQUEST = "import sys, time; line = sys.stdin.readline; line(); line(); "
HANGING = f"{AFTER_A_REQUEST} time.sleep(600)"
WORKING = f"{AFTER_A_REQUEST} any(iter(int, 1))"
CRASHING = f"{AFTER_A_REQUEST} import os; os.abort()"
EATING = f"{AFTER_A_REQUEST} held = [bytearray(b'x' * 10**6) for _ in range(300)]; time.sleep(600)"
LYING = f"{AFTER_A_REQUEST} print('{{\"num_bytes\": 100}}'); print('little')"


def found_file(path: Path) -> FoundFile:
    return FoundFile(path, path.name, path.as_uri(), path.stat().st_size)


def reason(read: DocumentFile | SkippedFile) -> str:
    assert isinstance(read, SkippedFile)
    return read.reason


@pytest.fixture
def note(tmp_path: Path) -> FoundFile:
    path = tmp_path / "note.txt"
    path.write_bytes(b"words\r\n")
    return found_file(path)


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def test_one_child_reads_many_files(tmp_path: Path, note: FoundFile) -> None:
    (tmp_path / "a.pdf").write_bytes(documents.pdf([["Words"]]))
    with DocumentReader() as reading:
        document = reading.read(note)
        assert isinstance(document, DocumentFile)
        assert (document.text, len(document.sha256)) == ("words\n", 64)
        assert isinstance(reading.read(found_file(tmp_path / "a.pdf")), DocumentFile)
        assert len(psutil.Process().children()) == 1


@pytest.mark.parametrize(
    ("child", "told"),
    [
        (HANGING, "takes longer than 0.1 seconds to be read"),
        (WORKING, "takes longer than 0.1 seconds to be read"),
        (CRASHING, "its reader crashed (damaged, or made to do so)"),
        (EATING, "needs too much memory to be read"),
        (LYING, "its reader crashed (damaged, or made to do so)"),
        ("this is no program", "its reader crashed (damaged, or made to do so)"),
    ],
    ids=["hangs", "works", "crashes", "eats", "lies", "does not start"],
)
def test_a_child_that_fails_costs_one_file(
    note: FoundFile, monkeypatch: pytest.MonkeyPatch, child: str, told: str
) -> None:
    seconds = 0.1 if child in (HANGING, WORKING) else 60.0
    with DocumentReader(ReadingLimits(seconds=seconds, memory_bytes=100_000_000)) as reading:
        with monkeypatch.context() as patch:
            patch.setattr(reader, "_START", child)
            skipped = reading.read(note)
            assert reason(skipped) == told
            assert not skipped.is_read, "what it holds is not known"  # type: ignore[union-attr]
        reading.limits = ReadingLimits()
        assert isinstance(reading.read(note), DocumentFile)


def test_a_child_killed_just_after_its_answer_is_not_asked_about_the_next_file(
    note: FoundFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next file was given the verdict of the one before."""
    ask = reader._Child.ask

    def asked_and_killed(child: reader._Child, found: FoundFile) -> object:
        answer = ask(child, found)
        child.kill("takes longer than 60 seconds to be read")
        return answer

    with DocumentReader() as reading:
        with monkeypatch.context() as patch:
            patch.setattr(reader._Child, "ask", asked_and_killed)
            assert isinstance(reading.read(note), DocumentFile)
        assert isinstance(reading.read(note), DocumentFile)


def test_a_file_that_was_looked_into_is_told_from_one_that_was_not(
    tmp_path: Path, note: FoundFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.md").write_text("")
    broken = reader._START.replace("main()", "from app.importing import child\n"
        "def convert(*_): raise MemoryError\n"
        "child.convert = convert; main()", 1
    )  # fmt: skip
    with DocumentReader() as reading:
        skipped = reading.read(found_file(tmp_path / "empty.md"))
        assert isinstance(skipped, SkippedFile)
        assert skipped.is_read
    monkeypatch.setattr(reader, "_START", broken)
    with DocumentReader() as reading:
        skipped = reading.read(note)
        assert reason(skipped) == "needs too much memory to be read"
        assert not skipped.is_read  # type: ignore[union-attr]


def test_a_cancel_does_not_wait_for_the_file(
    note: FoundFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_START", HANGING)
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    started_at = time.monotonic()
    with (
        DocumentReader(is_cancelled=cancelled.is_set) as reading,
        pytest.raises(ReadingCancelledError),
    ):
        reading.read(note)
    assert time.monotonic() - started_at < reading.limits.seconds


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the parent looks at the memory")
def test_a_document_that_needs_much_memory_is_told_by_the_child_itself(tmp_path: Path) -> None:
    paragraphs = "".join(f"<w:p><w:r><w:t>{n * 7919}</w:t></w:r></w:p>" for n in range(100_000))
    (tmp_path / "a.docx").write_bytes(documents.docx(paragraphs))
    with DocumentReader(ReadingLimits(memory_bytes=150_000_000)) as reading:
        assert reason(reading.read(found_file(tmp_path / "a.docx"))) == (
            "needs too much memory to be read"
        )


def test_a_child_is_renewed_before_its_libraries_have_leaked_much(
    note: FoundFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_RENEW_AFTER_BYTES", 5)
    with DocumentReader() as reading:
        assert isinstance(reading.read(note), DocumentFile)
        assert psutil.Process().children() == []
        assert isinstance(reading.read(note), DocumentFile)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_file_swapped_for_a_link_after_it_was_found_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "a.txt"
    path.symlink_to(tmp_path / "secret")
    with DocumentReader() as reading:
        assert isinstance(reading.read(found_file(path)), SkippedFile)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with DocumentReader() as reading:
        assert reason(reading.read(found_file(tmp_path / "pipe.txt"))) == "not an ordinary file"


def test_a_file_that_has_gone_is_told(note: FoundFile) -> None:
    note.path.unlink()
    with DocumentReader() as reading:
        assert reason(reading.read(note)) == "there is no such file or folder"


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes there only")
def test_a_name_that_is_no_utf_8_reaches_the_child(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff\nname.txt"))
    path.write_text("words")
    with DocumentReader() as reading:
        assert isinstance(reading.read(found_file(path)), DocumentFile)


def test_whatever_a_converter_prints_does_not_reach_the_parent(tmp_path: Path) -> None:
    """A line on standard output would be taken for an answer."""
    path = tmp_path / "a.txt"
    path.write_text("words")
    noisy = reader._START.replace("main()", "from app.importing import child; import os; "
        "convert = child.convert; "
        "child.convert = lambda *a: os.write(1, b'{}\\n') and convert(*a); main()"
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, DocumentReader() as reading:
        patch.setattr(reader, "_START", noisy)
        document = reading.read(found_file(path))
    assert isinstance(document, DocumentFile)
    assert document.text == "words"
