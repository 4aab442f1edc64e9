"""The button "Demo" in a real browser, over the real chat service with a scripted engine."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.demo import CHATS, DOCUMENT
from tests.app.varied_engine import VariedEngine
from tests.browser.panel_site import CLOSED, PanelSite, cells, running_panel_site
from tests.browser.watched_site import PHONE

ANSWER = "Bees carry pollen from flower to flower, and fruit follows."
LAST = CHATS[-1]


@pytest.fixture
def site(browser: Browser, tmp_path: Path) -> Iterator[PanelSite]:
    """A site of its own for each test, whose engine goes on when the test lets it."""
    engine = VariedEngine(answer=ANSWER)
    with running_panel_site(browser, tmp_path / "data", engine) as site:
        yield site


def begin(site: PanelSite, page: Page) -> None:
    """Begin it, and wait until the tab follows."""
    gate = site.engine.gate = threading.Semaphore(0)
    page.get_by_role("button", name="Demo", exact=True).click()
    gate.release(2)
    expect(page.locator("#chat-list [aria-current]")).to_contain_text(CHATS[0].title)
    expect(page.locator("#chatbot .user.message")).to_have_text(CHATS[0].questions[0].text)
    expect(page.locator("#chatbot .bot.message").first).to_contain_text(ANSWER[:6])
    expect(page.get_by_role("button", name="Stop")).to_be_visible()


def let_go(site: PanelSite) -> None:
    gate = site.engine.gate
    assert gate is not None
    site.engine.gate = None
    gate.release(1000)


def expect_last_chat(site: PanelSite, page: Page) -> None:
    """Wait until the demo's last chat is shown, whole."""
    questions = page.locator("#chatbot .user.message")
    expect(page.locator("#chat-list [aria-current]")).to_have_text(LAST.title)
    expect(questions).to_have_count(len(LAST.questions))
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    shown = [" ".join(text.split()) for text in questions.all_inner_texts()]
    assert shown == [" ".join(question.text.split()) for question in LAST.questions]
    chat = int(page.url.rpartition("=")[2])
    assert [message.status for message in site.service.messages(chat)] == ["complete"] * 8
    assert site.service.running_demo() is None


def test_one_click_asks_all_questions_and_the_panel_is_there(site: PanelSite) -> None:
    page = site.open()
    page.get_by_role("tab", name="Documents").click()
    begin(site, page)
    expect(page.locator("#panel .panel-body")).to_be_visible()
    let_go(site)
    expect_last_chat(site, page)
    chat = int(page.url.rpartition("=")[2])
    site.expect_whole(page, chat)
    expect(page.locator("#panel .answers")).to_contain_text("Answer 4 of 4")
    page.get_by_role("tab", name="Documents").click()
    expect(page.get_by_role("cell", name=DOCUMENT.name, exact=True)).to_be_visible()
    titles = [conversation.title for conversation in site.service.conversations()]
    assert titles[::-1] == [chat.title for chat in CHATS]


def test_it_opens_the_panel_where_there_is_room_and_a_reload_follows_it(site: PanelSite) -> None:
    page = site.open(script=f"if (!localStorage.length) {CLOSED}")
    expect(page.locator("#panel .panel-body")).to_be_hidden()
    begin(site, page)
    expect(page.locator("#panel .panel-body")).to_be_visible()
    expect(cells(page)).to_have_count(2)
    page.reload()
    expect(cells(page)).to_have_count(2)
    let_go(site)
    expect_last_chat(site, page)


def test_stop_ends_it(site: PanelSite) -> None:
    page = site.open()
    begin(site, page)
    with page.expect_response(lambda response: "/run/" in response.url):
        page.get_by_role("button", name="Stop").click()
    let_go(site)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator("#chatbot .user.message")).to_have_count(1)
    assert site.service.running_demo() is None
    (conversation,) = site.service.conversations()
    assert conversation.title == CHATS[0].title


def test_a_second_one_takes_the_place_of_the_first(site: PanelSite) -> None:
    page = site.open()
    for _ in range(2):
        begin(site, page)
        let_go(site)
        expect_last_chat(site, page)
    assert len(site.service.conversations()) == len(CHATS)
    assert len(site.service.documents()) == 1


def test_on_a_phone_the_side_bar_makes_room_and_the_sheet_waits_for_the_first_answer(
    site: PanelSite,
) -> None:
    page = site.open(size=PHONE)
    page.locator("#sidebar .toggle-button").click()
    begin(site, page)
    expect(page.locator("#chatbot .user.message")).to_be_in_viewport()
    expect(page.get_by_role("button", name="New chat")).not_to_be_in_viewport()
    expect(page.locator("#panel .panel-body")).to_be_hidden()
    let_go(site)
    expect(page.get_by_role("dialog", name="Behind the answer")).to_be_visible()
    expect_last_chat(site, page)
    assert page.evaluate("localStorage.getItem('lookahead-chat-panel')") is None
