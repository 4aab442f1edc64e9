"""Many tabs of one browser, which has six connections to one address for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.app.scripted_service import ScriptedService
from tests.browser.serving import served
from tests.browser.watched_site import WatchedSite, ask

ANSWER = "Every tab is answered."
SET_HIDDEN = """hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@pytest.fixture
def site(browser: Browser, tmp_path: Path) -> Iterator[WatchedSite]:
    service = ScriptedService(ANSWER, 0.01)
    with served(service, tmp_path) as address:
        site = WatchedSite(browser, address)
        try:
            yield site
        finally:
            service.close()
            site.close()
    assert site.complaints == []


def expect_an_answer(page: Page, question: str) -> None:
    ask(page, question)
    expect(page.locator("#chatbot .bot-row").first).to_have_text(ANSWER)
    expect(page.locator("#send")).to_be_visible()


def test_three_tabs_in_sight_are_all_answered(site: WatchedSite) -> None:
    """Each held two streams for good, so the third was never answered and a fourth never opened."""
    first = site.open()
    for page in (first, site.open(beside=first), site.open(beside=first), site.open(beside=first)):
        expect_an_answer(page, "Am I answered?")


def test_tabs_out_of_sight_leave_the_connections_to_the_others(site: WatchedSite) -> None:
    first = site.open()
    tabs = [first, *(hidden_tab(site, first) for _ in range(8))]
    first.evaluate(SET_HIDDEN, True)
    last = site.open(beside=first)
    expect_an_answer(last, "Am I answered beside nine others?")
    last.evaluate(SET_HIDDEN, True)
    for page in tabs[:2]:
        page.evaluate(SET_HIDDEN, False)
        expect_an_answer(page, "And am I, once I am seen again?")


def hidden_tab(site: WatchedSite, first: Page) -> Page:
    page = site.open(beside=first)
    page.evaluate(SET_HIDDEN, True)
    return page
