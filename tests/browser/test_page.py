"""The page in a real browser, with a scripted service behind it: what people see and can do."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.app.scripted_service import LOADING, READY, AnswerOptions, ScriptedService
from tests.browser.scripted_site import ScriptedSite
from tests.browser.serving import served
from tests.browser.watched_site import DESKTOP, PHONE, answer, ask

ANSWER = "Paris is the capital of France and has been so for about a thousand years or more."
NUMBERS = "41 tokens/s · 2.9 tokens per step · 37 forwards · 62 % accepted"
SECONDS_PER_WORD = 0.03


@pytest.fixture
def site(browser: Browser, tmp_path: Path) -> Iterator[ScriptedSite]:
    """A server of its own for each test; afterwards every page must have been clean."""
    service = ScriptedService(ANSWER, SECONDS_PER_WORD)
    with (
        served(service, tmp_path) as address,
        ScriptedSite(browser, address, service) as site,
    ):
        yield site


def test_an_answer_streams_and_ends_with_its_numbers(site: ScriptedSite) -> None:
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "What is the capital of France?")
    expect(page.locator("#chatbot").get_by_text("Paris is the", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    site.service.may_go_on.set()
    expect(page.get_by_text(ANSWER).last).to_be_visible()
    expect(page.get_by_text(NUMBERS).last).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator("#message textarea")).to_have_value("")
    assert page.get_by_role("navigation", name="Chats").get_by_text("What is the capital").count()


def test_stop_ends_the_answer_and_keeps_what_was_said(site: ScriptedSite) -> None:
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "Where?")
    expect(page.get_by_text("Paris is the").last).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text(f"{NUMBERS} · stopped").last).to_be_visible()
    assert answer(page) == "Paris is the"
    site.service.may_go_on.set()
    ask(page, "Go on")
    expect(page.get_by_text(ANSWER).last).to_be_visible()


def test_a_reload_attaches_to_the_running_answer(site: ScriptedSite) -> None:
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "Where?")
    expect(page.get_by_text("Paris is the").last).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.get_by_text("Paris is the").last).to_be_visible()
    site.service.may_go_on.set()
    expect(page.get_by_text(ANSWER).last).to_be_visible()
    expect(page.get_by_text(NUMBERS).last).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert len(site.service.jobs) == 1


def test_closing_the_tab_loses_nothing(site: ScriptedSite) -> None:
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "Where?")
    page.close()
    site.service.may_go_on.set()
    (job,) = site.service.jobs
    assert job.wait_until_over(20).text == ANSWER
    page = site.open()
    page.get_by_role("button", name="Where?", exact=True).click()
    expect(page.get_by_text(ANSWER).last).to_be_visible()
    expect(page.get_by_text(NUMBERS).last).to_be_visible()


def test_moving_to_another_chat_leaves_the_answer_behind(site: ScriptedSite) -> None:
    site.service.ask(None, "Earlier", AnswerOptions()).wait_until_over(20)
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "Where?")
    expect(page.get_by_text("Paris is").last).to_be_visible()
    page.get_by_role("button", name="Earlier", exact=True).click()
    expect(page.locator("#chatbot .user.message").last).to_have_text("Earlier")
    site.service.may_go_on.set()
    site.service.jobs[-1].wait_until_over(20)
    expect(page.locator("#chatbot .user.message")).to_have_count(1)
    expect(page.locator("#chatbot .user.message")).to_have_text("Earlier")
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What would you like to know?")).to_be_visible()
    page.get_by_role("button", name="Where?", exact=True).click()
    expect(page.get_by_text(ANSWER).last).to_be_visible()


def test_coming_back_to_a_running_answer_goes_on_watching(site: ScriptedSite) -> None:
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "Where?")
    expect(page.get_by_text("Paris is").last).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What would you like to know?")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Where")).first.click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    site.service.may_go_on.set()
    expect(page.get_by_text(ANSWER).last).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_question_meanwhile_is_refused_and_not_lost(site: ScriptedSite) -> None:
    page = site.open()
    site.service.may_go_on.clear()
    ask(page, "Where?")
    page.locator("#message textarea").fill("And when?")
    page.locator("#message textarea").press("Enter")
    expect(page.get_by_text("still being answered")).to_be_visible()
    expect(page.locator("#message textarea")).to_have_value("And when?")
    site.service.may_go_on.set()
    expect(page.get_by_text(ANSWER).last).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_tabs_do_not_mix_their_chats(site: ScriptedSite) -> None:
    first, second = site.open(), site.open()
    ask(first, "First question")
    ask(second, "Second question")
    for page, text in ((first, "First question"), (second, "Second question")):
        expect(page.get_by_text(NUMBERS).last).to_be_visible()
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        expect(page.locator("#chatbot .user.message")).to_have_count(1)
        expect(page.locator("#chatbot .user.message")).to_have_text(text)
    assert [len(messages) for _, messages in site.service.chats.values()] == [2, 2]


def test_a_tab_keeps_one_event_stream(site: ScriptedSite) -> None:
    """Each time gradio closed it, what the tab sent in that moment was never answered."""
    site.service.ask(None, "Earlier", AnswerOptions()).wait_until_over(20)
    page = site.open()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_role("button", name="Earlier", exact=True).click()
    expect(page.get_by_text(NUMBERS)).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What would you like to know?")).to_be_visible()
    ask(page, "Where?")
    expect(page.get_by_text(NUMBERS)).to_be_visible()
    assert [url for url in requests if "/queue/join" in url]
    assert [url for url in requests if "/queue/data" in url] == []


def test_a_chat_is_deleted_after_a_second_look_only(site: ScriptedSite) -> None:
    for text in ("Keep me", "Delete me"):
        site.service.ask(None, text, AnswerOptions()).wait_until_over(20)
    page = site.open("?chat=2")
    remove = page.get_by_role("button", name="Delete the chat Delete me")
    remove.focus()
    remove.press("Enter")
    expect(page.get_by_role("button", name="Keep", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Delete me", exact=True)).to_be_visible()
    assert len(site.service.chats) == 2
    remove.click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("button", name="Delete me", exact=True)).to_have_count(0)
    expect(page.get_by_text("What would you like to know?")).to_be_visible()
    assert [chat.title for chat in site.service.conversations()] == ["Keep me"]


def test_the_page_is_up_while_the_model_loads_and_keeps_a_question(site: ScriptedSite) -> None:
    site.service.state = LOADING
    page = site.open()
    expect(page.get_by_text("The model is loading …")).to_be_visible()
    ask(page, "Where?")
    expect(page.get_by_text("Waiting for the model to load …")).to_be_visible()
    site.service.state = READY
    expect(page.get_by_text("smollm2-135m · strict mode")).to_be_visible()
    expect(page.get_by_text(ANSWER).last).to_be_visible()


def test_the_choices_below_the_message_reach_the_model(site: ScriptedSite) -> None:
    page = site.open()
    page.get_by_label("Lookahead").uncheck()
    page.get_by_label("Temperature").fill("0.7")
    page.get_by_label("Max tokens").fill("12")
    ask(page, "Where?")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    assert site.service.jobs[0].options == AnswerOptions(
        lookahead=False, temperature=0.7, max_new_tokens=12
    )


def test_the_sampling_folded_away_reaches_the_model(site: ScriptedSite) -> None:
    page = site.open()
    page.get_by_role("button", name="Sampling").first.click()
    fields = page.locator("#chat-sampling")
    expect(fields.get_by_label("Top-k")).to_be_visible()
    ask(page, "What is left empty is the model's own")
    assert site.service.jobs[0].options == AnswerOptions()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    values = {"Top-k": "40", "Top-p": "0.9", "Min-p": "0.05", "Repetition penalty": "1.1"}
    for label, value in {**values, "Seed": "7", "Stop at": "###\n\\nQ:"}.items():
        fields.get_by_label(label).fill(value)
    ask(page, "Where?")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    assert site.service.jobs[1].options == AnswerOptions(
        seed=7,
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.1,
        stop=("###", "\nQ:"),
    )


def test_copy_takes_the_answer_without_its_numbers(site: ScriptedSite) -> None:
    site.service.ask(None, "Where?", AnswerOptions()).wait_until_over(20)
    page = site.open("?chat=1")
    expect(page.get_by_text(NUMBERS)).to_be_visible()
    page.get_by_role("button", name="Copy message").locator("visible=true").click()
    expect(page.get_by_role("button", name="Copied message").locator("visible=true")).to_have_count(
        1
    )
    assert page.evaluate("navigator.clipboard.readText()") == ANSWER


def test_text_stays_text(site: ScriptedSite) -> None:
    """What people and the model write is not run, is no template, and reaches nobody outside."""
    text = (
        "EVAL ${6 * 7} {{6 * 7}} `List<String> x; a < b` <script>document.title='run'</script>"
        "<img src='http://attacker.example/leak' onerror=\"document.title='run'\">"
    )
    site.service.answer = text
    site.service.ask(None, text, AnswerOptions()).wait_until_over(20)
    page = site.open("?chat=1")
    expect(page.get_by_text(NUMBERS)).to_be_visible()
    expect(page.get_by_text("EVAL ${6 * 7} {{6 * 7}} List<String> x; a < b").first).to_be_visible()
    expect(page.locator("#chat-list .open")).to_have_text(text[:60])
    assert page.title() == "Lookahead Chat"
    assert site.complaints, "the image was not even tried"
    assert all("violates the following Content Security" in note for note in site.complaints)
    site.complaints.clear()


def test_a_question_is_shown_as_it_was_typed(site: ScriptedSite) -> None:
    """It went through Markdown, HTML, formulas and the folding of thoughts."""
    text = (
        "  two spaces, *stars*, __lines__ and {{7*7}}\n\n\n"
        "    - indented\n1. one\n# no heading\n<div>tag</div> <think>no</think> &amp; &lt;\n"
        "$$x^2$$ \\(y\\) \\[z\\] https://attacker.example `code`\n"
        "```\n  fence\n```\n| a | b |\n|---|---|"
    )
    texts = [text, "123. a (b) www.attacker.example a@attacker.example", "--- a", "2) b", "> c"]
    for number, earlier in enumerate(reversed(texts)):
        site.service.ask(1 if number else None, earlier, AnswerOptions()).wait_until_over(20)
    page = site.open("?chat=1")
    expect(page.get_by_text(NUMBERS).last).to_be_visible()
    questions = page.locator("#chatbot .user.message .prose")
    shown = [question.rstrip("\n") for question in questions.all_inner_texts()]
    assert shown == texts[::-1]
    assert questions.locator(":is(a, code, em, hr, .katex, table, li, h1, blockquote)").count() == 0
    question = questions.last
    question.locator("p").select_text()
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == text


def test_an_answer_cannot_cover_the_page_or_ask_for_anything(site: ScriptedSite) -> None:
    """A fixed position survived the sanitizer, and so did forms."""
    site.service.answer = (
        "<div style='position:fixed;inset:0;z-index:99999;background:red'>COVER</div>\n\n"
        "<form action='/v1'><input name='password'><button>Log in</button></form>\n\n"
        "<input name='loose'> and ```code```\n\n- [x] done\n\n```python\nprint()\n```"
    )
    site.service.ask(None, "Where?", AnswerOptions()).wait_until_over(20)
    page = site.open("?chat=1")
    expect(page.get_by_text(NUMBERS)).to_be_visible()
    expect(page.locator("#chatbot").get_by_text("COVER")).to_be_attached()
    made_up = page.locator("#chatbot .prose :is(form, textarea, input:not([type=checkbox]))")
    expect(made_up.locator("visible=true")).to_have_count(0)
    expect(page.locator("#chatbot input[type=checkbox]")).to_be_visible()  # of the list
    expect(page.locator("#chatbot .copy_code_button")).not_to_have_css("display", "none")
    page.get_by_role("button", name="New chat").click(timeout=5_000)
    expect(page.get_by_text("What would you like to know?")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everything_fits_and_can_be_read(
    site: ScriptedSite, size: ViewportSize, scheme: str
) -> None:
    site.service.ask(None, "Where is it, and since when?", AnswerOptions()).wait_until_over(20)
    page = site.open("?chat=1", size=size, scheme=scheme)
    expect(page.get_by_text(NUMBERS)).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size["width"]
    for place in ("#composer", "#options", "#message textarea", "#send", "#status-line"):
        box = page.locator(place).bounding_box()
        assert box is not None, place
        assert box["x"] >= 0, place
        assert box["x"] + box["width"] <= size["width"], place
        assert box["y"] + box["height"] <= size["height"], place
    for number in page.locator("#options input[type=number]").all():
        assert number.evaluate("e => e.scrollWidth <= e.clientWidth")
    for place in ("#send", "#status-line .text", "#chatbot .bot-row >> nth=1", "#new-chat"):
        assert page.locator(place).evaluate(CONTRAST) >= 4.5, place


def test_on_a_phone_the_status_takes_two_lines_at_most(site: ScriptedSite) -> None:
    site.service.state = replace(READY, background="Preparing drafts: 41.7 % and more words")
    text = site.open(size=PHONE).locator("#status-line .text")
    expect(text).to_contain_text("Preparing drafts")
    assert text.evaluate("e => e.clientHeight / parseFloat(getComputedStyle(e).lineHeight)") < 2.1


def test_on_a_phone_the_list_opens_over_the_chat_and_closes_again(site: ScriptedSite) -> None:
    site.service.ask(None, "Where?", AnswerOptions()).wait_until_over(20)
    page = site.open(size=PHONE)
    chat = page.get_by_role("button", name="Where?", exact=True)
    expect(chat).not_to_be_in_viewport()
    page.locator("#sidebar .toggle-button").click()
    expect(chat).to_be_in_viewport()
    chat.click()
    expect(chat).not_to_be_in_viewport()
    expect(page.get_by_text(NUMBERS)).to_be_in_viewport()


# Ratio of the element's text colour to the first opaque background behind it (WCAG 2).
CONTRAST = """element => {
  const leaf = element.querySelector('.md') ?? element;
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b]
    .map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = leaf;
  const fill = () => rgba(getComputedStyle(behind).backgroundColor);
  while (behind.parentElement && fill()[3] < 255) behind = behind.parentElement;
  const back = luminance(fill()[3] < 255 ? [255, 255, 255] : fill());
  const front = luminance(rgba(getComputedStyle(leaf).color));
  return (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
}"""
