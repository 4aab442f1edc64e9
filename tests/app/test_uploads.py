"""Uploads: what the browser sends is put in a folder of its own and nowhere else."""

import asyncio
import json
import os
import threading
from collections import namedtuple
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.testclient import TestClient

from app import uploads as uploads_module
from app.importing import ReadingLimits
from app.uploads import UploadError, Uploads, upload_router

ADDRESS = "/documents/uploads"


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads", ReadingLimits(text_bytes=100, container_bytes=200))


@pytest.fixture
def client(uploads: Uploads) -> TestClient:
    application = FastAPI()
    application.include_router(upload_router(uploads))
    return TestClient(application)


def begin(client: TestClient, *files: tuple[str, int]) -> Any:
    listed = [{"name": name, "size": size} for name, size in files]
    return client.post(ADDRESS, content=json.dumps({"files": listed})).json()


def test_files_arrive_where_they_lay_in_their_folder(client: TestClient, uploads: Uploads) -> None:
    begun = begin(client, ("notes/a.md", 5), ("notes/deep/Über [1].md", 4), ("odd", 0))
    assert begun["wanted"] == [0, 1, 2]
    for index, content in enumerate((b"words", b"more", b"")):
        assert client.put(f"{ADDRESS}/{begun['batch']}/{index}", content=content).status_code == 204
    folder, skipped = uploads.take(begun["batch"])
    assert skipped == []
    assert {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in files_in(folder)
    } == {
        "notes/a.md": b"words",
        "notes/deep/Über [1].md": b"more",
        "odd": b"",
    }
    if os.name == "posix":
        assert folder.stat().st_mode & 0o777 == 0o700


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("../a.md", 1, "has a name that cannot be used here"),
        ("notes/../../a.md", 1, "has a name that cannot be used here"),
        ("/etc/a.md", 1, "has a name that cannot be used here"),
        ("", 1, "has a name that cannot be used here"),
        ("a\0.md", 1, "has a name that cannot be used here"),
        ("a\ud800.md", 1, "has a name that cannot be used here"),
        ("x" * 300, 1, "has a name that cannot be used here"),
        ("x/" * 600 + "a.md", 1, "has a name that cannot be used here"),
        ("notes/a.png", 1, "not a kind of file that is imported from folders"),
        ("notes/.git/a.md", 1, "a folder of tools, not of documents"),
        ("a.md", 101, "too large (101 bytes; at most 100)"),
        ("a.pdf", 201, "too large (201 bytes; at most 200)"),
    ],
)
def test_what_is_not_wanted_is_told_before_it_is_sent(
    client: TestClient, uploads: Uploads, name: str, size: int, reason: str
) -> None:
    begun = begin(client, (name, size), ("good.md", 1))
    assert begun["wanted"] == [1]
    refused = client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"x")
    assert refused.status_code == 400
    folder, (skipped,) = uploads.take(begun["batch"])
    assert skipped.reason == reason
    assert files_in(folder.parent.parent) == []


def test_more_than_was_said_is_refused_and_leaves_nothing(
    client: TestClient, uploads: Uploads
) -> None:
    begun = begin(client, ("a.md", 3))
    refused = client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"words")
    assert (refused.status_code, refused.json()) == (
        400,
        {"error": "a.md is larger than was said."},
    )
    assert files_in(uploads.take(begun["batch"])[0]) == []


def test_less_than_was_said_is_refused_and_leaves_nothing(
    client: TestClient, uploads: Uploads
) -> None:
    begun = begin(client, ("a.md", 5))
    refused = client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"wor")
    assert (refused.status_code, "did not come to its end" in refused.json()["error"]) == (
        400,
        True,
    )
    assert files_in(uploads.take(begun["batch"])[0]) == []


def test_a_file_is_sent_once_and_a_second_one_does_not_harm_it(
    client: TestClient, uploads: Uploads
) -> None:
    """The second one failed, and its clearing up deleted the file that had arrived."""
    begun = begin(client, ("a.md", 5), ("a.md", 5), ("a.md/b.md", 5))
    assert client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"words").status_code == 204
    for index in (0, 1, 2):
        again = client.put(f"{ADDRESS}/{begun['batch']}/{index}", content=b"other")
        assert "could not be written" in again.json()["error"]
    (file,) = files_in(uploads.take(begun["batch"])[0])
    assert file.read_bytes() == b"words"


def test_a_file_in_the_place_of_a_folder_is_refused(client: TestClient) -> None:
    """Clearing up tried to unlink the folder, and the answer was an error 500."""
    begun = begin(client, ("a/b.md", 5), ("a", 5))
    assert client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"words").status_code == 204
    refused = client.put(f"{ADDRESS}/{begun['batch']}/1", content=b"words")
    assert (refused.status_code, "could not be written" in refused.json()["error"]) == (400, True)


@pytest.mark.parametrize("error", [ClientDisconnect(), asyncio.CancelledError()])
def test_what_breaks_off_leaves_nothing(uploads: Uploads, error: BaseException) -> None:
    async def broken_off() -> AsyncIterator[bytes]:
        yield b"wor"
        raise error

    batch_id, _ = uploads.begin([("a.md", 5)])
    with pytest.raises(type(error)):
        asyncio.run(uploads.receive(batch_id, 0, broken_off()))
    assert files_in(uploads.take(batch_id)[0]) == []


@pytest.mark.parametrize(
    "name", ["CON", "nul.md", "x/com1.tar.md", "aux /a.md", "a. /b.md", "a.md.", "LPT¹", "a:b.md"]
)
def test_names_that_mean_something_else_to_windows_are_refused_there(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for is_windows in (False, True):
        monkeypatch.setattr(uploads_module, "_IS_WINDOWS", is_windows)
        wanted = uploads.begin([(name, 1), ("console.md", 1)])[1]
        assert (0 in wanted, 1 in wanted) == (not is_windows, True)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_in_the_folder_leads_nothing_out_of_it(
    uploads: Uploads, tmp_path: Path, client: TestClient
) -> None:
    begun = begin(client, ("notes/a.md", 5))
    (tmp_path / "out").mkdir()
    (tmp_path / "uploads" / begun["batch"] / "notes").symlink_to(tmp_path / "out")
    refused = client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"words")
    assert "could not be written" in refused.json()["error"]
    assert files_in(tmp_path / "out") == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"files": 3}', b'{"files": [{"name": 3, "size": 3}]}', b"[" * 100_000,
     b'{"files": [{"name": "a", "size": -1}]}', b'{"files": [{"name": "a", "size": true}]}'],
)  # fmt: skip
def test_an_unexpected_list_is_refused(client: TestClient, body: bytes) -> None:
    refused = client.post(ADDRESS, content=body)
    assert (refused.status_code, "reload" in refused.json()["error"]) == (400, True)


def test_an_upload_that_is_given_up_leaves_nothing(client: TestClient, tmp_path: Path) -> None:
    begun = begin(client, ("a.md", 5))
    client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"words")
    assert client.delete(f"{ADDRESS}/{begun['batch']}").status_code == 204
    assert files_in(tmp_path) == []
    for gone in (
        client.delete(f"{ADDRESS}/{begun['batch']}"),
        client.put(f"{ADDRESS}/{begun['batch']}/0", content=b"words"),
    ):
        assert "Choose the files again" in gone.json()["error"]


def test_uploads_that_are_never_imported_make_room(client: TestClient, tmp_path: Path) -> None:
    batches = [begin(client, ("a.md", 5))["batch"] for _ in range(10)]
    assert sorted(path.name for path in (tmp_path / "uploads").iterdir()) == sorted(batches[-8:])


def test_nothing_is_taken_that_could_not_be_imported(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, is_importing=lambda: True)
    with pytest.raises(UploadError, match="An import is running"):
        uploads.begin([("a.md", 5)])


def test_too_many_or_too_much_is_refused_with_what_to_do(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uploads_module, "_MAX_FILES", 1)
    assert "by its path" in begin(client, ("a.md", 5), ("b.md", 5))["error"]
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(uploads_module.shutil, "disk_usage", lambda _: usage(free=1000))
    assert "no room on the disk" in begin(client, ("a.md", 5))["error"]
    assert list((tmp_path / "uploads").iterdir()) == []


def test_what_is_promised_to_one_is_not_promised_to_another(
    client: TestClient, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(uploads_module.shutil, "disk_usage", lambda _: usage(free=2**30 + 100))
    first = begin(client, ("a.md", 60))
    assert "no room on the disk" in begin(client, ("b.md", 60))["error"]
    assert client.put(f"{ADDRESS}/{first['batch']}/0", content=b"x" * 60).status_code == 204
    assert "wanted" in begin(client, ("b.md", 60)), "what has come is counted by the disk"
    assert "no room on the disk" in begin(client, ("c.md", 60))["error"]
    monkeypatch.setattr(uploads_module, "_ACTIVE_SECONDS", 0.0)
    assert "no room on the disk" in begin(client, ("c.md", 60), ("d.md", 60))["error"]
    assert "wanted" in begin(client, ("c.md", 60)), "the page of the other may have been closed"


def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "uploads").write_text("a file")
    application = FastAPI()
    application.include_router(upload_router(Uploads(tmp_path / "uploads")))
    client = TestClient(application, raise_server_exceptions=False)
    assert begin(client, ("a.md", 5))["error"].startswith("Nothing can be uploaded: ")


def test_the_disk_is_waited_for_beside_the_event_loop(
    uploads: Uploads, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk held up the answers that were being written to all pages."""
    threads = []
    make_parent = uploads_module._make_parent

    def recorded(path: Path, folder: Path) -> None:
        threads.append(threading.current_thread())
        make_parent(path, folder)

    def begun(files: list[tuple[str, int]]) -> tuple[str, list[int]]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return begin_upload(files)

    async def chunks() -> AsyncIterator[bytes]:
        yield b"words"

    begin_upload = uploads.begin
    monkeypatch.setattr(uploads, "begin", begun)
    monkeypatch.setattr(uploads_module, "_make_parent", recorded)
    batch_id = begin(client, ("a.md", 5))["batch"]
    asyncio.run(uploads.receive(batch_id, 0, chunks()))
    assert threads
    assert threading.main_thread() not in threads
