"""Copies of uploads lie in the data folder, and are gone after the program, however it ended."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.upload_folder import upload_folder


def left(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "uploads").iterdir())


def test_each_program_has_a_folder_of_its_own_that_goes_with_it(tmp_path: Path) -> None:
    with upload_folder(tmp_path, otherwise=tmp_path) as first:
        (first / "a.md").write_text("words")
        with upload_folder(tmp_path, otherwise=tmp_path) as second:
            assert first.is_relative_to(tmp_path / "uploads")
            assert second != first
            assert (first / "a.md").exists(), "that program runs"
            if os.name == "posix":
                assert second.stat().st_mode & 0o777 == 0o700
    assert [name for name in left(tmp_path) if name != "guard.lock"] == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_what_a_killed_program_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    """Copies lay in the system's temporary folder for ever, deleted documents among them."""
    program = (
        "import os, pathlib, signal, sys\n"
        "from app.upload_folder import upload_folder\n"
        "data_dir = pathlib.Path(sys.argv[1])\n"
        "with upload_folder(data_dir, otherwise=data_dir) as folder:\n"
        "    (folder / 'secret.md').write_text('words')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.rglob("secret.md"))) == 1
    with upload_folder(tmp_path, otherwise=tmp_path) as folder:
        assert list(tmp_path.rglob("secret.md")) == []
        assert [path for path in (tmp_path / "uploads").iterdir() if path.is_dir()] == [folder]


def test_where_the_data_folder_takes_nothing_another_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with upload_folder(tmp_path / "data", otherwise=tmp_path / "other") as folder:
        assert folder == tmp_path / "other"


@pytest.mark.parametrize(
    "is_linked", [False, *[True] * (os.name != "nt")]
)  # links need rights there
def test_what_lies_there_and_is_not_of_this_program_stays(tmp_path: Path, is_linked: bool) -> None:
    """A start deleted every folder there, a web project's own or one behind a link."""
    root = tmp_path / "uploads"
    if is_linked:
        (tmp_path / "elsewhere").mkdir()
        root.symlink_to(tmp_path / "elsewhere")
    names = ["holiday 2025", "0123456789abcdef", "notes"]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "mine.txt").write_text("mine")
    (root / "notes.lock").write_text("")
    with upload_folder(tmp_path, otherwise=tmp_path):
        pass
    assert left(tmp_path) == sorted([*names, "guard.lock", "notes.lock"])
    assert all((root / name / "mine.txt").exists() for name in names)


def test_a_folder_that_could_not_be_removed_is_removed_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with upload_folder(tmp_path, otherwise=tmp_path) as folder:
            pass
    assert folder.exists()
    with upload_folder(tmp_path, otherwise=tmp_path):
        assert not folder.exists()
