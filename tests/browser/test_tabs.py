"""Many tabs of one browser, which has six connections to one address for all of them."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Browser, Page, Request, Route, expect

from tests.app.scripted_service import ScriptedService
from tests.browser.scripted_site import ScriptedSite
from tests.browser.serving import served
from tests.browser.watched_site import PATIENCE, WatchedSite, ask

ANSWER = "Every tab is answered."
IS_HIDDEN = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });"
SET_HIDDEN = """hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService(ANSWER, 0.01)


@pytest.fixture
def site(browser: Browser, service: ScriptedService, tmp_path: Path) -> Iterator[WatchedSite]:
    with (
        served(service, tmp_path) as address,
        ScriptedSite(browser, address, service) as site,
    ):
        yield site


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
    tabs = [first, *(hidden_tab(site, first) for _ in range(6))]
    first.evaluate(SET_HIDDEN, True)
    last = site.open(beside=first)
    expect_an_answer(last, "Am I answered beside seven others?")
    last.evaluate(SET_HIDDEN, True)
    for page in tabs[:2]:
        page.evaluate(SET_HIDDEN, False)
        expect_an_answer(page, "And am I, once I am seen again?")


def test_a_stream_opened_for_an_event_that_has_ended_gives_its_connection_back(
    site: WatchedSite,
) -> None:
    """Gradio opens one where it learns late that an event was taken, and it stayed for good."""
    page = site.open()
    streams = Streams(page)
    page.evaluate(SET_HIDDEN, True)
    streams.wait_until_there_is_none()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/queue/join*", lambda route: late.append((route, route.fetch())), times=1)
    page.get_by_role("tab", name="Documents").click()
    streams.wait_until(lambda: bool(late))
    streams.wait_for_another(page.get_by_role("tab", name="Settings").click)  # it tells both ends
    route, response = late.pop()
    streams.wait_for_another(lambda: route.fulfill(response=response))


def test_tabs_opened_out_of_sight_all_at_once_leave_connections_to_each_other(
    site: WatchedSite,
) -> None:
    """Six held a stream each, and none could say any more that it was out of sight."""
    first = site.open()
    first.context.add_init_script(IS_HIDDEN)
    tabs = [first.context.new_page() for _ in range(6)]
    for tab in tabs:
        tab.route("**/run/**", lambda route: route.abort())  # leaving cannot be said
        tab.goto(site.address, wait_until="commit")
    for tab in tabs:
        expect(tab.locator("#status-line .text")).not_to_be_empty()
    expect_an_answer(first, "Am I answered beside all of them?")


def test_an_answer_written_out_of_sight_holds_no_connection_and_is_there_when_it_is_seen(
    site: WatchedSite, service: ScriptedService
) -> None:
    service.may_go_on.clear()
    page = site.open()
    streams = Streams(page)
    ask(page, "Am I answered out of sight?")
    shown = page.locator("#chatbot .bot-row").first
    expect(shown).to_have_text("Every tab is")
    page.evaluate(SET_HIDDEN, True)
    streams.wait_until_there_is_none()
    service.may_go_on.set()
    service.jobs[0].wait_until_over(PATIENCE / 1000)
    page.evaluate(SET_HIDDEN, False)
    expect(shown).to_have_text(ANSWER)
    expect(page.locator("#send")).to_be_visible()


class Streams:
    """The event streams of a page, which is loaded anew for this."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: set[Request] = set()
        self._num_opened = 0
        page.on("request", self._note)
        for ending in ("requestfinished", "requestfailed"):
            page.on(ending, self._forget)
        page.reload()
        expect(page.locator("#status-line .text")).not_to_be_empty()

    def _note(self, request: Request) -> None:
        if "/queue/data?" in request.url:
            self._open.add(request)
            self._num_opened += 1

    def _forget(self, request: Request) -> None:
        self._open.discard(request)

    def wait_for_another(self, act: Callable[[], None]) -> None:
        """Wait until the act has opened one, and none is open any more."""
        before = self._num_opened
        act()
        self.wait_until(lambda: self._num_opened > before)
        self.wait_until_there_is_none()

    def wait_until_there_is_none(self) -> None:
        self.wait_until(lambda: not self._open)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE / 1000
        while not is_so():
            assert time.monotonic() < deadline, f"{len(self._open)} streams are open"
            self._page.wait_for_timeout(20)


def hidden_tab(site: WatchedSite, first: Page) -> Page:
    page = site.open(beside=first)
    page.evaluate(SET_HIDDEN, True)
    return page
