"""Deleting through the service: undone for some minutes, and then in no file any more."""

import contextlib
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.services import ChatService, ServiceConfig, forgetting, worker
from app.services.errors import BusyError
from lookahead.token_log import as_words
from storage import Database, DatabaseBusyError, RecordNotFoundError
from storage.token_blobs import pack_token_ids
from tests.app.asking import OPTIONS, WAIT, Start, answered, begun, wait_for
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel

SECRET = "the zanzibar treaty of 1890"


@pytest.fixture
def no_time_to_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)


def imported(service: ChatService, folder: Path, name: str, text: str) -> int:
    path = folder / name
    path.write_text(text)
    assert service.import_paths([path]).wait_until_over(WAIT).status == "complete"
    path.unlink()
    return next(source.id for source in service.documents() if source.name == name)


def traces(config: ServiceConfig) -> list[str]:
    """The files in which the secret stands, as text, as token ids (bytes, when scripted), or as
    the words of a segment."""
    needles = [b"zanzibar", pack_token_ids([*b"zanzibar"]), as_words([*b"zanzibar"]).tobytes()]
    found = []
    for folder in (config.data_dir, config.cache_dir):
        for path in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # a journal's end
                content = path.read_bytes()
                found += [path.name] if any(needle in content for needle in needles) else []
    return found


def num_drafted(service: ChatService) -> int:
    """Sequences that can be drafted from."""
    bench = service._worker.bench
    assert bench is not None
    return len(bench.keeper.trie.sequence_ids - bench.keeper.trie.snapshot.hidden)


def test_a_deleted_document_is_not_drafted_from_and_undo_brings_it_back(
    start: Start, tmp_path: Path
) -> None:
    service = start(ScriptedEngine())
    source_id = imported(service, tmp_path, "treaty.txt", SECRET)
    assert num_drafted(service) == 1
    service.delete_document(source_id)
    assert (service.documents(), num_drafted(service)) == ([], 0)
    [recent] = service.recent_deletions()
    assert (recent.kind, recent.ids, recent.name) == ("document", (source_id,), "treaty.txt")
    assert 0 < recent.seconds_left <= forgetting.UNDO_SECONDS
    service.undo(recent.kind, recent.ids)
    assert [source.id for source in service.documents()] == [source_id]
    assert num_drafted(service) == 1
    assert service.recent_deletions() == []


def test_documents_are_deleted_and_brought_back_in_one_go(start: Start, tmp_path: Path) -> None:
    service = start(ScriptedEngine())
    ids = [imported(service, tmp_path, f"{n}.txt", f"text {n}") for n in range(3)]
    with pytest.raises(RecordNotFoundError):
        service.delete_documents([*ids, 99])
    assert len(service.documents()) == 3
    service.delete_documents(ids)
    [recent] = service.recent_deletions()
    assert recent.ids == tuple(ids)
    service.undo(recent.kind, recent.ids)
    assert (len(service.documents()), num_drafted(service)) == (3, 3)


def test_a_deleted_chat_comes_back_with_its_words_and_can_go_on(start: Start) -> None:
    service = start(ScriptedEngine())
    conversation_id = answered(service, "one")
    service.delete_conversation(conversation_id)
    assert (service.conversations(), num_drafted(service)) == ([], 0)
    with pytest.raises(RecordNotFoundError):
        service.ask(conversation_id, "more", OPTIONS)
    [recent] = service.recent_deletions()
    assert (recent.kind, recent.name) == ("conversation", "one")
    service.undo(recent.kind, recent.ids)
    assert num_drafted(service) == 1
    answered(service, "more", conversation_id)
    texts = [message.text for message in service.messages(conversation_id)]
    assert texts == ["one", "It is Paris.", "more", "It is Paris."]


def test_a_chat_deleted_while_it_is_answered_comes_back_as_far_as_it_was_saved(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    job = begun(service)
    service.delete_conversation(job.conversation_id)
    service.undo("conversation", [job.conversation_id])
    engine.go_on(99)
    assert job.wait_until_over(WAIT).status == "stopped"
    message = database.messages.get(job.message_id)
    assert (message.status, message.text) == ("stopped", ""), "its writer had been told to stop"
    answered(service, "again", job.conversation_id)


def test_once_it_is_too_late_nothing_is_found_in_any_file(
    start: Start, config: ServiceConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    chat = answered(service, f"Tell me about {SECRET}")
    source_id = imported(service, tmp_path, "treaty.txt", SECRET * 40)
    kept = answered(service, "kept")
    service.close()
    assert len(traces(config)) >= 2, "database and cache"
    service = start(engine)
    service.delete_document(source_id)
    service.delete_conversation(chat)
    assert traces(config)
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)
    service._worker.request_idle_work()
    wait_for(lambda: not traces(config))
    assert [conversation.id for conversation in service.conversations()] == [kept]
    with pytest.raises(RecordNotFoundError, match="cannot be brought back"):
        service.undo("document", [source_id])
    service.close()
    assert traces(config) == []


def test_the_cached_index_of_another_tokenizer_is_cleared_too(
    start: Start, config: ServiceConfig, tmp_path: Path, no_time_to_undo: None
) -> None:
    service = start(ScriptedEngine())
    imported(service, tmp_path, "treaty.txt", SECRET)
    service.close()
    assert "segments.db" in traces(config)
    other = start(ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint="other")))
    other.delete_document(other.documents()[0].id)
    wait_for(lambda: not traces(config))


def test_what_an_ended_program_deleted_is_purged_by_the_next_one(
    start: Start, config: ServiceConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(ScriptedEngine())
    source_id = imported(service, tmp_path, "treaty.txt", SECRET)
    service.delete_document(source_id)
    service.close()
    again = start(ScriptedEngine())
    [recent] = again.recent_deletions()
    assert recent.ids == (source_id,), "there is still time"
    assert num_drafted(again) == 0
    again.close()
    assert traces(config)
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)
    third = start(ScriptedEngine())
    assert third.recent_deletions() == []
    wait_for(lambda: not traces(config))


def test_it_is_purged_when_the_time_is_over_without_anybody_asking(
    start: Start, config: ServiceConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(ScriptedEngine())
    source_id = imported(service, tmp_path, "treaty.txt", SECRET)
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.3)
    service.delete_document(source_id)
    wait_for(lambda: not traces(config))
    with pytest.raises(RecordNotFoundError, match="cannot be brought back"):
        service.undo("document", [source_id])


def test_many_deletions_are_waited_for_by_one_thread(
    start: Start, config: ServiceConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slept for each, and with some thousands no more could be started."""
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 2.0)
    service = start(ScriptedEngine())
    ids = [imported(service, tmp_path, f"{n}.txt", f"{SECRET} {n}") for n in range(5)]
    service.delete_document(ids.pop())
    num_threads = threading.active_count()
    for source_id in ids:
        service.delete_document(source_id)
    assert threading.active_count() == num_threads
    assert len(service.recent_deletions()) == 5
    wait_for(lambda: not traces(config))


def test_without_a_model_it_is_purged_as_well(
    start: Start,
    config: ServiceConfig,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer_id = database.tokenizers.ensure("bytes", "bytes")
    source_id, _ = database.sources.add_document(
        name="a", uri="a", sha256="a", text=SECRET, token_ids=[1], tokenizer_id=tokenizer_id
    )
    database.close()
    service = start(ScriptedEngine(load_error=OSError("no weights")), is_ready=False)
    assert service.wait_until_ready(WAIT).status == "failed"
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.1)
    service.delete_document(source_id)
    wait_for(lambda: not traces(config))


def test_a_purge_that_is_not_possible_yet_is_tried_again_without_anybody_asking(
    start: Start,
    config: ServiceConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_time_to_undo: None,
) -> None:
    """It was tried once, when the time was over, and then with the next answer."""
    monkeypatch.setattr(forgetting, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    service = start(ScriptedEngine())
    source_id = imported(service, tmp_path, "treaty.txt", SECRET)
    purge = service._database.deletions.purge
    tries = iter(range(3))

    def purge_in_the_end(deleted_until: datetime, max_seconds: float) -> list[int]:
        if next(tries, None) is not None:
            raise DatabaseBusyError("Another program is holding the file.")
        return purge(deleted_until, max_seconds)

    monkeypatch.setattr(service._database.deletions, "purge", purge_in_the_end)
    service.delete_document(source_id)
    wait_for(lambda: not traces(config))
    assert next(tries, None) is None, "the file was held three times before"


def test_what_is_overdue_at_start_is_purged_without_a_model_too(
    start: Start, config: ServiceConfig, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what could still be undone had its time kept."""
    monkeypatch.setattr(forgetting, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)
    tokenizer_id = database.tokenizers.ensure("bytes", "bytes")
    source_id, _ = database.sources.add_document(
        name="a", uri="a", sha256="a", text=SECRET, token_ids=[1], tokenizer_id=tokenizer_id
    )
    database.deletions.hide_documents([source_id])
    database.close()
    service = start(ScriptedEngine(load_error=OSError("no weights")), is_ready=False)
    wait_for(lambda: not traces(config))
    assert (service.state.status, service.documents()) == ("failed", [])


def test_of_two_programs_only_one_writes_the_cache_and_the_other_takes_over(
    start: Start, config: ServiceConfig, tmp_path: Path, no_time_to_undo: None
) -> None:
    """The second one wrote back what the first one had purged."""
    first = start(ScriptedEngine())
    imported(first, tmp_path, "treaty.txt", SECRET)
    wait_for((config.cache_dir / "segments.db").exists)
    second = start(ScriptedEngine())
    assert num_drafted(second) == 1
    first.delete_document(first.documents()[0].id)
    wait_for(lambda: not traces(config))
    assert not second._cache.may_write()
    second.close()
    assert traces(config) == []
    third = start(ScriptedEngine())
    first.close()
    assert third._cache.may_write()


def test_a_purge_waits_for_the_answer_being_written(
    start: Start, config: ServiceConfig, tmp_path: Path, no_time_to_undo: None
) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0))
    service = start(engine)
    source_id = imported(service, tmp_path, "treaty.txt", SECRET)
    job = begun(service)
    service.delete_document(source_id)
    with pytest.raises(BusyError):
        service.ask(job.conversation_id, "y", OPTIONS)
    assert "lookahead-chat.db-wal" in traces(config)
    engine.go_on(99)
    job.wait_until_over(WAIT)
    wait_for(lambda: not traces(config))


def test_deletions_older_than_the_time_are_not_offered(
    start: Start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(ScriptedEngine())
    answered(service, "one")
    service.delete_conversation(service.conversations()[0].id)

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(seconds=forgetting.UNDO_SECONDS + 1)

    monkeypatch.setattr(forgetting, "datetime", Later)
    assert service.recent_deletions() == []


def test_a_clock_that_was_set_back_offers_undo_no_longer_than_ever(
    start: Start, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(ScriptedEngine())
    answered(service, "one")
    service.delete_conversation(service.conversations()[0].id)

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) - timedelta(days=1)

    monkeypatch.setattr(forgetting, "datetime", Earlier)
    [deletion] = service.recent_deletions()
    assert deletion.seconds_left == forgetting.UNDO_SECONDS


def test_a_purge_that_fails_is_tried_again_and_keeps_nothing_else_from_its_turn(
    start: Start,
    config: ServiceConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    no_time_to_undo: None,
) -> None:
    service = start(ScriptedEngine())
    source_id = imported(service, tmp_path, "treaty.txt", SECRET)

    def busy(*_: object) -> list[int]:
        raise DatabaseBusyError("Another program is holding the file.")

    monkeypatch.setattr(service._database.deletions, "purge", busy)
    service.delete_document(source_id)
    wait_for(lambda: "could not be purged yet" in caplog.text)
    assert "idle work failed" not in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)
    service._worker.request_idle_work()
    wait_for(lambda: not traces(config))
