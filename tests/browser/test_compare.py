"""The tab "Compare" in a real browser: both answers as they grow, the verdict, hostile text."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from app.services.jobs import CompareJob
from app.services.views import AnswerOptions
from tests.app.scripted_service import ScriptedService
from tests.browser.comparisons import LONG_ANSWER, finish, grow
from tests.browser.hostile_text import HOSTILE_TEXT, expect_harmless
from tests.browser.scripted_site import ScriptedSite
from tests.browser.serving import served
from tests.browser.watched_site import DESKTOP, PHONE

SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])


class CompareSite(ScriptedSite):
    """A running server with its scripted service; the test moves each comparison."""

    def run(self, page: Page, prompt: str) -> CompareJob:
        """Run on a prompt; the comparison waits for the test."""
        before = len(self.service.comparisons)
        page.get_by_role("tab", name="Compare").click()
        page.locator("#compare-prompt textarea").fill(prompt)
        page.locator("#compare-run").click()
        expect(page.locator("#compare-stop")).to_be_visible()
        (job,) = self.service.comparisons[before:]
        return job


@pytest.fixture(scope="module")
def shared_site(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CompareSite]:
    service = ScriptedService()
    with (
        served(service, tmp_path_factory.mktemp("compare")) as address,
        CompareSite(browser, address, service) as site,
    ):
        yield site


@pytest.fixture
def site(shared_site: CompareSite) -> Iterator[CompareSite]:
    """Nothing was compared yet; afterwards every page must have been clean."""
    shared_site.service.comparisons.clear()
    yield shared_site
    for job in shared_site.service.comparisons:
        job.show(status="stopped")
    shared_site.close()
    complaints, shared_site.complaints[:] = shared_site.complaints[:], []
    assert complaints == []


def texts(page: Page) -> list[str]:
    return page.locator("#comparison .text").evaluate_all("found => found.map(t => t.textContent)")


def verdict(page: Page) -> Locator:
    return page.locator("#comparison .verdict")


def test_both_answers_grow_side_by_side_until_the_verdict(site: CompareSite) -> None:
    page = site.open()
    job = site.run(page, "When is it serviced?")
    expect(page.locator("#comparison .prompt")).to_have_text("When is it serviced?")
    grow(job, LONG_ANSWER[:40])
    expect(page.locator("#comparison .text").last).to_have_text(LONG_ANSWER[:40])
    assert texts(page) == [LONG_ANSWER[:40]] * 2
    expect(verdict(page)).to_be_hidden()
    left, right = (arm.bounding_box() for arm in page.locator("#comparison section").all())
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"], "side by side"
    grow(job, LONG_ANSWER[:90])
    finish(job)
    expect(verdict(page)).to_have_text(
        "Identical, bit for bit: 214 tokens and the logits behind each."
    )
    assert texts(page) == [LONG_ANSWER] * 2
    expect(page.locator("#comparison .speed-up strong")).to_have_text("2.50×")
    expect(page.locator("#comparison .speed-up")).to_contain_text("8.00 s / 3.20 s")
    expect(page.locator("#comparison tbody tr")).to_have_count(8)
    page.keyboard.press("Tab")
    page.locator("#comparison tbody th button").first.focus()
    expect(page.get_by_role("tooltip")).to_contain_text("Tokens that decode steps emitted")
    expect(page.locator("#compare-run")).to_be_visible()


def test_the_choices_reach_the_model(site: CompareSite) -> None:
    page = site.open()
    page.get_by_role("tab", name="Compare").click()
    page.locator("#compare-options").get_by_label("Temperature").fill("0.7")
    page.locator("#compare-options").get_by_label("Max tokens").fill("12")
    page.locator("#compare-options").get_by_label("Seed").fill("5")
    job = site.run(page, "Where?")
    assert job.options == AnswerOptions(True, 0.7, 12, 5)


def test_a_reload_goes_on_with_what_runs_and_keeps_what_ended(site: CompareSite) -> None:
    page = site.open()
    job = site.run(page, "Where?")
    grow(job, LONG_ANSWER[:40])
    expect(page.locator("#comparison .text").last).to_have_text(LONG_ANSWER[:40])
    page.reload()
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#comparison .text").last).to_have_text(LONG_ANSWER[:40])
    expect(page.locator("#compare-stop")).to_be_visible()
    finish(job)
    expect(verdict(page)).to_contain_text("Identical, bit for bit")
    page.reload()
    page.get_by_role("tab", name="Compare").click()
    expect(verdict(page)).to_contain_text("Identical, bit for bit")
    assert texts(page) == [LONG_ANSWER] * 2


def test_stop_ends_it_and_another_prompt_begins_anew(site: CompareSite) -> None:
    page = site.open()
    job = site.run(page, "Where?")
    grow(job, "The pump")
    page.locator("#compare-stop").click()
    expect(page.locator("#comparison .line")).to_have_text("Stopped.")
    assert job.is_stopped
    job = site.run(page, "When?")
    grow(job, "In May")
    expect(page.locator("#comparison .text").first).to_have_text("In May")
    assert texts(page) == ["In May"] * 2


def test_one_that_fails_before_it_began_shows_why_and_nothing_empty(site: CompareSite) -> None:
    """Two empty columns, a table of dashes and "Plain began" stood under the reason."""
    page = site.open()
    site.run(page, "Where?").show(status="failed", error="It does not fit.")
    expect(page.locator("#comparison .line")).to_have_text("It does not fit.")
    for part in (".arms", "table", ".note", ".outcome"):
        expect(page.locator(f"#comparison {part}")).to_be_hidden()
    grow(site.run(page, "When?"), "In May")
    for part in (".arms", "table", ".note"):
        expect(page.locator(f"#comparison {part}")).to_be_visible()


def test_an_empty_prompt_is_refused_in_words(site: CompareSite) -> None:
    page = site.open()
    page.get_by_role("tab", name="Compare").click()
    page.locator("#compare-run").click()
    expect(page.get_by_text("The prompt is empty. Write something first.")).to_be_visible()
    assert site.service.comparisons == []


@SIZES
def test_hostile_text_is_whole_inert_and_within_its_column(
    site: CompareSite, size: ViewportSize
) -> None:
    page = site.open(size=size)
    job = site.run(page, HOSTILE_TEXT)
    grow(job, HOSTILE_TEXT[:500])
    expect(page.locator("#comparison .text span").first).to_be_attached()
    finish(job, HOSTILE_TEXT)
    expect(verdict(page)).to_be_visible()
    assert texts(page) == [HOSTILE_TEXT] * 2
    assert page.locator("#comparison .prompt").text_content() == HOSTILE_TEXT
    assert page.locator("#comparison .text :not(span)").count() == 0
    for box in page.locator("#comparison :is(.text, .prompt, table)").all():
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
        place = box.bounding_box()
        assert place is not None
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= size["width"]
    expect_harmless(page)
    page.reload()
    page.get_by_role("tab", name="Compare").click()
    expect(verdict(page)).to_be_visible()
    assert texts(page) == [HOSTILE_TEXT] * 2
