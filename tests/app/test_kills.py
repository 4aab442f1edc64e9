"""`kill -9` at 200 random instants: what was committed is there, and nothing is half visible."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.app.killed_work import KINDS

NUM_KILLS = 40  # of each kind of work
MEMORY = Path("/dev/shm")


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize("kind", KINDS)
def test_work_killed_at_any_instant_loses_nothing_and_leaves_nothing_half(
    tmp_path: Path, kind: str
) -> None:
    """In a process of its own, since one with threads must not fork; in memory, where there is
    such a folder: a killed process loses nothing that it had given to the system."""
    folder = tmp_path / "data"
    if MEMORY.is_dir():
        folder = Path(tempfile.mkdtemp(dir=MEMORY))
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.app.killed_work",
            kind,
            folder,
            str(NUM_KILLS),
            "0",
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # threads of a parent hang its children
    )
    shutil.rmtree(folder, ignore_errors=True)
    assert process.returncode == 0, process.stderr
    if kind != "migration":
        assert int(process.stdout) > NUM_KILLS // 2, "the children came to do something"
