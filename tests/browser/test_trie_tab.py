"""The Trie tab: a prefix is typed, its branches are walked by mouse and keyboard, and led back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from app.services import ChatService, ServiceConfig
from tests.app.asking import WAIT, answered
from tests.app.scripted_engine import ScriptedEngine
from tests.browser.hostile_text import HOSTILE_NAME, HOSTILE_TEXT, expect_harmless
from tests.browser.serving import served
from tests.browser.watched_site import DESKTOP, PHONE, WatchedSite

QUESTION = "What do they drink?"
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ChatService]:
    """A service with documents, one of them hostile, and a chat."""
    config = ServiceConfig(tmp_path / "data", tmp_path / "cache", model="s")
    service = ChatService(config, engine=ScriptedEngine("Bees drink wine."))
    service.start()
    assert service.wait_until_ready(WAIT).is_ready
    for name, text in (
        ("bees.md", "Bees drink water. Bees drink nectar."),
        (HOSTILE_NAME, f"zebra{HOSTILE_TEXT}"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        job = service.import_paths([tmp_path / name])
        assert job.wait_until_over(WAIT).num_documents == 1
    answered(service, QUESTION)
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


def opened(site: WatchedSite, size: ViewportSize = DESKTOP) -> Page:
    page = site.open(size=size)
    page.get_by_role("tab", name="Trie").click()
    expect(branches(page).first).to_be_visible()
    return page


def branches(page: Page) -> Locator:
    return page.locator("#trie tbody tr")


def typed(page: Page, text: str) -> None:
    page.get_by_label("Begin with").fill(text)


def tokens(page: Page) -> list[str]:
    return branches(page).locator("th").all_inner_texts()


def path(page: Page) -> str:
    return "".join(page.locator("#trie ol li").all_inner_texts())


@SIZES
def test_a_prefix_is_walked_token_by_token_and_back(site: WatchedSite, size: ViewportSize) -> None:
    page = opened(site, size)
    typed(page, "Bees drink")
    line = page.locator("#trie .line")
    expect(line).to_have_text("Found 3 times, followed by 1 different token.")
    assert path(page) == "Bees·drink"
    page.get_by_role("button", name="Go on with ·").click()
    expect(line).to_have_text("Found 3 times, followed by 2 different tokens.")
    assert tokens(page) == ["w", "n"]
    first = branches(page).first
    expect(first.locator(".count")).to_contain_text("2")
    expect(first.locator(".source").first).to_contain_text("bees.md")
    expect(first.locator(".source")).to_have_count(2)
    expect(first.locator(".after")).to_contain_text("ine.")  # codespell:ignore ine
    expect(page.locator("#trie tbody button").first).to_be_focused()
    page.keyboard.press("Enter")  # the branch that has the focus
    expect(line).to_have_text("Found 2 times, followed by 2 different tokens.")
    assert path(page) == "Bees·drink·w"
    page.get_by_role("button", name="Back to ·").click()
    expect(line).to_have_text("Found 3 times, followed by 2 different tokens.")
    assert path(page) == "Bees·drink·"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_what_does_not_occur_is_said_so(site: WatchedSite) -> None:
    page = opened(site)
    typed(page, "Wasps drink")
    expect(page.locator("#trie .line")).to_contain_text("this is its longest end that does")
    assert path(page) == "s·drink"
    typed(page, "字")
    expect(page.locator("#trie .line")).to_have_text("Nothing of this is in the Trie.")
    expect(branches(page)).to_have_count(0)
    typed(page, "")
    expect(page.locator("#trie .line")).to_contain_text("the most frequent first")


def test_the_numbers_are_those_of_now_and_tell_what_they_mean(
    site: WatchedSite, service: ChatService
) -> None:
    page = opened(site)
    tokens_now = service.trie.overview().statistics.num_tokens
    shown = page.locator("#trie dd").first
    expect(shown).to_have_text(f"{tokens_now:,}")
    page.locator("#trie dl").get_by_role("button", name="hit rate").focus()
    page.get_by_role("tab", name="Chat").click()
    service.delete_document(service.documents()[0].id)
    page.get_by_role("tab", name="Trie").click()
    expect(shown).not_to_have_text(f"{tokens_now:,}")
    page.locator("#trie dl").get_by_role("button", name="hit rate").hover()
    expect(page.locator("#trie-tooltip")).to_contain_text("drafted from the Trie")


def test_a_chat_that_a_branch_stands_in_is_opened(site: WatchedSite) -> None:
    page = opened(site)
    typed(page, "wine")
    page.locator("#trie .source").get_by_role("button", name=QUESTION).first.click()
    expect(page.locator("#chatbot .user.message")).to_have_text(QUESTION)
    expect(page.get_by_role("tab", name="Chat")).to_have_attribute("aria-selected", "true")


@SIZES
def test_hostile_text_is_inert_and_in_its_place(site: WatchedSite, size: ViewportSize) -> None:
    page = opened(site, size)
    typed(page, "zebra")
    expect(branches(page)).to_have_count(1)
    for _ in range(40):
        line = page.locator("#trie ol li").count()
        page.locator("#trie tbody button.token").first.click()
        expect(page.locator("#trie ol li")).to_have_count(min(line + 1, 32))
        if line >= 31:
            break
    expect_harmless(page)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_before_the_trie_is_open_the_tab_says_so(browser: Browser, tmp_path: Path) -> None:
    config = ServiceConfig(tmp_path / "data", tmp_path / "cache", model="s")
    service = ChatService(config, engine=ScriptedEngine())
    try:
        with served(service, tmp_path / "data") as address:
            site = WatchedSite(browser, address)
            page = site.open()
            page.get_by_role("tab", name="Trie").click()
            expect(page.locator("#trie .note")).to_contain_text("opens with the model")
            expect(page.get_by_label("Begin with")).to_be_hidden()
            site.close()
    finally:
        service.close()
