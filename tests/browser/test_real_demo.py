"""Demo and Compare as people use them: the command, the embedded model, a real browser."""

import re
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from app.demo import CHATS
from tests.browser.test_real_chat import MODEL_PATIENCE, app_running
from tests.browser.watched_site import PHONE, WatchedSite

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
]

HOSTILE = "Say <script>alert(1)</script> ${7*7} </div> twice."


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, embedded_model_path: object) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOKAHEAD_CHAT_DTYPE", "bfloat16")  # for which the demo was written
        with app_running(tmp_path_factory.mktemp("demo") / "data") as address:
            yield address


@pytest.fixture
def site(browser: Browser, address: str) -> Iterator[WatchedSite]:
    with WatchedSite(browser, address) as site:
        yield site


def run(page: Page, prompt: str, max_tokens: int) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.locator("#compare-prompt textarea").fill(prompt)
    page.get_by_label("Max tokens").last.fill(str(max_tokens))
    page.locator("#compare-run").click()
    expect(page.locator("#compare-stop")).to_be_visible()


def test_the_demo_begins_at_a_click_and_a_reload_follows_it_to_its_end(site: WatchedSite) -> None:
    page = site.open(size={"width": 1440, "height": 900})
    page.get_by_role("tab", name="Documents").click()
    page.locator("#demo").click()
    expect(page.locator("#chatbot .user.message").first).to_have_text(
        CHATS[0].questions[0].text, timeout=MODEL_PATIENCE
    )
    expect(page.locator("#panel-toggle")).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#chat-list [aria-current]")).to_have_text(CHATS[0].title)
    page.reload()
    expect(page.locator("#chat-list [aria-current]")).to_have_text(
        CHATS[1].title, timeout=MODEL_PATIENCE
    )
    questions = [question.text for question in CHATS[1].questions]
    asked = page.locator("#chatbot .user.message")
    expect(asked).to_have_count(len(questions), timeout=MODEL_PATIENCE)
    expect(page.locator("#send")).to_be_visible(timeout=MODEL_PATIENCE)
    assert [text.split() for text in asked.all_inner_texts()] == [q.split() for q in questions]
    expect(page.locator("#panel .steps")).to_contain_text("Honey")


def test_compare_says_identical_bit_for_bit_after_a_reload_too(site: WatchedSite) -> None:
    page = site.open()
    run(page, "Count from one to twelve in words.", 48)
    page.reload()
    page.get_by_role("tab", name="Compare").click()
    verdict = page.locator("#comparison .verdict")
    expect(verdict).to_have_text(
        re.compile(r"^Identical, bit for bit: \d+ tokens and the logits behind each\.$"),
        timeout=MODEL_PATIENCE,
    )
    plain, lookahead = page.locator("#comparison .text").all()
    assert plain.text_content() == lookahead.text_content() != ""
    expect(page.locator("#comparison .speed-up strong")).to_have_text(re.compile(r"^\d+\.\d\d×$"))
    expect(page.locator("#comparison tbody tr")).to_have_count(8)
    expect(page.locator("#compare-run")).to_be_visible()


def test_compare_stops_within_a_step_keeps_hostile_text_inert_and_fits_a_phone(
    site: WatchedSite,
) -> None:
    page = site.open(size=PHONE)
    run(page, HOSTILE, 400)
    expect(page.locator("#comparison .text").first).not_to_be_empty(timeout=MODEL_PATIENCE)
    page.locator("#compare-stop").click()
    expect(page.locator("#comparison .line")).to_have_text("Stopped.")
    expect(page.locator("#comparison .prompt")).to_have_text(HOSTILE)
    expect(page.locator("#comparison .verdict")).to_contain_text("As far as both had come")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    boxes = [arm.bounding_box() for arm in page.locator("#comparison section").all()]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"], "one above the other"
