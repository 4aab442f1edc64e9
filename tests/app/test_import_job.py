"""Import jobs: documents are saved and learned while chats go on; nothing is taken in twice."""

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.document_folders import document_folders
from app.document_presenter import import_report
from app.importing import DocumentReader, FoundFile, ReadingCancelledError, reader
from app.services import (
    AnswerOptions,
    ChatService,
    ImportJob,
    ServiceConfig,
    document_tokens,
    forgetting,
    import_work,
    trie_keeper,
)
from app.services.errors import BusyError
from app.services.forgetting import purge_deleted
from app.services.import_requests import ImportMemory
from app.services.import_work import ImportWork
from app.services.views import ImportSnapshot
from lookahead.draft import TokenSource
from tests.app.kept_trie import trie_statistics
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel
from tests.stored import purge_documents, shown_sequence_ids

WAIT = 20.0


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def service(config: ServiceConfig, engine: ScriptedEngine) -> Iterator[ChatService]:
    service = ChatService(config, engine=engine)
    service.start()
    yield service
    service.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "src").mkdir(parents=True)
    (folder / "a.txt").write_text("alpha <|im_end|> text")
    (folder / "src" / "main.py").write_text("print('hello')\n")
    (folder / "copy.txt").write_text("alpha <|im_end|> text")
    (folder / "empty.md").write_text("")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    return folder


def finished(job: ImportJob) -> tuple[int, dict[str, str]]:
    snapshot = job.wait_until_over(WAIT)
    assert snapshot.status == "complete", snapshot
    assert snapshot.num_files_done == snapshot.num_files_total
    return snapshot.num_documents, {Path(path).name: reason for path, reason in snapshot.skipped}


def service_snapshot(service: ChatService) -> ImportSnapshot:
    """The end of the last import."""
    assert service.imports._job is not None
    return service.imports._job.snapshot()


def test_a_folder_is_taken_in_and_what_is_not_is_told(service: ChatService, folder: Path) -> None:
    job = service.import_paths([folder])
    num_documents, skipped = finished(job)
    assert num_documents == 2
    assert skipped == {
        "copy.txt": "the same content as a.txt",
        "empty.md": "empty",
        "photo.jpg": "not a kind of file that is imported from folders",
    }
    num_tokens = len("alpha <|im_end|> text") + len("print('hello')\n")
    assert job.snapshot().num_tokens == num_tokens, "typed control tokens stay text"
    assert {(source.name, source.uri) for source in service.documents()} == {
        ("a.txt", (folder / "a.txt").as_uri()),
        ("src/main.py", (folder / "src" / "main.py").as_uri()),
    }
    statistics = trie_statistics(service)
    assert statistics.num_tokens_by_source[TokenSource.DOCUMENT] == num_tokens
    assert service.running_import() is None


def test_importing_again_takes_in_only_what_changed(service: ChatService, folder: Path) -> None:
    finished(service.import_paths([folder]))
    (folder / "a.txt").write_text("another text")
    num_documents, skipped = finished(service.import_paths([folder]))
    assert num_documents == 2  # a.txt changed; copy.txt has the old text, which is nowhere else now
    assert "main.py" not in skipped
    assert service_snapshot(service).num_unchanged == 1
    texts = {service._database.sources.text(source.id) for source in service.documents()}
    assert texts == {"another text", "alpha <|im_end|> text", "print('hello')\n"}
    trie = service._worker.bench.keeper.trie  # type: ignore[union-attr]
    assert trie.sequence_ids == set(shown_sequence_ids(service._database, 1))


def test_what_a_file_no_longer_holds_is_forgotten(service: ChatService, folder: Path) -> None:
    """A changed file that became a copy of another or empty kept its old text indexed."""
    finished(service.import_paths([folder]))
    (folder / "a.txt").write_text("")
    (folder / "src" / "main.py").write_text("alpha <|im_end|> text")
    finished(service.import_paths([folder]))
    assert [source.name for source in service.documents()] == ["copy.txt"]
    (folder / "src" / "main.py").write_text("another")
    (folder / "copy.txt").write_text("one more")
    finished(service.import_paths([folder]))
    (folder / "src" / "main.py").write_text("one more")
    _, skipped = finished(service.import_paths([folder]))
    assert skipped["main.py"] == "the same content as copy.txt"
    assert [source.name for source in service.documents()] == ["copy.txt"]
    trie = service._worker.bench.keeper.trie  # type: ignore[union-attr]
    drafted = trie.sequence_ids - trie.snapshot.hidden
    assert drafted == set(shown_sequence_ids(service._database, 1))
    (folder / "copy.txt").unlink()
    service.import_paths([folder / "copy.txt"]).wait_until_over(WAIT)
    assert len(service.documents()) == 1, "a file that is gone is no reason to forget it"


def test_what_a_file_no_longer_holds_can_be_brought_back_in_one_go(
    service: ChatService, folder: Path
) -> None:
    """It was deleted for good, though a file may be emptied by mistake."""
    finished(service.import_paths([folder]))
    texts = texts_of(service)
    (folder / "a.txt").write_text("")
    (folder / "copy.txt").unlink()
    (folder / "src" / "main.py").write_text("")
    finished(service.import_paths([folder]))
    assert service_snapshot(service).num_dropped == 2
    assert service.documents() == []
    [deletion] = service.recent_deletions()
    service.undo(deletion.kind, deletion.ids)
    assert texts_of(service) == texts


def texts_of(service: ChatService) -> dict[str, str]:
    sources = service._database.sources
    return {source.name: sources.text(source.id) for source in service.documents()}


def renamed(folder: Path, *pairs: tuple[str, str]) -> None:
    """Give files the names of others, all at once."""
    contents = {new: (folder / old).read_bytes() for old, new in pairs}
    for old, _ in pairs:
        (folder / old).unlink()
    for new, content in contents.items():
        (folder / new).write_bytes(content)


@pytest.fixture
def letters(service: ChatService, tmp_path: Path) -> Path:
    """An imported folder with a.txt, b.txt and c.txt."""
    folder = tmp_path / "letters"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"text {name}")
    finished(service.import_paths([folder]))
    return folder


def on_disk(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def imported_again(service: ChatService, folder: Path, *, is_upload: bool) -> None:
    """An upload is a new copy of the folder."""
    if not is_upload:
        finished(service.import_paths([folder]))
        return
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    finished(service.import_uploads(copy))


@pytest.mark.parametrize("is_upload", [False, True])
@pytest.mark.parametrize("names", ["ab ba", "ab bc ca", "ac cb ba"])
def test_files_that_changed_names_among_each_other_are_there_under_the_new_names(
    service: ChatService, letters: Path, names: str, is_upload: bool
) -> None:
    """One was skipped as "the same content as" another, whose document then made room."""
    if is_upload:
        service.delete_documents([source.id for source in service.documents()])
        imported_again(service, letters, is_upload=True)
    ids = {source.id for source in service.documents()}
    for source_id in ids:
        service._database.sources.pin(source_id, True)
    renamed(letters, *((f"{old}.txt", f"{new}.txt") for old, new in names.split()))
    imported_again(service, letters, is_upload=is_upload)
    assert texts_of(service) == on_disk(letters)
    end = service_snapshot(service)
    assert (end.num_unchanged, end.num_dropped, end.skipped) == (3, 0, ())
    assert {source.id for source in service.documents() if source.is_pinned} == ids, "as they were"
    trie = service._worker.bench.keeper.trie  # type: ignore[union-attr]
    drafted = trie.sequence_ids - trie.snapshot.hidden
    assert drafted == set(shown_sequence_ids(service._database, 1))
    assert len(drafted) == 3


@pytest.mark.parametrize("is_upload", [False, True])
def test_a_file_in_the_place_of_another_and_a_new_one_in_its_own_are_both_there(
    service: ChatService, letters: Path, is_upload: bool
) -> None:
    if is_upload:
        service.delete_documents([source.id for source in service.documents()])
        imported_again(service, letters, is_upload=True)
    (letters / "b.txt").replace(letters / "a.txt")
    (letters / "b.txt").write_text("new text")
    imported_again(service, letters, is_upload=is_upload)
    assert texts_of(service) == on_disk(letters)
    assert service_snapshot(service).num_dropped == 1
    deletion = service.recent_deletions()[0]
    assert deletion.name == "a.txt", "what it held is nowhere else"
    service.undo(deletion.kind, deletion.ids)
    texts = {service._database.sources.text(source.id) for source in service.documents()}
    assert texts == {"text a", "text b", "new text", "text c"}


def test_content_that_is_read_in_another_way_under_its_new_name_is_read_anew(
    service: ChatService, tmp_path: Path
) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "b.html").write_text("<p>words</p>")
    (folder / "a.txt").write_text("text")
    finished(service.import_paths([folder]))
    (folder / "b.html").replace(folder / "a.txt")
    (folder / "b.html").write_text("<p>other words</p>")
    finished(service.import_paths([folder]))
    assert texts_of(service) == {"a.txt": "<p>words</p>", "b.html": "other words"}


def test_content_that_moved_from_a_file_to_another_is_there_under_the_other_name(
    service: ChatService, folder: Path
) -> None:
    (folder / "copy.txt").unlink()
    finished(service.import_paths([folder]))
    (folder / "a.txt").rename(folder / "b.txt")
    (folder / "a.txt").write_text("")
    assert finished(service.import_paths([folder]))[0] == 0, "it is not read again"
    assert set(texts_of(service)) == {"b.txt", "src/main.py"}
    assert service.recent_deletions() == []


def test_a_file_takes_the_place_of_what_a_trie_file_says_it_holds(
    service: ChatService, folder: Path, tmp_path: Path
) -> None:
    """Whoever wrote that file chose the digest: it kept the real one out."""
    service.import_paths([folder / "a.txt"]).wait_until_over(WAIT)
    service.export_trie(tmp_path / "trie.gz", lambda _: None)
    service.delete_documents([service.documents()[0].id])
    service.import_trie(tmp_path / "trie.gz", lambda _: None)
    assert finished(service.import_paths([folder / "a.txt"])) == (1, {})
    [document] = service.documents()
    assert document.uri == (folder / "a.txt").as_uri()


def test_a_reader_that_crashes_costs_no_earlier_version(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine short of memory for a moment was enough to lose the document."""
    finished(service.import_paths([folder / "a.txt"]))
    (folder / "a.txt").write_text("another text")
    with monkeypatch.context() as patch:
        patch.setattr(reader, "_START", "import os; os.abort()")
        _, skipped = finished(service.import_paths([folder / "a.txt"]))
    assert skipped == {"a.txt": "its reader crashed (damaged, or made to do so)"}
    [source] = service.documents()
    assert service._database.sources.text(source.id) == "alpha <|im_end|> text"
    assert service.recent_deletions() == []


def test_an_upload_takes_the_place_of_the_one_of_the_same_name(
    service: ChatService, tmp_path: Path
) -> None:
    """Each upload lies in a new temporary folder, and an edited file was there twice."""
    for number in range(2):
        upload = tmp_path / str(number)
        (upload / "notes").mkdir(parents=True)
        (upload / "notes" / "a.md").write_text(f"version {number}")
        (upload / "a.md").write_text(f"another version {number}")
        assert finished(service.import_uploads(upload))[0] == 2
        assert not upload.exists(), "copies are of no use once they were taken in"
    assert {(source.name, source.uri) for source in service.documents()} == {
        ("a.md", "upload:a.md"),
        ("notes/a.md", "upload:notes/a.md"),
    }
    trie = service._worker.bench.keeper.trie  # type: ignore[union-attr]
    assert len(trie.sequence_ids - trie.snapshot.hidden) == 2


def test_an_upload_that_took_the_place_of_another_can_be_undone(
    service: ChatService, tmp_path: Path
) -> None:
    """Files of the same name replaced each other for good, and nobody was told."""
    for number in range(2):
        upload = tmp_path / str(number)
        upload.mkdir()
        for name in ("a.md", "b.md"):
            (upload / name).write_text(f"{name} {number}")
        finished(service.import_uploads(upload))
    snapshot = service_snapshot(service)
    assert snapshot.num_dropped == 2
    assert "; 2 earlier versions deleted, which can be undone." in import_report(snapshot)["text"]
    [deletion] = service.recent_deletions()
    service.undo(deletion.kind, deletion.ids)
    texts = {service._database.sources.text(source.id) for source in service.documents()}
    assert texts == {"a.md 0", "b.md 0", "a.md 1", "b.md 1"}


def test_an_upload_that_is_killed_leaves_no_earlier_version_of_what_it_saved(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions went at its end; both stayed, for ever, where it did not come to that."""
    seen: list[set[str]] = []
    take = ImportWork._take

    def looking(work: ImportWork, found: FoundFile, reading: DocumentReader) -> None:
        seen.append(set(texts_of(service).values()))
        take(work, found, reading)

    for number in range(2):
        upload = tmp_path / str(number)
        upload.mkdir()
        for name in ("a.md", "b.md"):
            (upload / name).write_text(f"{name} {number}")
        if number:
            monkeypatch.setattr(ImportWork, "_take", looking)
        finished(service.import_uploads(upload))
    assert seen == [{"a.md 0", "b.md 0"}, {"a.md 1", "b.md 0"}]


def test_the_time_for_undoing_begins_when_the_import_ends(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it runs, and what it dropped first comes back with what it dropped last."""
    finished(service.import_paths([folder]))
    texts = texts_of(service)
    for name in ("a.txt", "src/main.py"):
        (folder / name).write_text("")
    (folder / "copy.txt").unlink()
    monkeypatch.setattr(import_work, "_PUT_OFF", timedelta(0))
    take = ImportWork._take
    began_at: list[datetime] = []

    def taking(work: ImportWork, found: FoundFile, reading: DocumentReader) -> None:
        began_at.append(datetime.now(UTC))
        take(work, found, reading)

    def telling(work: ImportWork) -> None:
        [deletion] = service._database.deletions.list()
        assert deletion.deleted_at > began_at[-1], "as long as it runs"
        began_at.append(datetime.now(UTC))

    monkeypatch.setattr(ImportWork, "_take", taking)
    monkeypatch.setattr(ImportWork, "_tell_gone", telling)
    finished(service.import_paths([folder]))
    [deletion] = service.recent_deletions()
    assert service._database.deletions.list()[0].deleted_at > began_at[-1]
    assert len(deletion.ids) == 2
    service.undo(deletion.kind, deletion.ids)
    assert texts_of(service) == texts


def test_what_was_deleted_during_an_import_is_no_matter_for_it(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(service.import_paths([folder]))
    (folder / "a.txt").write_text("")
    (folder / "copy.txt").write_text("")
    (folder / "src" / "main.py").write_text("")
    take = ImportWork._take

    def deleting(work: ImportWork, found: FoundFile, reading: DocumentReader) -> None:
        if found.path.name == "main.py":
            service.delete_documents([source.id for source in service.documents()])
        take(work, found, reading)

    monkeypatch.setattr(ImportWork, "_take", deleting)
    finished(service.import_paths([folder]))
    assert service.documents() == []


def test_a_changed_file_is_pinned_and_read_deeper_as_it_was(
    service: ChatService, tmp_path: Path
) -> None:
    upload = tmp_path / "upload"
    path = tmp_path / "a.txt"
    for version in range(2):
        path.write_text(f"path {version}")
        upload.mkdir()
        (upload / "a.md").write_text(f"upload {version}")
        finished(service.import_paths([path], is_deeper=not version))
        finished(service.import_uploads(upload, is_deeper=not version))
        assert [source.is_pinned for source in service.documents()] == [bool(version)] * 2
        for source in service.documents():
            service._database.sources.pin(source.id, True)
    wanted = service._database._connections.rows("SELECT source_id FROM deeper_documents")
    shown = {source.id for source in service.documents()}
    assert shown <= {row["source_id"] for row in wanted}


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes there only")
def test_a_name_that_is_no_utf_8_is_taken_in_and_known_again(
    service: ChatService, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    path = Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/bad\xff\xfe\nname.txt"))
    for version in range(2):
        path.write_text(f"version {version}")
        assert finished(service.import_paths([path.parent]))[0] == 1
    assert finished(service.import_paths([path.parent])) == (0, {})
    path.write_text("uploaded")
    assert finished(service.import_uploads(path.parent))[0] == 1
    assert [source.name for source in service.documents()] == [r"bad\xff\xfe\nname.txt"] * 2


def test_many_changed_files_cost_one_rewrite_of_the_index(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def count_calls(owner: object, name: str) -> None:
        work = getattr(owner, name)

        def counted(*given: object) -> object:
            if threading.current_thread().name == "import":  # idle work has its own
                calls.append(name)
            return work(*given)

        monkeypatch.setattr(owner, name, counted)

    files = [tmp_path / f"{number}.txt" for number in range(30)]
    for version in range(2):
        for number, path in enumerate(files):
            path.write_text(f"document {number} version {version}")
        if version:
            count_calls(service._database._connections, "truncate_log")
            count_calls(service._worker.bench.keeper, "reconcile")  # type: ignore[union-attr]
        assert finished(service.import_paths(files))[0] == 30
    assert calls == ["truncate_log", "reconcile"]
    assert len(service.documents()) == 30


def test_what_another_process_imported_is_known_at_the_next_question(
    service: ChatService, config: ServiceConfig, folder: Path
) -> None:
    service.wait_until_ready(WAIT)
    other = ChatService(config, engine=ScriptedEngine())
    other.start()
    finished(other.import_paths([folder]))
    other.close()
    service.ask(None, "hello", AnswerOptions()).wait_until_over(WAIT)
    finished(service.import_paths([folder]))
    statistics = trie_statistics(service)
    assert statistics.num_sequences == 3, "two documents and the answer"


def test_a_deleted_document_is_forgotten(service: ChatService, folder: Path) -> None:
    finished(service.import_paths([folder / "a.txt"]))
    (source,) = service.documents()
    service.delete_document(source.id)
    assert service.documents() == []
    statistics = trie_statistics(service)
    assert statistics.num_tokens == statistics.num_hidden_tokens, "until it is purged"


def test_many_documents_reach_the_trie_in_growing_batches(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trie_keeper, "_FIRST_BATCH_LENGTH", 100)
    service.wait_until_ready(WAIT)
    trie = service._worker.bench.keeper.trie  # type: ignore[union-attr]
    batches = []
    add_many = trie.add_many
    monkeypatch.setattr(
        trie,
        "add_many",
        lambda sequences: batches.append(len(added := list(sequences))) or add_many(added),
    )
    for number in range(100):
        (tmp_path / f"{number:03}.txt").write_text(f"document {number:03} " * 3)
    finished(service.import_paths(sorted(tmp_path.glob("*.txt"))))
    assert sum(batches) == 100
    assert len(batches) < 10
    assert len(trie.sequence_ids) == 100


def test_chats_go_on_during_an_import(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, may_go_on = threading.Event(), threading.Event()
    read_document = DocumentReader.read

    def slow(reader: DocumentReader, found: FoundFile) -> object:
        read.set()
        may_go_on.wait(WAIT)
        return read_document(reader, found)

    monkeypatch.setattr(DocumentReader, "read", slow)
    job = service.import_paths([folder])
    assert read.wait(WAIT)
    assert service.running_import() is job
    for start in (lambda: service.import_paths([folder]), service.imports.resume):
        with pytest.raises(BusyError):
            start()
    assert service.imports.unfinished() is None, "it runs"
    answer = service.ask(None, "hello", AnswerOptions()).wait_until_over(WAIT)
    assert answer.status == "complete"
    assert not job.snapshot().is_over
    may_go_on.set()
    finished(job)


def cancelled_at(
    service: ChatService, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> ImportSnapshot:
    """The end of an import that was cancelled while it read a file of this name."""
    read_document = DocumentReader.read

    def cancelling(reader: DocumentReader, found: FoundFile) -> object:
        if found.path.name == name:
            running = service.running_import()
            assert running is not None
            running.cancel()
            raise ReadingCancelledError
        return read_document(reader, found)

    with monkeypatch.context() as patch:
        patch.setattr(DocumentReader, "read", cancelling)
        return service.import_paths([folder]).wait_until_over(WAIT)


def test_a_cancelled_import_keeps_what_was_taken_in_and_can_be_gone_on_with(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = cancelled_at(service, folder, "main.py", monkeypatch)
    assert (snapshot.status, snapshot.num_documents, snapshot.num_files_done) == ("cancelled", 1, 3)
    assert trie_statistics(service).num_sequences == 1
    unfinished = service.imports.unfinished()
    assert unfinished is not None
    assert unfinished.paths == (folder,)
    assert finished(service.imports.resume())[0] == 1
    assert service_snapshot(service).num_unchanged == 1
    assert len(service.documents()) == 2
    assert service.imports.unfinished() is None
    with pytest.raises(BusyError):
        service.imports.resume()


def test_an_import_that_ended_with_its_program_can_be_gone_on_with(
    service: ChatService, config: ServiceConfig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled_at(service, folder, "main.py", monkeypatch)
    service.close()
    other = ChatService(config, engine=ScriptedEngine())
    other.start()
    assert finished(other.imports.resume())[0] == 1
    assert other.imports.unfinished() is None
    other.close()


def test_an_unfinished_import_can_be_given_up(
    service: ChatService, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled_at(service, folder, "main.py", monkeypatch)
    service.imports.dismiss()
    assert service.imports.unfinished() is None
    service._database.settings.set("unfinished_import", {"paths": 3})
    assert service.imports.unfinished() is None, "damaged"
    upload = tmp_path / "upload"
    upload.mkdir()
    (upload / "a.md").write_text("words")
    with monkeypatch.context() as patch:
        patch.setattr(ImportJob, "is_cancelled", True)
        assert service.import_uploads(upload).wait_until_over(WAIT).status == "cancelled"
    assert service.imports.unfinished() is not None
    service.imports.dismiss()
    assert (service.imports.unfinished(), upload.exists()) == (None, False)


def test_imported_folders_are_remembered_until_they_are_removed(
    service: ChatService, folder: Path
) -> None:
    for path in (folder, folder / "a.txt", folder / "src", folder):
        service.import_paths([path]).wait_until_over(WAIT)
    assert service.imports.folders() == [folder.as_uri(), (folder / "src").as_uri()]
    service.imports.remove_folder(folder.as_uri())
    assert len(service.imports.folders()) == 2, "it may be brought back"
    memory = ImportMemory(service._database)
    memory.forget_folders()
    assert len(service.imports.folders()) == 2, "it has documents"
    service.delete_documents([source.id for source in service.documents()])
    memory.forget_folders()
    assert len(service.imports.folders()) == 2, "they can be brought back"
    purge_documents(service._database)
    memory.forget_folders()
    assert service.imports.folders() == [(folder / "src").as_uri()]
    service.imports.remove_folder((folder / "src").as_uri())
    (folder / "src" / "main.py").unlink()
    finished(service.import_paths([folder / "src"]))
    memory.forget_folders()
    assert service.imports.folders() == [(folder / "src").as_uri()], "imported since"


def test_a_folder_whose_deletion_is_undone_is_shown_as_a_folder_again(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its documents came back as single files, and could not be updated together."""
    finished(service.import_paths([folder]))
    before = document_folders(service.documents(), service.imports.folders())
    service.delete_documents([source.id for source in service.documents()])
    service.imports.remove_folder(folder.as_uri())
    [deletion] = service.recent_deletions()
    service.undo(deletion.kind, deletion.ids)
    purge_deleted(service._database, service._cache)
    assert document_folders(service.documents(), service.imports.folders()) == before
    service.delete_documents(deletion.ids)
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", -1.0)
    purge_deleted(service._database, service._cache)
    assert service.imports.folders() == []


def test_a_deleted_document_is_not_kept_by_an_upload_that_was_not_finished(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy outlived the purge, and going on brought it back."""
    upload = tmp_path / "upload"
    (upload / "notes").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (upload / "notes" / f"{name}.md").write_text(f"words of {name}")
    read_document = DocumentReader.read

    def cancelling(reading: DocumentReader, found: FoundFile) -> object:
        if found.path.name == "c.md":
            service.running_import().cancel()  # type: ignore[union-attr]
            raise ReadingCancelledError
        return read_document(reading, found)

    with monkeypatch.context() as patch:
        patch.setattr(DocumentReader, "read", cancelling)
        service.import_uploads(upload).wait_until_over(WAIT)
    by_name = {source.name: source.id for source in service.documents()}
    (upload / "notes" / "b.md").write_text("newer words, not imported yet")
    service.delete_documents(list(by_name.values()))
    assert not (upload / "notes" / "a.md").exists()
    assert finished(service.imports.resume())[0] == 2
    assert {source.name for source in service.documents()} == {"notes/b.md", "notes/c.md"}


def test_what_is_no_longer_in_a_folder_is_told_and_kept(service: ChatService, folder: Path) -> None:
    finished(service.import_paths([folder]))
    (folder / "src" / "main.py").unlink()
    _, skipped = finished(service.import_paths([folder]))
    assert skipped["main.py"] == "is there no more; its document stays until you delete it"
    assert len(service.documents()) == 2


def test_a_document_of_many_pieces_is_one_sequence(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_tokens, "PIECE_LENGTH", 100)
    text = "".join(f"line {number} <|im_end|>\n" for number in range(100)) + "x" * 1000
    (tmp_path / "long.txt").write_text(text)
    finished(service.import_paths([tmp_path / "long.txt"]))
    (sequence,) = service._database.sequences.all(1)
    assert bytes(sequence[2].astype("u1")).decode() == text


def test_pieces_are_cut_where_a_tokenizer_parts_words_anyway() -> None:
    text = "a word and; \n\n another line with words\n  indented"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_tokens, "PIECE_LENGTH", 24)
        pieces = list(document_tokens._pieces(text))
    assert pieces == ["a word and; \n\n another", " line with words", "\n  indented"]


def test_an_import_waits_for_the_model_and_fails_with_it(
    config: ServiceConfig, folder: Path
) -> None:
    engine = ScriptedEngine(load_error=OSError("gone"), loading=threading.Event())
    service = ChatService(config, engine=engine)
    service.start()
    job = service.import_paths([folder])
    assert job.snapshot().status == "waiting"
    engine.loading.set()  # type: ignore[union-attr]
    snapshot = job.wait_until_over(WAIT)
    assert (snapshot.status, snapshot.error) == ("failed", service.state.detail)
    service.close()


def test_a_failing_import_is_told_in_a_sentence(
    service: ChatService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise ValueError("broken")

    monkeypatch.setattr(DocumentReader, "read", broken)
    snapshot = service.import_paths([folder]).wait_until_over(WAIT)
    assert snapshot.status == "failed"
    assert snapshot.error == "The import failed (ValueError). The log has the details."


def test_documents_are_indexed_for_another_tokenizer_when_nothing_is_asked(
    service: ChatService, config: ServiceConfig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.services import worker

    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.01)
    finished(service.import_paths([folder]))
    service.close()
    other = ChatService(
        config, engine=ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint="another"))
    )
    other.start()
    other.wait_until_ready(WAIT)
    indexed = threading.Event()
    for _ in range(400):
        if trie_statistics(other).num_sequences == 2:
            indexed.set()
            break
        indexed.wait(0.02)
    assert indexed.is_set()
    assert len(list(other._database.sequences.all(2))) == 2
    other.close()
