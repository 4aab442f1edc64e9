"""Hostile text in the panel: inert and legible in the text, the tooltips and the details."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.app.scripted_engine import ScriptedModel
from tests.app.varied_engine import VariedEngine
from tests.browser.hostile_text import HOSTILE_NAME, HOSTILE_TEXT, expect_harmless
from tests.browser.panel_site import (
    PanelSite,
    cells,
    details,
    expect_selected,
    learn,
    running_panel_site,
)
from tests.browser.watched_site import DESKTOP, PHONE

SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])


@pytest.fixture(scope="module")
def hostile_site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PanelSite]:
    """A chat with a hostile question and a hostile answer, drafted from a hostile document."""
    folder = tmp_path_factory.mktemp("hostile")
    engine = VariedEngine(model=ScriptedModel(context_length=32_768))
    with running_panel_site(browser, folder / "data", engine) as site:
        learn(site, folder, HOSTILE_NAME)
        chat = site.answered(HOSTILE_TEXT, HOSTILE_TEXT[:300])
        site.answered("Short.", HOSTILE_TEXT[300:600], chat)
        yield site


@pytest.fixture
def page(hostile_site: PanelSite, size: ViewportSize) -> Iterator[Page]:
    """The hostile answer in the panel, which is open; afterwards all must be as it should."""
    chat = hostile_site.service.conversations()[0].id
    page = hostile_site.open(f"?chat={chat}", size=size)
    if size is PHONE:
        page.locator("#panel-toggle").click()
    page.get_by_role("button", name="Earlier answer").click()
    hostile_site.expect_whole(page, chat, back=1)
    yield page
    expect_harmless(page)
    body = page.locator("#panel .panel-body")
    assert body.evaluate("body => body.scrollWidth <= body.clientWidth")
    page.context.close()
    # the chat itself may not load the picture that its Markdown names
    left = [note for note in hostile_site.complaints if "Content Security Policy" not in note]
    hostile_site.complaints.clear()
    assert left == []


@SIZES
def test_in_the_text_it_is_whole_and_within_its_box(page: Page) -> None:
    box = page.locator("#panel .steps-box")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    widest = page.locator("#panel .steps span").evaluate_all(
        "spans => Math.max(...spans.map(span => span.getBoundingClientRect().right))"
    )
    edge = box.bounding_box()
    assert edge is not None
    assert widest <= edge["x"] + edge["width"]
    assert page.locator("#panel .steps :not(div, span, i)").count() == 0


@SIZES
def test_in_tooltips_and_details_it_is_named_as_it_is(
    page: Page, hostile_site: PanelSite, size: ViewportSize
) -> None:
    saved = hostile_site.saved(hostile_site.service.conversations()[0].id, back=1)
    step = next(s for s in saved.steps if s.accepted_length == 15)
    cell = cells(page).nth(step.index)
    cell.focus()
    page.keyboard.press("Enter")
    expect_selected(page, step.index)
    names = details(page).locator(".origins li[data-kind=document] .origin-head > :first-child")
    assert names.first.text_content() == HOSTILE_NAME.replace("\u202e", "")
    expect_harmless(page)
    details(page).get_by_role("button", name="Close the details").click()
    tip = page.get_by_role("tooltip")
    for at, other in enumerate(saved.steps):
        if other.index < 30 and "document" in other.draft.sources:
            cells(page).nth(at).hover()
            expect(tip).to_contain_text("onerror=document.title=1>${7*7}")
            box = tip.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size["width"]
            break


@SIZES
def test_a_long_word_of_one_step_is_within_its_details(page: Page, size: ViewportSize) -> None:
    last = cells(page).count() - 30  # in the middle of the long word
    cells(page).nth(last).click()
    expect_selected(page, last)
    tree = details(page).locator(".tree-box")
    expect(tree).to_be_visible()
    box = tree.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= size["width"]


@SIZES
def test_in_the_way_to_other_answers_it_takes_one_line(page: Page) -> None:
    label = page.locator("#panel .answers .label")
    assert (label.text_content() or "").startswith("Answer 1 of 2<script>document.title='run'")
    box = label.bounding_box()
    assert box is not None
    assert box["height"] < 40
    expect(page.locator("#panel .legend .count").first).to_be_visible()
