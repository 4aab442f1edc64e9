"""Learning while nothing is asked: seen by the page, in nobody's way, and never twice."""

import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.presenters import engine_line
from app.services import ChatService, EngineState, worker
from app.services.idle_learning import IDLE_LEARNING_SETTING, IdleLearning
from app.services.learned_keeper import LearnedKeeper
from lookahead.successors import SuccessorTable
from storage import Database, DatabaseBusyError
from tests.app.asking import WAIT, Start, answered, wait_for
from tests.app.scripted_engine import ByteTokenizer, ScriptedEngine, ScriptedModel

PRIMED_ROW = np.arange(8, dtype=np.int32)


class PrimedEngine(ScriptedEngine):
    """Primes ten tokens a batch, a permit each."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = threading.Semaphore(0)
        self.prefixes: list[Sequence[int]] = []
        self.starts: list[float] = []

    def prime(
        self, model: Any, successors: SuccessorTable, prefix_ids: Sequence[int]
    ) -> Iterator[float]:
        self.prefixes.append(prefix_ids)
        self.starts.append(successors.known_share)
        while len(token_ids := successors.unknown_ids(10)):
            self.batches.acquire(timeout=20)
            successors.update(token_ids, np.tile(PRIMED_ROW, (len(token_ids), 1)))
            yield successors.known_share


@pytest.fixture(autouse=True)
def _idle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)


def status_line(service: ChatService) -> str:
    return engine_line(service.state)["text"]


def test_priming_is_in_the_status_line_until_it_is_done(start: Start) -> None:
    engine = PrimedEngine()
    service = start(engine)
    engine.batches.release(13)
    wait_for(lambda: "Preparing drafts: 50.2 %" in status_line(service))
    engine.batches.release(100)
    wait_for(lambda: "Preparing" not in status_line(service))
    assert ByteTokenizer().decode(engine.prefixes[0]).endswith("assistant\n")


def test_a_question_waits_for_one_batch_at_most(start: Start) -> None:
    engine = PrimedEngine()
    service = start(engine)
    wait_for(lambda: bool(engine.starts))
    thread = threading.Timer(0.0, answered, (service, "now"))
    thread.start()
    wait_for(lambda: bool(service._worker._tasks))
    engine.batches.release()
    thread.join(20)
    assert len(engine.requests) == 1, "answered with one batch done"


def test_after_a_restart_it_goes_on_where_it_was(start: Start, database: Database) -> None:
    engine = PrimedEngine()
    service = start(engine)
    engine.batches.release(5)
    wait_for(lambda: "Preparing" in status_line(service))
    engine.batches.release(100)
    wait_for(lambda: "Preparing" not in status_line(service))
    data = database.successors.load("scripted-model")
    assert data is not None, "what is complete is saved at once"
    assert SuccessorTable.from_bytes(data).known_share == 1.0
    service.close()
    table = SuccessorTable.from_bytes(data)
    table._top_ids[100:] = -1  # as if it had been broken off
    database.successors.save("scripted-model", table.to_bytes())
    again = PrimedEngine()
    service = start(again)
    wait_for(lambda: bool(again.starts))
    assert again.starts == [pytest.approx(100 / 259)]
    again.batches.release(100)


def test_what_was_primed_is_saved_when_the_program_ends(start: Start, database: Database) -> None:
    engine = PrimedEngine()
    service = start(engine)
    engine.batches.release(3)
    wait_for(lambda: "Preparing" in status_line(service))
    closing = threading.Thread(target=service.close)
    closing.start()
    engine.batches.release(100)  # the batch that runs ends
    closing.join(20)
    data = database.successors.load("scripted-model")
    assert data is not None
    assert SuccessorTable.from_bytes(data).successors(0) == PRIMED_ROW.tolist()


def test_switched_off_on_the_page_it_rests(start: Start, database: Database) -> None:
    database.settings.set(IDLE_LEARNING_SETTING, False)
    engine = PrimedEngine()
    service = start(engine)
    answered(service, "one")
    assert engine.starts == []
    service.set_idle_learning(True)
    engine.batches.release(1)
    wait_for(lambda: "Preparing drafts: 3.9 %" in status_line(service))
    service.set_idle_learning(False)
    engine.batches.release(1)  # one that may have begun
    wait_for(lambda: "Preparing" not in status_line(service))
    assert not service.is_idle_learning_on
    assert database.settings.get(IDLE_LEARNING_SETTING) is False
    service.set_idle_learning(True)
    engine.batches.release(1)
    wait_for(lambda: "Preparing" in status_line(service))
    assert len(engine.starts) == 1, "it goes on where it was"
    engine.batches.release(100)


def test_a_batch_that_fails_is_not_tried_again(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingEngine(PrimedEngine):
        def prime(self, *arguments: Any) -> Iterator[float]:
            self.starts.append(0.0)
            raise RuntimeError("no memory")
            yield

    engine = FailingEngine()
    service = start(engine)
    wait_for(lambda: "idle work failed" in caplog.text)
    bench = service._worker.bench
    assert bench is not None
    rounds: list[None] = []
    monkeypatch.setattr(bench.keeper, "tidy", lambda: rounds.append(None))
    for num_rounds in range(1, 5):  # of the housekeeping that goes on
        service._worker.request_idle_work()
        wait_for(lambda num=num_rounds: len(rounds) >= num)  # type: ignore[misc]
    assert len(engine.starts) == 1
    assert "Preparing drafts failed; the log has the details." in status_line(service)


def test_what_a_busy_database_broke_off_goes_on_in_the_next_round(
    start: Start, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """One moment's trouble switched idle learning off until the program was started again."""

    class BusyEngine(PrimedEngine):
        def prime(self, *arguments: Any) -> Iterator[float]:
            if caplog.text:
                yield from super().prime(*arguments)
            raise DatabaseBusyError("Another program is holding it.")

    engine = BusyEngine()
    service = start(engine)
    wait_for(lambda: "idle work failed" in caplog.text)
    assert "fail" not in status_line(service)
    service._worker.request_idle_work()
    engine.batches.release(1)
    wait_for(lambda: "Preparing drafts: 3.9 %" in status_line(service))
    engine.batches.release(100)


def test_documents_wanted_deeper_are_read_once_and_whole(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text("x" * 1500)
    (tmp_path / "other.txt").write_text("not this one")
    engine = ScriptedEngine()
    service = start(engine)
    lines: set[str] = set()
    show = service._worker._show

    def note(state: EngineState) -> None:
        lines.update(re.findall(r"Reading documents: (\S+) tokens left", state.background))
        show(state)

    monkeypatch.setattr(service._worker, "_show", note)
    service.import_paths([tmp_path / "other.txt"]).wait_until_over(WAIT)
    service.import_paths([tmp_path / "long.txt"], is_deeper=True).wait_until_over(WAIT)
    wait_for(lambda: len(engine.read_windows) == 2)
    wait_for(lambda: "Reading" not in status_line(service))
    assert lines == {"476", "0"}
    assert engine.read_windows == [[120] * 1024, [120] * 476]
    service.close()
    again = ScriptedEngine()
    service = start(again)
    wait_for(lambda: not service._worker._has_idle_work)
    assert again.read_windows == [], "nothing is read twice"
    service.close()
    other = ScriptedEngine(model=ScriptedModel(model_fingerprint="other"))
    start(other)
    wait_for(lambda: len(other.read_windows) == 2)  # another model has not read it


def test_a_document_imported_before_can_be_wanted_deeper(start: Start, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    engine = ScriptedEngine()
    service = start(engine)
    service.import_paths([tmp_path]).wait_until_over(WAIT)
    assert engine.read_windows == []
    service.import_paths([tmp_path], is_deeper=True).wait_until_over(WAIT)
    wait_for(lambda: engine.read_windows == [list(b"words")])


def test_a_document_counts_as_read_once_what_it_taught_is_saved(database: Database) -> None:
    """It counted at once: what a crash took of the successors was never read again."""
    tokenizer_id = database.tokenizers.ensure("bytes", "Bytes")
    for name in "ab":
        source_id, _ = database.sources.add_document(
            name=name,
            uri=name,
            sha256=name,
            text="x" * 1500,
            token_ids=np.zeros(1500, np.int32),
            tokenizer_id=tokenizer_id,
        )
        database.deeper_readings.want(source_id)
    model: Any = ScriptedModel()
    kept = LearnedKeeper(
        *(database, model.model_fingerprint, 259), runtime_fingerprint=model.fingerprint
    )
    engine = ScriptedEngine()
    idle = IdleLearning(
        *(engine, model, kept, database),
        tokenizer_id=tokenizer_id,
        find_prefix_ids=tuple,
        is_allowed=True,
    )

    def num_left() -> int:
        return database.deeper_readings.num_tokens_left(model.model_fingerprint, tokenizer_id)

    for _ in range(4):
        assert idle.work()
    assert len(engine.read_windows) == 4, "nothing is read twice meanwhile"
    assert num_left() == 3000
    kept.save()
    assert num_left() == 3000 - 1500 - 1024, "the last window is still being read"
    while idle.work():
        pass
    assert num_left() == 0
    assert len(engine.read_windows) == 4
