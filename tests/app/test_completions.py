"""Completions of the API: saved nowhere, learned by nothing, in one queue with the chats."""

import threading

import numpy as np
import pytest

from app.prompting import MessageTooLongError
from app.services.errors import (
    AnswerFailedError,
    NothingToAnswerError,
)
from lookahead.successors import SuccessorTable
from storage import Database
from tests.app.asking import OPTIONS, WAIT, Start, answered, begun, prompt_text, wait_for
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel
from tests.stored import shown_sequence_ids


def test_a_completion_is_neither_saved_nor_learned(start: Start, database: Database) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    completion = service.complete(
        [{"role": "system", "content": "Rhyme."}, {"role": "user", "content": "x"}], OPTIONS
    )
    assert (completion.text, completion.num_tokens) == ("It is Paris.", 12)
    assert completion.reason == "end"
    assert "system\nRhyme.\nuser\nx" in prompt_text(engine)
    service.complete([{"role": "user", "content": "x"}], OPTIONS)
    first, second = (request.learned for request in engine.requests)
    assert first is not None
    assert second is not None
    first.successors.update([65], np.arange(8, dtype=np.int32)[None])
    assert second.successors.successors(65) == [], "each works on a copy"
    answered(service, "a chat")
    assert engine.requests[2].learned.successors.successors(65) == []  # type: ignore[union-attr]
    for conversation in service.conversations():
        service.delete_conversation(conversation.id)
    service.complete([{"role": "user", "content": "x"}], OPTIONS)
    service.close()
    assert database.conversations.list() == []
    assert shown_sequence_ids(database, 1) == []
    table = database.successors.load("scripted-model")
    assert table is not None, "the chat's"
    assert SuccessorTable.from_bytes(table).successors(65) == []


def test_completions_and_chats_wait_in_one_queue(start: Start) -> None:
    engine = ScriptedEngine(gate=threading.Semaphore(0))
    service = start(engine)
    begun(service)
    answers: list[str] = []
    thread = threading.Thread(
        target=lambda: answers.append(
            service.complete([{"role": "user", "content": "api"}], OPTIONS).text
        )
    )
    thread.start()
    wait_for(lambda: len(service._worker._tasks) == 1)
    assert len(engine.requests) == 1
    engine.go_on(99)
    thread.join(WAIT)
    assert answers == ["It is Paris."]


def test_a_completion_whose_client_left_is_stopped(start: Start) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(99))
    completion = start(engine).complete(
        [{"role": "user", "content": "x"}], OPTIONS, is_cancelled=lambda: engine.num_steps >= 2
    )
    assert (completion.reason, completion.text) == ("cancelled", "abcde")


def test_completions_that_cannot_be_made_say_why(start: Start) -> None:
    engine = ScriptedEngine(model=ScriptedModel(context_length=100))
    service = start(engine)
    with pytest.raises(MessageTooLongError):
        service.complete([{"role": "user", "content": "long " * 100}], OPTIONS)
    engine.answer = ValueError("broken")
    with pytest.raises(AnswerFailedError, match="ValueError"):
        service.complete([{"role": "user", "content": "x"}], OPTIONS)
    with pytest.raises(NothingToAnswerError):
        service.complete([], OPTIONS)
