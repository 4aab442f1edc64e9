"""What axe finds on the page: nothing serious, in light and in dark, wide and narrow."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from app.services.views import AnswerOptions
from storage.records import Source
from tests.app.scripted_service import NOW, ScriptedService
from tests.browser.comparisons import finish
from tests.browser.panel_site import cells, expect_selected
from tests.browser.serving import served
from tests.browser.watched_site import PHONE, WatchedSite

SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
ANSWER = "The pump in Kyōto is serviced in May and in October, and once by hand.\n" * 4


def findings(page: Page) -> list[str]:
    """What axe calls serious or critical."""
    page.wait_for_function("document.getAnimations().every(a => a.playState !== 'running')")
    found = Axe().run(page)
    assert found.response["passes"], "axe looked at nothing"
    return [
        f"{violation['id']}: {node['target']} {node['html'][:200]} {node['failureSummary'][:300]}"
        for violation in found.response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedSite]:
    """A chat with two answers, two documents, and a finished comparison."""
    service = ScriptedService(ANSWER, 1e-5, has_steps=True)
    for question in ("How is it serviced?", "And when?"):
        service.ask(1 if service.chats else None, question, AnswerOptions()).wait_until_over(20)
    service.sources = [
        Source(number, "document", None, name, f"file:///{name}", "0", 10, 1, False, NOW)
        for number, name in ((1, "1.md"), (2, "2.md"))
    ]
    finish(service.compare("When is it serviced?", AnswerOptions()))
    with served(service, tmp_path_factory.mktemp("accessible")) as address:
        site = WatchedSite(browser, address)
        try:
            yield site
        finally:
            site.close()


@SCHEMES
def test_nothing_serious_is_found_on_the_page_and_its_tabs(site: WatchedSite, scheme: str) -> None:
    page = site.open(scheme=scheme)
    expect(page.locator("#panel .empty")).to_be_visible()
    assert findings(page) == []
    page.get_by_role("button", name="How is it serviced?", exact=True).click()
    cells(page).nth(3).click()
    expect_selected(page, 3)
    assert findings(page) == []
    page.get_by_role("tab", name="Documents").click()
    expect(page.get_by_role("cell", name="1.md", exact=True)).to_be_visible()
    assert findings(page) == []
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#comparison .verdict")).to_be_visible()
    assert findings(page) == []
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_role("checkbox", name="prepare drafts")).to_be_checked()
    assert findings(page) == []
    page.context.close()


@SCHEMES
def test_nothing_serious_is_found_on_the_sheet_of_a_phone(site: WatchedSite, scheme: str) -> None:
    page = site.open("?chat=1", size=PHONE, scheme=scheme)
    page.locator("#panel-toggle").click()
    cells(page).nth(3).click()
    expect_selected(page, 3)
    assert findings(page) == []
    page.context.close()
