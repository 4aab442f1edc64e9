"""Two programs in one data folder: neither takes the other's running answers for interrupted."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from app.services import AnswerOptions, ChatService, ServiceConfig
from storage import Database
from tests.app.scripted_engine import ScriptedEngine

WAIT = 20.0


def status_of(config: ServiceConfig, message_id: int) -> str:
    with Database(config.data_dir) as database:
        return database.messages.get(message_id).status


@pytest.mark.parametrize("can_answer", [True, False], ids=["a second server", "an import"])
def test_a_running_answer_is_left_alone(tmp_path: Path, can_answer: bool) -> None:
    """Every start marked all answers being written as stopped, and they could not be saved."""
    config = ServiceConfig(tmp_path / "data", tmp_path / "cache", model="scripted")
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    first = ChatService(config, engine=engine)
    first.start()
    job = first.ask(None, "hello", AnswerOptions())
    while job.snapshot().status != "decoding":
        job.wait_for_change(job.snapshot().version, WAIT)
    second = ChatService(replace(config, can_answer=can_answer), engine=ScriptedEngine())
    second.start()
    assert second.wait_until_ready(WAIT).is_ready
    assert status_of(config, job.message_id) == "streaming"
    if can_answer:
        other = second.ask(None, "hello", AnswerOptions()).wait_until_over(WAIT)
        assert other.status == "complete", "the second one answers too"
    second.close()
    assert not engine.go_on(99)
    assert job.wait_until_over(WAIT).status == "complete"
    assert status_of(config, job.message_id) == "complete"
    first.close()


def test_what_was_interrupted_is_recovered_by_the_next_one_that_answers(tmp_path: Path) -> None:
    config = ServiceConfig(tmp_path / "data", tmp_path / "cache", model="scripted")
    with Database(config.data_dir) as database:
        chat = database.conversations.create("crashed")
        message_id = database.messages.start_answer(chat.id, None).id
    for can_answer, status in ((False, "streaming"), (True, "stopped")):
        service = ChatService(replace(config, can_answer=can_answer), engine=ScriptedEngine())
        service.start()
        service.close()
        assert status_of(config, message_id) == status
