"""A page with a scripted service behind it, which its tests move. Used by the tests of the page."""

from playwright.sync_api import Browser

from tests.app.scripted_service import ScriptedService
from tests.browser.watched_site import WatchedSite


class ScriptedSite(WatchedSite):
    """A running server with its scripted service, which is closed with it."""

    def __init__(self, browser: Browser, address: str, service: ScriptedService) -> None:
        super().__init__(browser, address)
        self.service = service

    def close(self) -> None:
        self.service.close()
        super().close()
