"""Deleting in a real browser: a bar says what is gone and brings it back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from storage.records import Source
from tests.app.scripted_service import NOW, ScriptedService
from tests.browser.scripted_site import ScriptedSite
from tests.browser.serving import served
from tests.browser.watched_site import PHONE, ask

HOSTILE = "<img src=x onerror=alert(1)>.txt"


@pytest.fixture
def site(browser: Browser, tmp_path: Path) -> Iterator[ScriptedSite]:
    service = ScriptedService("Paris.", 0.01)
    uri = f"file:///docs/{HOSTILE}"
    service.sources.append(Source(1, "document", None, HOSTILE, uri, "0", 10, 5, False, NOW))
    with (
        served(service, tmp_path) as address,
        ScriptedSite(browser, address, service) as site,
    ):
        yield site


def delete_chat(page: Page, title: str) -> None:
    page.get_by_role("button", name=f"Delete the chat {title}").click()
    page.get_by_role("button", name="Delete", exact=True).click()


def test_a_deleted_chat_comes_back_by_undo_and_is_open(site: ScriptedSite) -> None:
    page = site.open()
    bar = page.locator("#undo-bar .bar")
    expect(bar).to_be_hidden()
    ask(page, "Where is it?")
    expect(page.get_by_text("Paris.").last).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    delete_chat(page, "Where is it?")
    expect(bar.get_by_role("status")).to_have_text("Deleted the chat “Where is it?”.")
    expect(page.get_by_text("No chats yet.")).to_be_visible()
    bar.get_by_role("button", name="Undo").click()
    expect(bar).to_be_hidden()
    expect(page.locator("#chat-list .open[aria-current]")).to_have_text("Where is it?")
    expect(page.locator("#chatbot").get_by_text("Paris.")).to_be_visible()


def test_the_bar_is_there_after_a_reload_until_it_is_dismissed(site: ScriptedSite) -> None:
    site.service.delete_documents([1])
    page = site.open()
    bar = page.locator("#undo-bar .bar")
    expect(bar.get_by_role("status")).to_contain_text("Deleted “<img src=x onerror=alert(1)>.txt”.")
    assert page.locator("#undo-bar img").count() == 0
    bar.get_by_role("button", name="Dismiss").click()
    expect(bar).to_be_hidden()


def test_a_deleted_document_comes_back_in_its_list(site: ScriptedSite) -> None:
    page = site.open()
    page.get_by_role("tab", name="Documents").click()
    documents = page.locator("#document-list")
    expect(documents.get_by_text(HOSTILE)).to_be_visible()
    site.service.delete_documents([1])
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("tab", name="Documents").click()
    expect(documents.get_by_text(HOSTILE)).to_be_hidden()
    page.reload()
    page.get_by_role("tab", name="Documents").click()
    page.locator("#undo-bar").get_by_role("button", name="Undo").press("Enter")
    expect(documents.get_by_text(HOSTILE)).to_be_visible()


def test_on_a_phone_the_bar_fits_and_hides_when_the_time_is_over(site: ScriptedSite) -> None:
    page = site.open(size=PHONE)
    page.clock.install()
    site.service.delete_documents([1])
    page.reload()
    bar = page.locator("#undo-bar .bar")
    expect(bar).to_be_visible()
    box = bar.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    page.clock.run_for(301_000)
    expect(bar).to_be_hidden()
