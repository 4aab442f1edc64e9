"""The Documents tab in a real browser: importing, uploading, updating, deleting."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from app.importing import SkippedFile
from app.services.import_requests import ImportRequest
from storage.records import Source
from tests.app.scripted_service import NOW, ScriptedService
from tests.browser.scripted_site import ScriptedSite
from tests.browser.serving import served
from tests.browser.watched_site import DESKTOP, PHONE

NO_KIND = "not a kind of file that is imported from folders"
HOSTILE = "<b>old</b>\u202e ${6*7} {{value}}.md"


class Site(ScriptedSite):
    """A running server with its scripted service."""

    def documents(self, size: ViewportSize = DESKTOP, scheme: str = "light") -> Page:
        """A page with the tab open."""
        page = self.open(size=size, scheme=scheme)
        page.get_by_role("tab", name="Documents").click()
        expect(page.get_by_role("button", name="Choose files")).to_be_visible()
        return page


@pytest.fixture
def site(browser: Browser, tmp_path: Path) -> Iterator[Site]:
    """A server of its own for each test; afterwards every page must have been clean."""
    service = ScriptedService()
    with (
        served(service, tmp_path / "data") as address,
        Site(browser, address, service) as site,
    ):
        yield site


def document(number: int, name: str, folder: str = "file:///notes/") -> Source:
    return Source(number, "document", None, name, f"{folder}{name}", "0", 10, 1, False, NOW)


def test_a_folder_is_imported_with_progress_cancel_and_reasons(site: Site, tmp_path: Path) -> None:
    page = site.documents()
    page.get_by_label("Folder or file on this machine").fill(str(tmp_path))
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Looking for files … 1 so far")).to_be_visible()
    job = site.service.import_job
    assert job is not None
    job.show(
        num_files_done=3, num_files_total=7, current="/x/<b>bold</b>.md", seconds_left=200.0,
        skipped=(("/x/photo.png", "is not text"),),
    )  # fmt: skip
    reading = "Reading 3 of 7 files · about 3 minutes left"
    expect(page.get_by_text(f"{reading}: b>.md")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Import")).to_have_attribute("value", "3")
    page.get_by_text("Skipped files (1)").click()
    expect(page.get_by_text("/x/photo.png is not text")).to_be_visible()
    page.reload()
    page.get_by_role("tab", name="Documents").click()
    expect(page.get_by_text(reading)).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    assert job.cancelled.wait(10)
    site.service.imports.request = ImportRequest((tmp_path,))
    job.show(status="cancelled", num_documents=2, num_tokens=40)
    expect(page.get_by_text("Cancelled. Taken in before that: 2 documents")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("Looking for files … 1 so far")).to_be_visible()
    assert site.service.import_job is not job
    assert site.service.imported_paths == [tmp_path]


def test_an_import_that_a_crash_ended_is_offered_and_can_be_dismissed(site: Site) -> None:
    site.service.imports.request = ImportRequest((Path("/home/me/notes"),))
    page = site.documents()
    expect(page.get_by_text("The import of notes was not finished.")).to_be_visible()
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("was not finished")).to_have_count(0)
    expect(page.get_by_role("button", name="Go on")).to_have_count(0)
    assert site.service.imports.request is None


def test_what_did_not_work_is_said_as_text(site: Site) -> None:
    page = site.documents()
    page.get_by_label("Folder or file on this machine").fill("/no/<b>such</b>")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("There is no folder or file /no/<b>such</b>.")).to_be_visible()


def test_chosen_files_are_uploaded_and_imported(site: Site, tmp_path: Path) -> None:
    note = tmp_path / "Über [uns] (1) #%2f.md"
    note.write_text("The pump is serviced in May.", encoding="utf-8")
    page = site.documents()
    page.locator("#upload-area input").first.set_input_files(note)
    expect(page.get_by_text("Looking for files")).to_be_visible()
    (uploaded,) = site.service.uploaded_paths
    assert uploaded.name == note.name
    assert uploaded.read_text(encoding="utf-8") == note.read_text(encoding="utf-8")
    assert uploaded.is_relative_to(tmp_path / "data" / "uploads")


def write_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    for name in ("a.md", "deep/a.md", "photo.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"words of {name}")
    return folder


def expect_folder_uploaded(site: Site, page: Page) -> None:
    expect(page.get_by_text("Looking for files … 2 so far")).to_be_visible()
    first, second = site.service.uploaded_paths
    assert (first.name, first.parent.name) == ("a.md", "notes")
    assert (second.name, second.parent.name) == ("a.md", "deep")
    assert second.read_text() == "words of deep/a.md"
    assert site.service.not_uploaded == [SkippedFile(Path("notes/photo.png"), NO_KIND)]


def test_a_chosen_folder_is_uploaded_with_what_lies_in_it(site: Site, tmp_path: Path) -> None:
    page = site.documents()
    page.locator("#upload-area input[webkitdirectory]").set_input_files(write_folder(tmp_path))
    expect_folder_uploaded(site, page)


def test_a_dropped_folder_is_uploaded_with_what_lies_in_it(site: Site, tmp_path: Path) -> None:
    page = site.documents()
    box = page.locator("#upload-area .area").bounding_box()
    assert box is not None
    dragging = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        dragging.send(
            "Input.dispatchDragEvent",
            {
                "type": kind,
                "x": box["x"] + 20,
                "y": box["y"] + 20,
                "data": {
                    "items": [],
                    "files": [str(write_folder(tmp_path))],
                    "dragOperationsMask": 1,
                },
            },
        )
    expect_folder_uploaded(site, page)


def test_an_upload_that_fails_says_why_and_imports_nothing(site: Site, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("words")
    page = site.documents()
    page.route("**/documents/uploads/*/0", lambda route: route.fulfill(
        status=400, json={"error": "note.md could not be written: <b>No space</b>."}
    ))  # fmt: skip
    page.locator("#upload-area input").first.set_input_files(note)
    said = "Nothing was imported: note.md could not be written: <b>No space</b>."
    expect(page.get_by_text(said)).to_be_visible()
    expect(page.get_by_role("button", name="Stop uploading")).to_have_count(0)
    assert site.service.import_job is None
    site.complaints = [said for said in site.complaints if "400 (Bad Request)" not in said]


def test_an_upload_can_be_stopped(site: Site, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("words")
    page = site.documents()
    page.route("**/documents/uploads/*/0", lambda _: None)  # never answered
    page.locator("#upload-area input").first.set_input_files(note)
    expect(page.get_by_text("Uploading 1 of 1: note.md")).to_be_visible()
    page.get_by_role("button", name="Stop uploading").click()
    expect(page.get_by_text("Nothing was imported: the upload was stopped.")).to_be_visible()
    assert site.service.import_job is None


def test_a_document_is_deleted_after_a_second_look_only(site: Site) -> None:
    site.service.sources = [document(1, "keep.md"), document(2, HOSTILE)]
    page = site.documents()
    remove = page.get_by_role("button", name="Delete the document <b>old</b>")
    remove.focus()
    remove.press("Enter")
    expect(page.get_by_role("button", name="Keep", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(remove).to_be_focused()
    assert len(site.service.sources) == 2
    remove.click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("cell", name="<b>old</b>")).to_have_count(0)
    expect(page.get_by_role("cell", name="keep.md", exact=True)).to_be_visible()
    assert [source.name for source in site.service.sources] == ["keep.md"]


def test_a_document_is_pinned_by_keyboard_and_by_mouse(site: Site) -> None:
    site.service.sources = [document(1, "a.md"), document(2, "b.md")]
    page = site.documents()
    pin = page.get_by_role("button", name="Pin a.md")
    expect(pin).to_have_attribute("aria-pressed", "false")
    expect(pin).to_have_text("Pin")
    pin.focus()
    pin.press("Enter")
    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(pin).to_have_text("Pinned")
    expect(pin).to_be_focused()
    assert [source.is_pinned for source in site.service.sources] == [True, False]
    page.reload()
    page.get_by_role("tab", name="Documents").click()
    expect(pin).to_have_attribute("aria-pressed", "true")
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "false")
    assert not site.service.sources[0].is_pinned


def test_what_an_import_replaced_is_offered_to_be_brought_back(site: Site, tmp_path: Path) -> None:
    site.service.sources = [document(1, "a.md")]
    page = site.documents()
    page.get_by_label("Folder or file on this machine").fill(str(tmp_path))
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Looking for files")).to_be_visible()
    site.service.delete_documents([1])
    job = site.service.import_job
    assert job is not None
    job.show(status="complete", num_dropped=1)
    expect(page.get_by_text("1 earlier version deleted, which can be undone.")).to_be_visible()
    page.locator("#undo-bar").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("cell", name="a.md", exact=True)).to_be_visible()


def test_a_folder_is_updated_and_deleted_as_a_whole(site: Site) -> None:
    site.service.imports.folder_uris = ["file:///notes"]
    site.service.sources = [document(1, "a.md"), document(2, "b.md"), document(3, "c", "upload:")]
    page = site.documents()
    expect(page.get_by_text("2 documents, 2 tokens")).to_be_visible()
    page.get_by_role("button", name="Update /notes").click()
    expect(page.get_by_text("Looking for files")).to_be_visible()
    assert site.service.imported_paths == [Path("/notes")]
    page.get_by_role("button", name="Delete all documents of /notes").click()
    assert len(site.service.sources) == 3
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("2 documents, 2 tokens")).to_have_count(0)
    assert [source.id for source in site.service.sources] == [3]


def test_many_documents_stand_closed_and_are_found_by_their_names(site: Site) -> None:
    site.service.imports.folder_uris = ["file:///notes"]
    site.service.sources = [
        *(document(number, f"chapter {number}.md") for number in range(100)),
        document(200, "letter.md", "upload:"),
    ]
    page = site.documents()
    chapter = page.get_by_role("cell", name="chapter 42.md", exact=True)
    expect(page.get_by_text("100 documents, 100 tokens")).to_be_visible()
    expect(chapter).to_have_count(0)
    page.get_by_label("Find").fill("TER 42")
    expect(chapter).to_be_visible()
    expect(page.locator("#document-list tbody tr:visible")).to_have_count(1)
    page.get_by_label("Find").fill("nothing like it")
    expect(page.get_by_text("No document has this in its name.")).to_be_visible()
    page.get_by_label("Find").fill("")
    expect(page.get_by_role("cell", name="letter.md", exact=True)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everything_fits(site: Site, size: ViewportSize, scheme: str) -> None:
    long_name = "a-name-without-any-place-to-break-it-" * 6
    site.service.imports.folder_uris = ["file:///notes", f"file:///{long_name}"]
    site.service.sources = [
        document(1, f"{long_name}.md"),
        document(2, HOSTILE),
        document(3, "b.md", f"file:///{long_name}/"),
    ]
    site.service.imports.request = ImportRequest((Path(f"/{long_name}"),))
    page = site.documents(size, scheme)
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size["width"]
    for found in page.locator("#documents-column button:visible").all():
        box = found.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= size["width"]
    overlaps = page.evaluate(
        """() => [...document.querySelectorAll('#document-list section')].some((section) => {
          const length = section.querySelector('.length').getBoundingClientRect();
          const actions = section.querySelector('.actions').getBoundingClientRect();
          return length.right > actions.left && length.left < actions.right
            && length.bottom > actions.top && length.top < actions.bottom;
        })"""
    )
    assert not overlaps
