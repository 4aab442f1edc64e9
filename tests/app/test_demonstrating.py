"""The demo: its questions are asked in order, of the real service; chats of the user stay."""

import threading
from pathlib import Path

import pytest

from app.demo import CHATS, DOCUMENT, PASSAGE
from app.importing import DocumentFile, DocumentReader, FoundFile, SkippedFile
from app.services import AnswerJob, ChatService, ServiceConfig
from app.services.demonstrating import DemoJob, DemoSnapshot
from app.services.errors import ServiceClosedError
from lookahead.embedded_model import default_cache_dir
from storage import Database
from tests.app.asking import OPTIONS, WAIT, Start, answered, prompt_text, wait_for
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel

QUESTIONS = [question.text for chat in CHATS for question in chat.questions]
TITLES = [chat.title for chat in CHATS]


def gated() -> ScriptedEngine:
    return ScriptedEngine(gate=threading.Semaphore(0))


def held(service: ChatService) -> DemoSnapshot:
    snapshot = service.start_demo().wait_until_over(WAIT)
    assert snapshot.status == "complete", snapshot
    return snapshot


def titles(service: ChatService) -> list[str]:
    return [conversation.title for conversation in reversed(service.conversations())]


def asked_in(service: ChatService, title: str) -> list[str]:
    (found,) = (chat for chat in service.conversations() if chat.title == title)
    return [message.text for message in service.messages(found.id) if message.role == "user"]


def begun(service: ChatService) -> DemoJob:
    """A demo whose first question was asked."""
    demo = service.start_demo()
    wait_for(lambda: demo.snapshot().num_asked > 0)
    return demo


def test_the_passage_is_the_document_s_own_and_the_titles_say_what_it_is() -> None:
    assert PASSAGE in " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    assert any(PASSAGE in question for question in QUESTIONS)
    assert all("Demo" in title for title in TITLES)


def test_all_questions_are_asked_in_their_chats_greedily_and_the_document_is_there(
    start: Start,
) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    snapshot = held(service)
    assert snapshot.num_asked == len(QUESTIONS)
    assert titles(service) == TITLES
    assert [asked_in(service, title) for title in TITLES] == [
        [question.text for question in chat.questions] for chat in CHATS
    ]
    limits = [request.decoding.max_new_tokens for request in engine.requests]
    assert limits == [question.max_new_tokens for chat in CHATS for question in chat.questions]
    assert {request.sampling.temperature for request in engine.requests} == {0.0}
    assert all(request.trie is not None for request in engine.requests)
    assert [source.name for source in service.documents()] == [DOCUMENT.name]
    (chat,) = (chat for chat in service.conversations() if chat.title == TITLES[-1])
    assert snapshot.conversation_id == chat.id
    assert service.running_demo() is None


def test_a_second_demo_replaces_the_first_and_imports_nothing_again(start: Start) -> None:
    service = start(ScriptedEngine())
    held(service)
    first = {chat.id for chat in service.conversations()}
    held(service)
    assert titles(service) == TITLES
    assert first.isdisjoint(chat.id for chat in service.conversations())
    assert len(service.documents()) == 1


def test_chats_of_the_user_are_left_alone_even_under_the_demo_s_title(
    start: Start, database: Database
) -> None:
    service = start(ScriptedEngine())
    own = answered(service, QUESTIONS[0])
    namesake = database.conversations.create(TITLES[0]).id
    answered(service, "Something else", namesake)
    held(service)
    continued = next(chat.id for chat in service.conversations() if chat.title == TITLES[1])
    answered(service, "And what do wasps do?", continued)
    held(service)
    ids = {chat.id for chat in service.conversations()}
    assert {own, namesake, continued} <= ids
    assert len(ids) == 5


def test_a_deleted_document_is_imported_again(start: Start) -> None:
    service = start(ScriptedEngine())
    held(service)
    service.delete_document(service.documents()[0].id)
    held(service)
    assert len(service.documents()) == 1


def test_asked_for_again_meanwhile_it_is_the_running_one(start: Start) -> None:
    engine = gated()
    service = start(engine)
    demo = service.start_demo()
    assert service.start_demo() is service.running_demo() is demo
    engine.go_on(999)
    assert demo.wait_until_over(WAIT).status == "complete"
    assert titles(service) == TITLES


def test_its_place_can_be_watched_from_chat_to_chat(start: Start) -> None:
    engine = gated()
    service = start(engine)
    demo = begun(service)
    seen = [demo.snapshot()]
    answer_of(service, demo)
    engine.go_on(5)  # an answer takes six
    assert service.running_demo() is demo
    engine.go_on(994)
    while not seen[-1].is_over:
        seen.append(demo.wait_for_change(seen[-1].version, WAIT))
    assert [snapshot.num_asked for snapshot in seen[:-1]] == sorted(
        {snapshot.num_asked for snapshot in seen}
    )
    assert {snapshot.status for snapshot in seen} == {"running", "complete"}
    assert len({snapshot.conversation_id for snapshot in seen}) == len(CHATS)


def answer_of(service: ChatService, demo: DemoJob) -> AnswerJob:
    conversation_id = demo.snapshot().conversation_id
    assert conversation_id is not None
    job = service.running_job(conversation_id)
    assert job is not None
    return job


def test_stopping_the_answer_ends_the_demo(start: Start) -> None:
    engine = gated()
    service = start(engine)
    demo = begun(service)
    wait_for(lambda: bool(engine.requests))
    answer_of(service, demo).stop()
    engine.go_on(999)
    assert demo.wait_until_over(WAIT).status == "stopped"
    assert len(engine.requests) == 1
    assert titles(service) == TITLES[:1]
    assert held(service).status == "complete"
    assert titles(service) == TITLES


def test_deleting_its_chat_ends_the_demo(start: Start) -> None:
    engine = gated()
    service = start(engine)
    demo = begun(service)
    service.delete_conversation(answer_of(service, demo).conversation_id)
    engine.go_on(999)
    assert demo.wait_until_over(WAIT).status == "stopped"
    assert service.conversations() == []


def test_before_the_model_is_loaded_it_is_prepared_and_can_be_stopped(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    own = database.conversations.create(TITLES[0]).id
    demo = service.start_demo()
    assert demo.snapshot().status == "preparing"
    demo.stop()
    assert demo.wait_until_over(WAIT).status == "stopped"
    assert [chat.id for chat in service.conversations()] == [own], "none was deleted, none begun"
    engine.loading.set()  # type: ignore[union-attr]
    assert held(service).status == "complete"


def test_nothing_is_asked_before_the_document_is_there(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(ScriptedEngine())
    may_read, is_read = threading.Event(), []

    read_document = DocumentReader.read

    def read_late(reader: DocumentReader, found: FoundFile) -> DocumentFile | SkippedFile:
        assert may_read.wait(WAIT)
        is_read.append(len(service.conversations()))
        return read_document(reader, found)

    monkeypatch.setattr(DocumentReader, "read", read_late)
    demo = service.start_demo()
    wait_for(lambda: service.running_import() is not None)
    assert demo.snapshot().status == "preparing"
    may_read.set()
    assert demo.wait_until_over(WAIT).status == "complete"
    assert is_read == [0]


@pytest.mark.parametrize("failure", [OSError("disk"), SkippedFile(DOCUMENT, "no permission")])
def test_a_document_that_cannot_be_imported_is_told_and_nothing_asked_or_deleted(
    start: Start, monkeypatch: pytest.MonkeyPatch, failure: OSError | SkippedFile
) -> None:
    service = start(ScriptedEngine())
    held(service)
    before = titles(service)
    service.delete_document(service.documents()[0].id)

    def fail(*_: object) -> DocumentFile | SkippedFile:
        if isinstance(failure, OSError):
            raise failure
        return failure

    monkeypatch.setattr(DocumentReader, "read", fail)
    ended = service.start_demo().wait_until_over(WAIT)
    assert (ended.status, ended.num_asked) == ("failed", 0)
    assert ended.error.startswith("The sample document could not be imported: ")
    assert titles(service) == before


def test_begun_before_the_model_is_loaded_it_runs_through(start: Start) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    demo = service.start_demo()
    engine.loading.set()  # type: ignore[union-attr]
    assert demo.wait_until_over(WAIT).status == "complete"
    assert len(service.documents()) == 1


def test_an_answer_that_fails_ends_it_and_says_why(start: Start) -> None:
    engine = ScriptedEngine(model=ScriptedModel(), error_after_steps=2)
    snapshot = start(engine).start_demo().wait_until_over(WAIT)
    assert snapshot.status == "failed"
    assert "RuntimeError" in snapshot.error


def test_closing_the_program_ends_it(start: Start) -> None:
    engine = gated()
    service = start(engine)
    demo = begun(service)
    wait_for(lambda: bool(engine.requests))
    answer = answer_of(service, demo)
    closing = threading.Thread(target=service.close)
    closing.start()
    wait_for(lambda: answer.is_stopped)
    engine.go_on(999)
    closing.join(WAIT)
    assert demo.snapshot().status == "stopped"
    with pytest.raises(ServiceClosedError):
        service.start_demo()


def test_it_waits_for_another_import(start: Start, tmp_path: Path) -> None:
    engine = ScriptedEngine(loading=threading.Event())
    service = start(engine, is_ready=False)
    (tmp_path / "notes.txt").write_text("notes")
    service.import_paths([tmp_path / "notes.txt"])
    demo = service.start_demo()
    engine.loading.set()  # type: ignore[union-attr]
    assert demo.wait_until_over(WAIT).status == "complete"
    assert {source.name for source in service.documents()} == {"notes.txt", DOCUMENT.name}


def test_a_chat_goes_on_behind_the_demo(start: Start) -> None:
    service = start(engine := ScriptedEngine())
    held(service)
    job = service.ask(None, "And now?", OPTIONS)
    assert job.wait_until_over(WAIT).status == "complete"
    assert "And now?" in prompt_text(engine)


@pytest.mark.real
@pytest.mark.usefixtures("verify_all")
def test_with_the_embedded_model_every_store_has_its_share(
    embedded_model_path: Path, tmp_path: Path
) -> None:
    """In bf16, for which the questions were chosen: the text is the same wherever it is strict."""
    folders = tmp_path / "data", default_cache_dir()
    config = ServiceConfig(*folders, model=str(embedded_model_path), dtype="bfloat16")
    service = ChatService(config)
    service.start()
    try:
        assert service.wait_until_ready(300).is_ready
        assert service.start_demo().wait_until_over(300).status == "complete"
        answers = [
            message
            for chat in service.conversations()
            for message in service.messages(chat.id)
            if message.role == "assistant"
        ]
        accepted: dict[str, int] = {}
        for answer in answers:
            assert answer.numbers is not None
            for source, count in answer.numbers.accepted_by_source.items():
                accepted[source] = accepted.get(source, 0) + count
        accepted.pop("recycled", 0)
        assert set(accepted) == {"prompt", "output", "history", "document"}
        assert min(accepted.values()) >= 5, accepted
        proofread, once_more = (
            answer.text for answer in answers if PASSAGE.split(" ")[-1] in answer.text
        )
        assert proofread == once_more
    finally:
        service.close()
