"""Chats that stood in memory more than once, half, or deleted: each is there once, and whole."""

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from app.services import ChatService, ServiceConfig, forgetting, unsaved
from storage import DATABASE_NAME, Database, DatabaseFullError, RecordNotFoundError, connections
from storage.messages import Messages
from storage.passages import Passages
from tests.app.asking import OPTIONS, Start, answered
from tests.app.scripted_engine import ScriptedEngine

SAID = "It is Paris."


@pytest.fixture(autouse=True)
def _tries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsaved, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_SECONDS", 0.05)


@pytest.fixture
def service(start: Start) -> ChatService:
    return start(ScriptedEngine())


@contextlib.contextmanager
def held(config: ServiceConfig) -> Iterator[None]:
    """Another program holds the file: nothing can be saved."""
    path = config.data_dir / DATABASE_NAME
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def asked(service: ChatService, conversation_id: int) -> list[str]:
    """The questions of a chat, each of which has its answer."""
    messages = service.messages(conversation_id)
    assert [message.text for message in messages[1::2]] == [SAID] * (len(messages) // 2)
    assert {message.status for message in messages} == {"complete"}
    return [message.text for message in messages[::2]]


def saved(config: ServiceConfig) -> list[list[str]]:
    """The questions of all chats in the file."""
    with Database(config.data_dir) as db:
        chats = [db.messages.all(chat.id) for chat in db.conversations.list()]
        assert {message.status for chat in chats for message in chat} <= {"complete"}
    return [[message.text for message in chat if message.role == "user"] for chat in chats]


def test_a_chat_goes_to_memory_and_comes_back_as_often_as_it_must(
    service: ChatService, config: ServiceConfig
) -> None:
    """The second time what stood there the first time was in the way, and an answer was lost."""
    old = answered(service, "0")
    with held(config):
        answered(service, "1", old)
        new = answered(service, "a")
    for number in ("2", "3"):
        answered(service, f"saved {number}", old)
        answered(service, f"saved {number}", new)
        with held(config):
            answered(service, number, old)
            answered(service, number, new)
            assert len(service.conversations()) == 2
    whole = [["0", "1", "saved 2", "2", "saved 3", "3"], ["a", "saved 2", "2", "saved 3", "3"]]
    assert [asked(service, chat) for chat in (old, new)] == whole
    service.close()
    assert sorted(saved(config)) == whole


def test_a_chat_begun_in_memory_is_one_chat_under_both_of_its_ids(
    service: ChatService, config: ServiceConfig
) -> None:
    """Asked under both ids while nothing could be saved it stood in memory twice."""
    with held(config):
        begun = service.ask(None, "a", OPTIONS)
        begun.wait_until_over()
    other = answered(service, "other")
    (listed,) = [chat.id for chat in service.conversations() if chat.id != other]
    assert listed != begun.conversation_id
    assert service.ask(begun.conversation_id, "b", OPTIONS).conversation_id == listed
    job = service.running_job(listed)
    assert job is service.running_job(begun.conversation_id)
    if job is not None:
        job.wait_until_over()
    with held(config):
        answered(service, "c", listed)
        answered(service, "d", begun.conversation_id)
        assert [chat.id for chat in service.conversations()].count(listed) == 1
        assert len(service.conversations()) == 2
    assert service.saved_answer(begun.message_id).text == SAID, "an open panel knows this id"
    assert service.step_details(begun.message_id, 0).index == 0
    service.close()
    assert ["a", "b", "c", "d"] in saved(config)
    assert len(saved(config)) == 2


def test_the_history_of_a_chat_in_memory_is_not_drafted_from_twice(
    start: Start, config: ServiceConfig
) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    old = answered(service, "0")
    with held(config):
        begun = answered(service, "a")
        assert engine.requests[-1].masked_sequence_ids == frozenset()
    answered(service, "b", begun)
    with Database(config.data_dir) as db:
        own = [frozenset(db.sequences.for_conversation(chat)) for chat in (old, old + 1)]
    with held(config):
        for chat, sequence_ids in ((old, own[0]), (begun, own[1])):
            assert sequence_ids
            answered(service, "c", chat)
            assert engine.requests[-1].masked_sequence_ids == sequence_ids


@pytest.mark.parametrize(("store", "name"), [(Passages, "save"), (Messages, "finish_answer")])
def test_an_answer_whose_saving_is_broken_off_is_saved_once_and_whole(
    service: ChatService,
    config: ServiceConfig,
    monkeypatch: pytest.MonkeyPatch,
    store: type,
    name: str,
) -> None:
    """Each further try wrote the answer once more, and left half of it."""
    with held(config):
        begun = answered(service, "a")
    original = getattr(store, name)

    def full(messages: object, *values: object, **named: object) -> object:
        if messages._connections is service._database._connections:  # type: ignore[attr-defined]
            raise DatabaseFullError("No space is left.")
        return original(messages, *values, **named)

    monkeypatch.setattr(store, name, full)
    for _ in range(2):
        with contextlib.suppress(DatabaseFullError):
            service._unsaved.save()
        assert [chat.id for chat in service.conversations()] == [begun]
    monkeypatch.undo()
    service.close()
    assert saved(config) == [["a"]]


def test_a_deleted_chat_comes_back_with_what_stood_in_memory(
    service: ChatService, config: ServiceConfig
) -> None:
    """All of it that was not saved was given up at once."""
    old = answered(service, "0")
    with held(config):
        begun = answered(service, "a")
        service.delete_conversation(begun)
        assert [chat.id for chat in service.conversations()] == [old]
        [recent] = service.recent_deletions()
        assert recent.name == "a"
        service.undo(recent.kind, recent.ids)
        assert asked(service, begun) == ["a"]
        assert service.recent_deletions() == []
        answered(service, "1", old)
        service.delete_conversation(begun)
    service.delete_conversation(old)
    assert service.conversations() == []
    with pytest.raises(RecordNotFoundError):
        service.ask(old, "more", OPTIONS)
    assert [recent.name for recent in service.recent_deletions()] == ["0", "a"]
    service.undo("conversation", [old])
    assert asked(service, old) == ["0", "1"]
    service.undo("conversation", [begun])
    service.close()
    assert sorted(saved(config)) == [["0", "1"], ["a"]]


def test_of_a_deleted_chat_nothing_is_kept_in_memory_once_it_is_too_late(
    service: ChatService, config: ServiceConfig
) -> None:
    with held(config):
        begun = answered(service, "a")
        service.delete_conversation(begun)
        later = datetime.now(UTC) + timedelta(seconds=forgetting.UNDO_SECONDS + 1)
        service._unsaved.purge(later)
        assert service.recent_deletions() == []
    with pytest.raises(RecordNotFoundError):
        service.undo("conversation", [begun])
    service.close()
    assert saved(config) == []
