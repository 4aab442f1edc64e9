"""`kill -9` at 200 random instants: what was committed is there, and nothing is half visible."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from app.services import ChatService, ServiceConfig
from tests.app.asking import WAIT
from tests.app.killed_work import KINDS
from tests.app.scripted_engine import ScriptedEngine
from tests.stored import shown_sequence_ids

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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_service_that_is_killed_goes_on_with_all_it_had_said(tmp_path: Path) -> None:
    data_dir, cache_dir = tmp_path / "data", tmp_path / "cache"
    instants = random.Random(0)
    answers: dict[int, int] = {}
    for _ in range(6):
        command = [sys.executable, "-m", "tests.app.killed_app", data_dir, cache_dir]
        with subprocess.Popen(
            command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(instants.randrange(2, 6))]
            time.sleep(instants.uniform(0, 0.3))  # the instant is what is random
            process.kill()
            told += [line for line in process.stdout if line.endswith("\n")]
        assert told[0] == "ready\n"
        for _, conversation_id, message_id in map(str.split, told[1:]):
            answers[int(conversation_id)] = int(message_id)
        service = ChatService(
            ServiceConfig(data_dir, cache_dir, model="scripted"), engine=ScriptedEngine()
        )
        service.start()
        assert service.wait_until_ready(WAIT).is_ready
        try:
            for conversation_id, message_id in answers.items():
                snapshot = service.saved_answer(message_id)
                assert (snapshot.status, snapshot.text) == ("complete", "It is Paris. " * 20)
                assert service.messages(conversation_id)
            for chat in service.conversations():
                assert {m.status for m in service.messages(chat.id)} <= {"complete", "stopped"}
            bench = service._worker.bench
            assert bench is not None
            trie = bench.keeper.trie
            shown = set(shown_sequence_ids(service._database, bench.tokenizer_id))
            assert trie.sequence_ids - trie.snapshot.hidden == shown
            [row] = service._database._connections.rows("PRAGMA integrity_check")
            assert row == {"integrity_check": "ok"}
        finally:
            service.close()
    assert answers
