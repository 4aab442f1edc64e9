"""A full disk, one that is read-only, a locked file: the chat goes on and nothing saved is lost."""

import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.services import ChatService, ServiceConfig, unsaved
from storage import DATABASE_NAME, Database, DatabaseFullError, DataFolderError, connections
from storage.messages import Messages
from tests.app.asking import OPTIONS, WAIT, Start, answered, begun
from tests.app.scripted_engine import ScriptedEngine


@pytest.fixture(autouse=True)
def _tries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsaved, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_SECONDS", 0.05)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The mount point of a disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("mounting needs rights that this user has not")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no space on the disk; returns the file that takes it."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return path
    return path


def shown(service: ChatService, conversation_id: int) -> list[str]:
    return [message.text for message in service.messages(conversation_id)]


def saved(data_dir: Path) -> list[list[str]]:
    """The texts of all chats in the file, the latest chat first."""
    with Database(data_dir) as db:
        return [[m.text for m in db.messages.list(c.id)] for c in db.conversations.list()]


A, B, C = (["one", "It is Paris."], ["two", "It is Paris."], ["three", "It is Paris."])


def test_a_chat_goes_on_while_the_disk_is_full_and_is_saved_when_it_is_not(
    start: Start, config: ServiceConfig, small_disk: Path
) -> None:
    config = replace(config, data_dir=small_disk / "data")
    service = ChatService(config, engine=ScriptedEngine())
    service.start()
    assert service.wait_until_ready(WAIT).is_ready
    conversation_id = answered(service, "one")
    filler = fill(small_disk)
    job = service.ask(conversation_id, "two" * 1_000, OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.text) == ("complete", "It is Paris.")
    assert "Not saved" in snapshot.notice
    assert "No space is left" in snapshot.notice
    assert shown(service, conversation_id) == [*A, "two" * 1_000, "It is Paris."]
    assert [chat.id for chat in service.conversations()] == [conversation_id]
    other = service.ask(None, "new" * 1_000, OPTIONS)
    other.wait_until_over(WAIT)
    assert shown(service, other.conversation_id)[1:] == ["It is Paris."]
    filler.unlink()
    assert answered(service, "three", conversation_id) == conversation_id
    whole = [*A, "two" * 1_000, "It is Paris.", *C]
    assert shown(service, conversation_id) == whole
    assert shown(service, other.conversation_id)[1:] == ["It is Paris."], "the page knows this id"
    service.close()
    assert whole in saved(config.data_dir)
    assert ["new" * 1_000, "It is Paris."] in saved(config.data_dir)


def test_on_a_disk_that_can_only_be_read_chats_are_held_in_memory(
    config: ServiceConfig, small_disk: Path
) -> None:
    config = replace(config, data_dir=small_disk / "data")
    with Database(config.data_dir) as db:
        db.conversations.create("kept")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    service = ChatService(config, engine=ScriptedEngine())
    service.start()
    assert service.wait_until_ready(WAIT).is_ready
    job = service.ask(None, "one", OPTIONS)
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == "complete"
    assert "Not saved" in snapshot.notice
    assert "cannot be" in snapshot.notice
    assert shown(service, job.conversation_id) == A
    answered(service, "two", job.conversation_id)
    assert service.saved_answer(job.message_id).steps
    service.delete_conversation(job.conversation_id)
    service.close()
    with pytest.raises(DataFolderError):
        ChatService(replace(config, can_answer=False), engine=ScriptedEngine())
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    with Database(config.data_dir) as db:
        assert [chat.title for chat in db.conversations.list()] == ["kept"]


def test_a_chat_goes_on_while_another_program_holds_the_file(
    start: Start, config: ServiceConfig
) -> None:
    service = start(ScriptedEngine())
    conversation_id = answered(service, "one")
    path = config.data_dir / DATABASE_NAME
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        job = service.ask(conversation_id, "two", OPTIONS)
        assert "Another program is holding" in job.wait_until_over(WAIT).notice
        assert shown(service, conversation_id) == [*A, *B]
        again = service.ask(conversation_id, "three", OPTIONS).wait_until_over(WAIT)
        assert again.status == "complete"
        assert service.saved_answer(again.message_id).text == "It is Paris."
        assert service.step_details(again.message_id, 0).index == 0
        service.use_documents(conversation_id, True)
        other.execute("ROLLBACK")
    service.close()
    assert saved(config.data_dir) == [[*A, *B, *C]]
    with Database(config.data_dir) as db:
        assert db.passages.are_used(conversation_id)
        assert len(db.sequences.for_conversation(conversation_id)) == 3


def test_an_answer_whose_end_cannot_be_saved_is_kept_and_saved_later(
    start: Start, config: ServiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called failed, and gone with the next look at the chat."""
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = begun(service)
    finish_answer = Messages.finish_answer

    def full(messages: Messages, message_id: int, **values: object) -> object:
        if messages is service._database.messages:
            raise DatabaseFullError("No space is left.")
        return finish_answer(messages, message_id, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(Messages, "finish_answer", full)
    engine.go_on(99)
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.text) == ("complete", "abcdefgh")
    assert "No space is left" in snapshot.notice
    assert shown(service, job.conversation_id) == ["x", "abcdefgh"]
    assert service.messages(job.conversation_id)[-1].id == snapshot.message_id
    monkeypatch.undo()
    service.close()
    assert saved(config.data_dir) == [["x", "abcdefgh"]]


def test_a_chat_in_memory_can_be_deleted(start: Start, config: ServiceConfig) -> None:
    service = start(ScriptedEngine())
    kept = answered(service, "one")
    path = config.data_dir / DATABASE_NAME
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        new = answered(service, "two")
        assert [chat.id for chat in service.conversations()] == [new, kept]
        service.delete_conversation(new)
        assert [chat.id for chat in service.conversations()] == [kept]
        other.execute("ROLLBACK")
    service.close()
    assert saved(config.data_dir) == [A]


def test_what_could_not_be_saved_is_told_when_the_program_ends(
    start: Start, config: ServiceConfig, caplog: pytest.LogCaptureFixture
) -> None:
    service = start(ScriptedEngine())
    conversation_id = answered(service, "one")
    with closing(sqlite3.connect(config.data_dir / DATABASE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answered(service, "two", conversation_id)
        service.close()
        other.execute("ROLLBACK")
    assert "1 chats could not be saved" in caplog.text
    assert saved(config.data_dir) == [A], "what was saved before is there"
