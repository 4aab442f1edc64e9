"""Documents in a chat, on the page: the switch stays with its chat, passages with the answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from app.services import ChatService, ServiceConfig
from tests.app.asking import WAIT, wait_for
from tests.app.test_documents_in_chat import PassageEngine
from tests.browser.hostile_text import expect_harmless
from tests.browser.serving import served
from tests.browser.watched_site import DESKTOP, PHONE, WatchedSite, ask

TEXT = (
    "# Water $$x^2$$ <img src=x onerror=alert(1)>\n\n"
    "Bees drink from **shallow** water \\(a+b\\).\n\n"
    "    indented </blockquote></details><b>out</b> | a | b |\n"
)
QUESTION = "What do bees drink?"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ChatService]:
    """A service with one document."""
    engine = PassageEngine("Bees drink from shallow water.")
    service = ChatService(
        ServiceConfig(tmp_path / "data", tmp_path / "cache", model="s"), engine=engine
    )
    service.start()
    assert service.wait_until_ready(WAIT).is_ready
    document = tmp_path / "bees.md"
    document.write_text(TEXT, encoding="utf-8")
    assert service.import_paths([document]).wait_until_over(WAIT).num_documents == 1
    yield service
    service.close()


@pytest.fixture
def site(browser: Browser, service: ChatService, tmp_path: Path) -> Iterator[WatchedSite]:
    """Its page; afterwards every tab must have been clean."""
    with (
        served(service, tmp_path / "data") as address,
        WatchedSite(browser, address) as site,
    ):
        yield site


def switch(page: Page):  # type: ignore[no-untyped-def]
    return page.get_by_role("checkbox", name="Documents")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_passages_are_shown_under_the_answer_as_they_stand_in_the_document(
    site: WatchedSite, size: ViewportSize
) -> None:
    page = site.open(size=size)
    expect(switch(page)).not_to_be_checked()
    switch(page).check()
    ask(page, QUESTION)
    summary = page.locator("#chatbot details summary")
    expect(summary).to_have_text("Given 1 passage: bees.md")
    expect(page.locator("#chatbot blockquote")).to_be_hidden()
    summary.press("Enter")
    quote = page.locator("#chatbot blockquote")
    expect(quote).to_be_visible()
    assert quote.evaluate("quote => quote.textContent") == TEXT.strip()
    expect_harmless(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("#options").evaluate("row => row.scrollWidth <= row.clientWidth")


def test_the_switch_stays_with_its_chat(site: WatchedSite, service: ChatService) -> None:
    page = site.open()
    switch(page).check()
    ask(page, QUESTION)
    expect(page.locator("#chatbot details")).to_be_visible()
    expect(switch(page)).to_be_checked()
    page.get_by_role("button", name="New chat").click()
    expect(switch(page)).not_to_be_checked()
    ask(page, "And without?")
    expect(page.get_by_text("Bees drink from").last).to_be_visible()
    expect(page.locator("#chatbot details")).to_have_count(0)
    page.get_by_role("button", name=QUESTION, exact=True).click()
    expect(page.locator("#chatbot details")).to_be_visible()
    expect(switch(page)).to_be_checked()
    switch(page).uncheck()
    wait_for(lambda: not service.uses_documents(1))
    page.reload()
    expect(page.locator("#chatbot details")).to_be_visible()
    expect(switch(page)).not_to_be_checked()


def test_what_is_deleted_is_gone_from_the_chat_too_and_comes_back_with_undo(
    site: WatchedSite,
) -> None:
    page = site.open()
    switch(page).check()
    ask(page, QUESTION)
    expect(page.locator("#chatbot details")).to_be_attached()
    page.get_by_role("tab", name="Documents").click()
    page.get_by_role("button", name="Delete the document bees.md").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("tab", name="Chat").click()
    expect(page.locator("#chatbot details")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#chatbot details")).to_be_attached()
