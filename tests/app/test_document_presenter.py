"""What the Documents tab says: imports in a line, documents by folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from app import document_presenter
from app.document_folders import document_folders
from app.numbers import time_left
from app.services.import_requests import ImportRequest
from app.services.views import ImportSnapshot
from storage.records import Source
from tests.app.scripted_service import NOW


def document(uri: str, name: str = "a.md") -> Source:
    return Source(1, "document", None, name, uri, "0", 10, 1, False, NOW)


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ("waiting", "Waiting until the model is ready …"),
        ("running", "Reading 3 of 10 files: b.md"),
        ("complete", "Imported: 2 documents, 1,200 tokens; 4 unchanged; 1 skipped."),
        (
            "cancelled",
            "Cancelled. Taken in before that: 2 documents, 1,200 tokens; 4 unchanged; 1 skipped.",
        ),
        (
            "failed",
            "The import failed: Disk full. Taken in before that: 2 documents, 1,200 tokens.",
        ),
    ],
)
def test_the_import_report_says_what_was_taken_in(status: Any, line: str) -> None:
    skipped = (("/x/a.png", "not text"),)
    snapshot = ImportSnapshot(
        5, status, 3, 10, 2, 1200, skipped, "/x/b.md", "Disk full.", num_unchanged=4
    )
    report = document_presenter.import_report(snapshot)
    assert report["text"] == line
    assert report["skipped"] == [{"name": "/x/a.png", "reason": "not text"}]


def test_a_running_import_says_how_long_it_will_take() -> None:
    snapshot = ImportSnapshot(1, "running", num_files_total=200)
    line = document_presenter.import_report(snapshot)["text"]
    assert line == "Looking for files … 200 so far"
    snapshot = ImportSnapshot(1, "running", 3, 10, current="/x/b.md", seconds_left=125.0)
    report = document_presenter.import_report(snapshot)
    assert report["text"] == "Reading 3 of 10 files · about 2 minutes left: b.md"
    assert (report["done"], report["total"], report["state"]) == (3, 10, "running")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (3, "a few seconds left"),
        (24, "about 20 seconds left"),
        (70, "about a minute left"),
        (200, "about 3 minutes left"),
        (5500, "about 2 hours left"),
    ],
)
def test_time_is_told_in_steps_that_do_not_flicker(seconds: float, told: str) -> None:
    assert time_left(seconds) == told


def test_many_skipped_files_are_cut_and_counted_and_the_rare_reasons_come_first() -> None:
    skipped = (*((f"{number}.png", "not text") for number in range(1000)), ("a.pdf", "damaged"))
    report = document_presenter.import_report(ImportSnapshot(1, "complete", skipped=skipped))
    assert report["skipped"][0] == {"name": "a.pdf", "reason": "damaged"}
    assert len(report["skipped"]) + report["more_skipped"] == 1001
    assert report["more_skipped"] > 0
    assert report["reasons"] == ["1,000 files: not text", "1 file: damaged"]


def test_a_name_that_is_not_utf8_can_be_sent_to_the_page() -> None:
    """One such name in a report ended the event stream of every tab."""
    name = "note\udce9.png"
    skipped = ImportSnapshot(1, "complete", skipped=((f"/x/{name}", f"the same as {name}"),))
    folders = document_folders([document(f"upload:{name}/x", name)], [])
    for shown in (
        document_presenter.import_report(skipped),
        document_presenter.import_report(ImportSnapshot(1, "running", 1, current=name)),
        document_presenter.import_report(ImportSnapshot(1, "failed", error=name)),
        document_presenter.import_report(None, ImportRequest((Path(name),))),
        {
            "folders": [
                folder["name"] for folder in document_presenter.document_list(folders)["folders"]
            ]
        },
    ):
        written = json.dumps(shown, ensure_ascii=False)
        assert "note" in written
        written.encode()


def test_names_turn_round_nothing_of_the_page() -> None:
    name = "a\u202etxt.exe\u202c \u2066b\u2069 \u05e9"
    folders = document_folders([document(f"upload:{name}/x", name)], [])
    (folder,) = document_presenter.document_list(folders)["folders"]
    assert folder["documents"][0]["name"] == "atxt.exe b \u05e9"
    assert folder["name"] == "atxt.exe b \u05e9 (uploaded)"
    snapshot = ImportSnapshot(1, "complete", skipped=((name, f"the same content as {name}"),))
    (skipped,) = document_presenter.import_report(snapshot)["skipped"]
    assert skipped["name"] == "atxt.exe b \u05e9"


def test_documents_stand_by_the_folder_that_they_were_imported_from() -> None:
    uris = ["file:///a", "file:///a/deep", "file:///b%20c"]
    sources = [
        document("file:///a/x.md", "x.md"),
        document("file:///a/deep/y.md", "y.md"),
        document("file:///ab/z.md", "z.md"),
        document("file:///b%20c/one.md", "one.md"),
        document("upload:notes/u.md", "notes/u.md"),
        document("upload:v.md", "v.md"),
        document("file:///a/b.md", "b.md"),
    ]
    shown = document_presenter.document_list(document_folders(sources, uris))["folders"]
    assert [
        (folder["key"], folder["name"], [source["name"] for source in folder["documents"]])
        for folder in shown
    ] == [
        ("file:///a", "/a", ["b.md", "x.md"]),
        ("file:///a/deep", "/a/deep", ["y.md"]),
        ("file:///b%20c", "/b c", ["one.md"]),
        ("upload:", "Uploaded files", ["v.md"]),
        ("upload:notes/", "notes (uploaded)", ["notes/u.md"]),
        ("", "Single files", ["z.md"]),
    ]
    assert shown[0]["length"] == "2 documents, 2 tokens"
    assert shown[0]["documents"][0] == {
        "id": 1, "name": "b.md", "uri": "file:///a/b.md", "length": "1 token", "is_pinned": False
    }  # fmt: skip
    assert [folder["can_update"] for folder in shown] == [True, True, True, False, False, True]


def test_of_very_many_documents_the_first_are_shown_and_the_others_counted() -> None:
    sources = [document(f"file:///{number}") for number in range(3_000)]
    (folder,) = document_presenter.document_list(document_folders(sources, []))["folders"]
    assert len(folder["documents"]) + folder["more"] == 3_000
    assert folder["length"] == "3,000 documents, 3,000 tokens"
