"""One browser for the tests of a module, and one server of the panel."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.app.varied_engine import VariedEngine
from tests.browser.panel_site import PanelSite, learn, running_panel_site
from tests.browser.watched_site import PATIENCE


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shared_panel_site(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PanelSite]:
    folder = tmp_path_factory.mktemp("panel")
    with running_panel_site(browser, folder / "data", VariedEngine()) as site:
        learn(site, folder)
        yield site


@pytest.fixture
def panel_site(shared_panel_site: PanelSite) -> Iterator[PanelSite]:
    """The module's site; after each test its pages must have been clean."""
    yield shared_panel_site
    shared_panel_site.engine.gate = None
    complaints, shared_panel_site.complaints[:] = shared_panel_site.complaints[:], []
    assert complaints == []
