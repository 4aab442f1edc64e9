"""The heatmap in a real browser: its cells, the ways by mouse and keyboard, files and table."""

import csv
import io
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from lookahead.config import DecodingConfig
from storage import StepRecord
from tests.app.varied_engine import VariedEngine
from tests.browser.panel_site import (
    PanelSite,
    cells,
    details,
    expect_selected,
    running_panel_site,
    selected,
    shown_text,
)
from tests.browser.watched_site import PHONE

TEXT = "The pump in 東京 is serviced in May and in October,\nand 👩‍👩‍👧 once by hand.\n" * 3
FORMULA = '=SUM(1, 2) and +1, "-1", @you; it is "quoted", too.\nA second line.'
MAX_LENGTH = DecodingConfig().max_draft_depth
COLUMNS = "step,accepted_length,match_length,width,rows,paused,milliseconds,draft_milliseconds"


@pytest.fixture(scope="module")
def chat(shared_panel_site: PanelSite) -> int:
    return shared_panel_site.answered(TEXT)


@pytest.fixture
def steps(panel_site: PanelSite, chat: int) -> tuple[StepRecord, ...]:
    return panel_site.saved(chat).steps


@pytest.fixture
def page(panel_site: PanelSite, chat: int) -> Page:
    return panel_site.show(chat)


def columns(page: Page) -> int:
    """Cells in a row."""
    return page.locator("#panel .heatmap [role=row]").first.locator("[role=gridcell]").count()


def focused_step(page: Page) -> int | None:
    """The step of the cell that has the focus."""
    found = page.evaluate(
        "document.activeElement.closest('#panel .heatmap [role=gridcell]')?.dataset.step"
    )
    return None if found is None else int(found)


def test_a_cell_for_each_step_in_order_with_its_accepted_length(
    page: Page, steps: tuple[StepRecord, ...]
) -> None:
    lengths = [step.accepted_length for step in steps]
    assert cells(page).all_text_contents() == [str(length) for length in lengths]
    assert cells(page).evaluate_all("found => found.map(cell => Number(cell.dataset.step))") == [
        step.index for step in steps
    ]
    colours = cells(page).evaluate_all(
        "found => found.map(cell => getComputedStyle(cell).backgroundColor)"
    )
    by_length = dict(zip(lengths, colours, strict=True))
    assert [by_length[length] for length in lengths] == colours, "one length, one colour"
    assert len(set(by_length.values())) == len(by_length)


def test_the_scale_is_the_same_while_the_answer_grows(panel_site: PanelSite) -> None:
    page = panel_site.show()
    gate = panel_site.engine.gate = threading.Semaphore(0)
    panel_site.engine.answer = TEXT
    page.locator("#message textarea").fill("How?")
    page.locator("#message textarea").press("Enter")
    gate.release(3)
    expect(cells(page)).to_have_count(3)
    colour = "cell => getComputedStyle(cell).backgroundColor"
    before = [cell.evaluate(colour) for cell in cells(page).all()]
    key = page.locator("#panel .scale-key").inner_text()
    gate.release(3)  # among them one of the longest
    expect(cells(page)).to_have_count(6)
    assert cells(page).nth(4).inner_text() == "15"
    assert [cell.evaluate(colour) for cell in cells(page).all()[:3]] == before
    assert page.locator("#panel .scale-key").inner_text() == key
    gate.release(1000)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_cell_leads_to_the_text_and_the_details_and_the_text_to_the_cell(page: Page) -> None:
    cells(page).nth(4).click()
    expect_selected(page, 4)
    expect(page.locator("#panel .steps [aria-current]")).to_be_in_viewport()
    page.locator('#panel .run[data-step="1"]').click()
    expect_selected(page, 1)
    page.locator('#panel .bonus[data-step="2"]').click()  # a step that accepted nothing
    expect_selected(page, 2)
    expect(details(page).locator(".outcome")).to_contain_text("Nothing was drafted")
    details(page).get_by_role("button", name="Later step").click()
    expect_selected(page, 3)
    details(page).get_by_role("button", name="Earlier step").click()
    expect_selected(page, 2)
    details(page).get_by_role("button", name="Close the details").click()
    expect(details(page)).to_be_hidden()
    assert selected(page) == ([], [])


def test_the_keyboard_alone_is_enough(page: Page, steps: tuple[StepRecord, ...]) -> None:
    page.locator("#panel-toggle").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if focused_step(page) is not None:
            break
    assert focused_step(page) == 0
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    for key, step in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("ArrowDown", 1 + columns(page)),
        ("ArrowUp", 1),
        ("End", len(steps) - 1),
        ("ArrowRight", len(steps) - 1),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("ArrowRight", 1),
    ):
        page.keyboard.press(key)
        assert focused_step(page) == step, key
        expect_selected(page, step)
    page.keyboard.press("Enter")
    expect(details(page)).to_be_focused()
    _escape(page)
    expect(details(page)).to_be_hidden()
    assert focused_step(page) == 1
    page.keyboard.press("Enter")
    expect(details(page)).to_be_focused()
    page.locator("#panel .steps-box").focus()
    page.keyboard.press("ArrowRight")
    expect_selected(page, 2)
    page.keyboard.press("ArrowLeft")
    expect_selected(page, 1)
    _escape(page)
    assert selected(page) == ([], [])


def test_the_details_keep_the_focus_while_the_steps_go_by(page: Page) -> None:
    cells(page).nth(3).focus()
    page.keyboard.press("Enter")
    later = details(page).get_by_role("button", name="Later step")
    expect(details(page)).to_be_focused()
    later.focus()
    page.keyboard.press("Enter")
    expect_selected(page, 4)
    expect(later).to_be_focused()
    page.keyboard.press("Enter")
    expect_selected(page, 5)


def test_the_other_views_count_the_recorded_steps(
    page: Page, steps: tuple[StepRecord, ...]
) -> None:
    lengths = [step.accepted_length for step in steps]
    page.get_by_role("radio", name="Steps").focus()
    page.keyboard.press("ArrowRight")
    reach = page.locator("#panel .reach")
    expect(reach).to_be_visible()
    expect(page.locator("#panel .heatmap")).to_be_hidden()
    shown = [int(value or 0) for value in reach.locator(".value").all_text_contents()]
    assert shown == [
        round(100 * sum(length > place for length in lengths) / len(lengths) + 1e-9)
        for place in range(MAX_LENGTH)
    ]
    page.keyboard.press("ArrowRight")
    histogram = page.locator("#panel .histogram")
    expect(histogram).to_be_visible()
    expect(reach).to_be_hidden()
    shown = [int(value or 0) for value in histogram.locator(".value").all_text_contents()]
    assert shown == [lengths.count(length) for length in range(MAX_LENGTH + 1)]
    assert sum(shown) == len(steps)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#panel .heatmap")).to_be_visible()


def test_the_table_for_screen_readers_holds_the_steps(
    page: Page, steps: tuple[StepRecord, ...]
) -> None:
    rows = page.locator("#panel table.steps-table tbody tr")
    expect(rows).to_have_count(len(steps))
    shown = rows.evaluate_all("rows => rows.map(row => [...row.cells].map(c => c.textContent))")
    assert [row[:4] for row in shown] == [
        [str(n) for n in (s.index + 1, s.accepted_length, s.match_length, s.width)] for s in steps
    ]
    first = len(TEXT) - sum(sum(step.text_lengths or ()) for step in steps)
    assert TEXT[:first] + "".join(row[5] for row in shown) == TEXT
    assert page.get_by_role("table", name="The decode steps of this answer").count() == 1


def test_the_picture_shows_the_steps(
    page: Page, steps: tuple[StepRecord, ...], tmp_path: Path
) -> None:
    with page.expect_download() as download:
        page.locator("#panel button.download-png").click()
    assert download.value.suggested_filename.endswith(".png")
    download.value.save_as(tmp_path / "heatmap.png")
    with Image.open(tmp_path / "heatmap.png") as picture:
        assert picture.format == "PNG"
        assert picture.width == 1920
        assert 500 < picture.height < 2000
        drawn = {colour for _, colour in picture.convert("RGB").getcolors(2**24) or []}
    fills = cells(page).evaluate_all(
        "found => found.map(cell => getComputedStyle(cell).backgroundColor)"
    )
    assert len(fills) == len(steps)
    assert {tuple(map(int, re.findall(r"\d+", fill))) for fill in fills} <= drawn


def test_the_csv_file_holds_the_steps_and_no_formula(panel_site: PanelSite, tmp_path: Path) -> None:
    chat = panel_site.answered(FORMULA)
    page = panel_site.show(chat)
    with page.expect_download() as download:
        page.locator("#panel button.download-csv").click()
    assert download.value.suggested_filename.endswith(".csv")
    path = tmp_path / "steps.csv"
    download.value.save_as(path)
    content = path.read_bytes().decode("utf-8")
    first, *rows = csv.DictReader(io.StringIO(content, newline=""))
    saved = panel_site.saved(chat)
    assert content.startswith(COLUMNS)
    assert first["step"] == "prefill"
    assert [
        [row["step"], row["accepted_length"], row["width"], row["rows"], row["tokens"]]
        for row in rows
    ] == [
        [str(n) for n in (s.index + 1, s.accepted_length, s.width, s.rows, len(s.token_ids))]
        for s in saved.steps
    ]
    texts = [row["text"] for row in (first, *rows)]
    assert texts[0] == "'=", "the answer begins like a formula"
    assert not any(text.startswith(("=", "+", "-", "@", "\t", "\n")) for text in texts)
    assert "".join(text.removeprefix("'") for text in texts) == FORMULA
    sources = [row["sources"].split() for row in rows]
    assert [len(found) for found in sources] == [len(step.token_ids) for step in saved.steps]


def test_on_a_phone_it_is_a_sheet_that_opens_selects_and_closes(
    panel_site: PanelSite, chat: int
) -> None:
    page = panel_site.open(f"?chat={chat}", size=PHONE)
    sheet = page.get_by_role("dialog", name="Behind the answer")
    expect(sheet).to_have_count(0)
    page.locator("#panel-toggle").click()
    expect(sheet).to_be_visible()
    panel_site.expect_whole(page, chat)
    page.wait_for_function(f"({MOTION})().length === 0")
    box = sheet.bounding_box()
    assert box is not None
    assert (box["x"], box["y"], box["width"]) == (0, 0, PHONE["width"])
    cells(page).nth(4).click()
    expect_selected(page, 4)
    expect(details(page).locator("h3")).to_be_in_viewport()
    for tree in details(page).locator(".tree-box").all():
        tree.evaluate("box => { box.scrollLeft = 1e6; }")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert sheet.evaluate("body => body.scrollWidth <= body.clientWidth")
    assert page.evaluate(SMALL_TARGETS) == []
    details(page).get_by_role("button", name="Close the details").click()
    expect(details(page)).to_be_hidden()
    page.get_by_role("button", name="Close the panel").click()
    expect(sheet).to_have_count(0)
    expect(page.locator("#message textarea")).to_be_in_viewport()
    page.locator("#panel-toggle").click()
    _escape(page)
    expect(sheet).to_have_count(0)
    page.context.close()


@pytest.mark.parametrize("is_calm", [True, False], ids=["calm", "moving"])
def test_who_prefers_no_motion_sees_none(panel_site: PanelSite, chat: int, is_calm: bool) -> None:
    page = panel_site.open(f"?chat={chat}", size=PHONE, is_calm=is_calm, script=RECORD_MOTION)
    page.locator("#panel-toggle").click()
    panel_site.expect_whole(page, chat)
    page.locator("#panel .panel-body").evaluate("body => { body.scrollTop = 1e6; }")
    page.locator('#panel .run[data-step="4"]').click()
    expect_selected(page, 4)
    moved = set(page.evaluate("window.moved"))
    assert moved == (set() if is_calm else {"panel-rise", "smooth"})
    page.context.close()


@pytest.fixture
def restarted(browser: Browser, tmp_path: Path) -> Iterator[tuple[PanelSite, int]]:
    """A server started again, whose model is not loaded yet; and a chat from before."""
    data_dir = tmp_path / "data"
    with running_panel_site(browser, data_dir, VariedEngine()) as site:
        chat = site.answered(TEXT)
    engine = VariedEngine(loading=threading.Event())
    assert engine.loading is not None
    with running_panel_site(browser, data_dir, engine, is_ready=False) as site:
        try:
            yield site, chat
        finally:
            engine.loading.set()


def test_after_a_restart_an_old_chat_shows_its_heatmap_before_the_model_is_there(
    restarted: tuple[PanelSite, int],
) -> None:
    site, chat = restarted
    page = site.show(chat)
    saved = site.saved(chat)
    assert not site.service.state.is_ready
    assert shown_text(page) == TEXT
    assert cells(page).all_text_contents() == [str(s.accepted_length) for s in saved.steps]
    cells(page).nth(4).click()
    expect_selected(page, 4)
    expect(details(page).locator(".node")).to_have_count(saved.steps[4].width + 1)
    assert not site.service.state.is_ready


def _escape(page: Page) -> None:
    """Escape closes one thing at a time, and a tooltip is one."""
    if page.get_by_role("tooltip").is_visible():
        page.keyboard.press("Escape")
        expect(page.get_by_role("tooltip")).to_be_hidden()
    page.keyboard.press("Escape")


# Buttons and cells smaller than 24 by 24 pixels, unless that much is free around their middle
# (WCAG 2.2, 2.5.8).
SMALL_TARGETS = """() => {
  const targets = [...document.querySelectorAll('#panel :is(button, a, label, [role=gridcell])')]
    .filter(target => target.checkVisibility() && target.getBoundingClientRect().width);
  const boxes = new Map(targets.map(target => [target, target.getBoundingClientRect()]));
  const isSmall = box => box.width < 24 || box.height < 24;
  const middle = box => [box.x + box.width / 2, box.y + box.height / 2];
  const isNear = (box, other) => {
    const [x, y] = middle(box);
    if (isSmall(other)) return Math.hypot(x - middle(other)[0], y - middle(other)[1]) < 24;
    const dx = Math.max(other.left - x, 0, x - other.right);
    const dy = Math.max(other.top - y, 0, y - other.bottom);
    return Math.hypot(dx, dy) < 12;
  };
  return targets
    .filter(target => isSmall(boxes.get(target)))
    .filter(target => targets.some(o => o !== target && isNear(boxes.get(target), boxes.get(o))))
    .map(target => `${target.className} ${target.textContent}`);
}"""

# What moves inside the panel.
MOTION = """() => document.getAnimations()
  .filter(animation => animation.effect.target?.closest('#panel'))
  .map(animation => animation.animationName ?? animation.transitionProperty)"""

# What begins to move inside the panel, and scrolling that takes time, in `moved`.
RECORD_MOTION = """
window.moved = [];
for (const name of ['animationstart', 'transitionrun']) {
  addEventListener(name, (event) => {
    if (event.target.closest('#panel')) moved.push(event.animationName ?? event.propertyName);
  }, true);
}
for (const name of ['scrollBy', 'scrollTo', 'scrollIntoView']) {
  const asIs = Element.prototype[name];
  Element.prototype[name] = function (...how) {
    if (how[0]?.behavior === 'smooth') moved.push('smooth');
    return asIs.apply(this, how);
  };
}"""
