"""The panel beside the chat, in a real browser: the answer in its steps, and where they came from.

Expected is what the service has saved.
"""

import re
import threading
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from app.numbers import PANEL_NUMBERS
from app.panel_log import look_of
from app.services import AnswerSnapshot
from storage import Database
from tests.app.asking import WAIT
from tests.browser.panel_site import (
    CLOSED,
    DOCUMENT,
    EARLIER_QUESTION,
    PanelSite,
    cells,
    details,
    expect_selected,
    recorded_pieces,
    selected,
    shown_pieces,
    shown_text,
)
from tests.browser.watched_site import ask

TEXT = (
    "The pump in 東京 is serviced in May\tand in October: \n\n"
    "- once by hand 👩‍👩‍👧 e\u0301\n    - twice  never\n\nThat is all there is to say of it. "
)
LOOKS = ("chat", "history", "document", "recycled", "model")
JOINED = str.maketrans("", "", "👩👧\u200de\u0301")


@pytest.fixture(scope="module")
def chat(shared_panel_site: PanelSite) -> int:
    """A chat with one answer, of more than enough steps."""
    return shared_panel_site.answered(TEXT * 3, "How is it <b>serviced</b>?")


def test_its_text_is_the_answer_and_so_is_what_is_copied_of_it(
    panel_site: PanelSite, chat: int
) -> None:
    page = panel_site.show(chat)
    text = page.locator("#panel .steps")
    assert shown_text(page) == TEXT * 3
    text.evaluate("steps => getSelection().selectAllChildren(steps)")
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == TEXT * 3
    glyphs = text.locator("i").evaluate_all(
        "found => [...new Set(found.map(i => getComputedStyle(i, '::before').content))].sort()"
    )
    assert [glyph[:3] for glyph in glyphs] == ['"·"', '"→"', '"↵"']


def test_chips_are_the_accepted_runs_of_the_recorded_steps(
    panel_site: PanelSite, chat: int
) -> None:
    page = panel_site.show(chat)
    saved = panel_site.saved(chat)
    recorded = recorded_pieces(saved)
    assert len(recorded) > 30
    assert max(len(pieces) for pieces in recorded.values()) > 2, "one run of several sources"
    assert without_joined(shown_pieces(page)) == without_joined(recorded)
    own = page.locator("#panel .steps .bonus").all_text_contents()
    num_own = sum(len(step.token_ids) - step.accepted_length for step in saved.steps)
    assert len(own) == 1 + num_own
    assert page.locator("#panel .run .bonus, #panel .bonus [data-source]").count() == 0


def without_joined(runs: dict[int, list[list[str]]]) -> dict[int, list[list[str]]]:
    """Without what the panel draws whole where its last token stands: 👩‍👩‍👧 and é."""
    pieces = {
        step: [[look, text.translate(JOINED)] for look, text in run] for step, run in runs.items()
    }
    return {step: [piece for piece in run if piece[1]] for step, run in pieces.items()}


def test_the_frame_of_a_selected_run_cuts_into_no_neighbour(
    panel_site: PanelSite, chat: int
) -> None:
    page = panel_site.show(chat)
    cells(page).nth(1).click()
    expect_selected(page, 1)
    beyond = page.locator("#panel .steps [aria-current]").evaluate(
        "run => parseFloat(getComputedStyle(run).outlineOffset)"
        " + parseFloat(getComputedStyle(run).outlineWidth)"
    )
    assert beyond <= 1


def test_the_five_looks_differ_in_tint_and_in_line(panel_site: PanelSite, chat: int) -> None:
    page = panel_site.show(chat)
    looks = page.locator("#panel .legend .sample").evaluate_all(
        """samples => samples.map(sample => {
          const style = getComputedStyle(sample);
          return [style.backgroundColor, style.textDecorationLine, style.textDecorationStyle];
        })"""
    )
    assert len({tint for tint, *_ in looks}) == 5
    assert len({tuple(line) for _, *line in looks}) == 5, looks


def test_legend_counts_are_the_database_s(panel_site: PanelSite, chat: int) -> None:
    page = panel_site.show(chat)
    saved = panel_site.saved(chat)
    with Database(panel_site.data_dir) as database:
        generation = database.generations.for_message(saved.message_id)
        assert generation is not None
        counted = dict.fromkeys(LOOKS, 0)
        for source, count in generation.accepted_by_source.items():
            counted[look_of(source)] += count
        counted["model"] = generation.num_tokens - sum(counted.values())
    assert min(counted.values()) > 0
    for look, count in counted.items():
        expect(page.locator(f'#panel .legend [data-source="{look}"] .count')).to_have_text(
            str(count)
        )


def test_an_entry_of_the_legend_leaves_the_tint_to_its_own_source(
    panel_site: PanelSite, chat: int
) -> None:
    page = panel_site.show(chat)
    entry = page.locator('#panel .legend li[data-source="document"] button')
    pieces = page.locator("#panel .run [data-source]")
    tinted = """found => [...new Set(found.filter(
      piece => getComputedStyle(piece).backgroundColor !== 'rgba(0, 0, 0, 0)'
    ).map(piece => piece.dataset.source))].sort()"""
    assert pieces.evaluate_all(tinted) == sorted(set(LOOKS) - {"model"})
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "true")
    assert pieces.evaluate_all(tinted) == ["document"]
    entry.click()
    assert pieces.evaluate_all(tinted) == sorted(set(LOOKS) - {"model"})


def test_numbers_are_told_with_their_definitions(panel_site: PanelSite, chat: int) -> None:
    page = panel_site.show(chat)
    numbers = panel_site.saved(chat).numbers
    assert numbers is not None
    names = page.locator("#panel .figures dt").all_text_contents()
    assert len(names) == len(PANEL_NUMBERS)
    shown = dict(zip(names, page.locator("#panel .figures dd").all_text_contents(), strict=True))
    assert shown["tokens per step"] == f"{numbers.tokens_per_step:.2f}"
    assert shown["forwards"] == str(numbers.num_forwards)
    expect(page.locator("#panel .summary")).to_have_text(
        f"{numbers.num_steps_saved} fewer forward passes than one a token"
    )
    tip = page.get_by_role("tooltip")
    told = set()
    for term in page.locator("#panel .figures dt button").all():
        term.hover()
        expect(tip).to_be_visible()
        told.add(tip.inner_text())
    assert len(told) == len(PANEL_NUMBERS)
    assert all(sentence.endswith(".") for sentence in told)


def test_details_are_those_of_the_step_and_rejected_drafts_are_nowhere_else(
    panel_site: PanelSite, chat: int
) -> None:
    page = panel_site.show(chat)
    saved = panel_site.saved(chat)
    step = next(step for step in saved.steps if step.accepted_length == 15)
    assert page.locator("#panel .node").count() == 0
    cells(page).nth(step.index).click()
    expect_selected(page, step.index)
    told = panel_site.service.step_details(saved.message_id, step.index)
    nodes = details(page).locator(".node")
    expect(nodes).to_have_count(step.width + 1)  # the model's own token, too
    expect(details(page).locator(".node.accepted")).to_have_count(1 + 15 + 1)
    expect(details(page).locator("h4").first).to_have_text("Draft tree · 2 rejected")
    texts = details(page).locator(".node .text").all_text_contents()
    assert sorted(texts) == sorted([*(node.text for node in told.nodes), told.bonus_text])
    excerpts = details(page).locator(".origins li")
    expect(excerpts).to_have_count(len(told.passages))
    kinds = {origin.kind for origin in told.passages}
    assert kinds == {"document", "chat"}
    for item, origin in zip(excerpts.all(), told.passages, strict=True):
        expect(item.locator("mark")).to_have_text(origin.run, use_inner_text=False)
        excerpt = origin.before.lstrip() + origin.run + origin.after.rstrip()
        assert item.locator(".excerpt").text_content() == excerpt
        name = DOCUMENT if origin.kind == "document" else EARLIER_QUESTION
        expect(item.locator(".origin-head > :first-child")).to_have_text(name)


def test_the_chat_a_draft_came_from_is_one_click_away(panel_site: PanelSite, chat: int) -> None:
    page = panel_site.show(chat)
    step = next(s for s in panel_site.saved(chat).steps if "history" in _sources(s))
    cells(page).nth(step.index).click()
    details(page).get_by_role("link", name=EARLIER_QUESTION).click()
    expect(page.locator("#chatbot .user.message")).to_have_text(EARLIER_QUESTION)
    earlier = int(page.url.rpartition("=")[2])
    panel_site.expect_whole(page, earlier)


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_the_tooltip_of_a_step_names_document_and_place(
    panel_site: PanelSite, chat: int, by: str
) -> None:
    page = panel_site.show(chat)
    saved = panel_site.saved(chat)
    step = next(s for s in saved.steps if _sources(s) == {"document"} and s.index)
    sequence_id, offset = step.draft.origins[step.accepted_nodes[0]]  # type: ignore[misc]
    label = panel_site.service.origin_labels([sequence_id])[sequence_id]
    tip = page.get_by_role("tooltip")
    cell = cells(page).nth(step.index)
    expect(tip).to_be_hidden()
    if by == "mouse":
        cell.hover()
    else:
        cells(page).nth(step.index - 1).focus()
        page.keyboard.press("ArrowRight")
        expect(cell).to_have_attribute("aria-describedby", "panel-tooltip")
    expect(tip).to_contain_text(f"Step {step.index + 1} · {step.accepted_length} of")
    expect(tip).to_contain_text("Match length 2")
    expect(tip).to_contain_text("Probability 90 %")
    expect(tip).to_contain_text(f"Documents · {label}, token {offset + 1}")
    assert label == DOCUMENT
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_a_reload_goes_on_with_the_running_answer(panel_site: PanelSite) -> None:
    page = panel_site.show()
    gate = panel_site.engine.gate = threading.Semaphore(0)
    panel_site.engine.answer = TEXT
    ask(page, "How is it serviced?")
    gate.release(4)
    expect(cells(page)).to_have_count(4)
    expect(page.locator("#panel .panel-status")).to_have_text("Decoding …")
    assert TEXT.startswith(shown_text(page))
    page.reload()
    expect(cells(page)).to_have_count(4)
    gate.release(3)
    expect(cells(page)).to_have_count(7)
    gate.release(1000)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    panel_site.expect_whole(page, int(page.url.rpartition("=")[2]))
    expect(page.locator("#panel .panel-status")).to_have_text("")


def test_what_was_shown_stays_in_place_while_the_answer_grows(panel_site: PanelSite) -> None:
    """Only what is new is added; what somebody selected stays selected."""
    page = panel_site.show()
    gate = panel_site.engine.gate = threading.Semaphore(0)
    panel_site.engine.answer = TEXT
    ask(page, "How is it serviced?")
    gate.release(4)
    expect(cells(page)).to_have_count(4)
    page.evaluate("window.kept = document.querySelector('#panel .run')")
    cells(page).nth(1).click()
    expect_selected(page, 1)
    gate.release(3)
    expect(cells(page)).to_have_count(7)
    assert page.evaluate("window.kept === document.querySelector('#panel .run')")
    assert selected(page) == ([1], [1])
    gate.release(1000)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert selected(page) == ([1], [1])


def test_a_new_answer_takes_the_place_of_the_old_one(panel_site: PanelSite) -> None:
    chat = panel_site.answered(TEXT)
    page = panel_site.show(chat)
    cells(page).nth(2).click()
    expect_selected(page, 2)
    panel_site.engine.answer = "Something else, and short."
    ask(page, "And?")
    saved = _last(panel_site, page, chat, 2)
    assert saved.text == "Something else, and short."
    expect(details(page)).to_be_hidden()
    assert selected(page) == ([], [])


def test_each_answer_of_a_chat_can_be_shown_again(panel_site: PanelSite) -> None:
    texts = ["The first answer of three.", "The second one, a little longer.", "The last."]
    chat: int | None = None
    for number, text in enumerate(texts):
        chat = panel_site.answered(text, f"Question {number + 1}?", chat)
    assert chat is not None
    page = panel_site.show(chat)
    answers = page.get_by_role("navigation", name="Answers of this chat")
    expect(answers).to_contain_text("Answer 3 of 3")
    points = answers.locator(".point")
    expect(points).to_have_count(3)
    back = answers.get_by_role("button", name="Earlier answer")
    back.focus()
    page.keyboard.press("Enter")
    expect(answers).to_contain_text("Answer 2 of 3Question 2?")
    panel_site.expect_whole(page, chat, back=1)
    points.first.click()
    expect(answers).to_contain_text("Answer 1 of 3")
    panel_site.expect_whole(page, chat, back=2)
    expect(back).to_be_disabled()
    panel_site.engine.answer = "A new one is shown at once."
    ask(page, "Question 4?")
    expect(answers).to_contain_text("Answer 4 of 4")
    panel_site.expect_whole(page, chat)


def test_another_chat_brings_its_own_and_a_new_one_brings_none(
    panel_site: PanelSite, chat: int
) -> None:
    other = panel_site.answered("Elsewhere.", "Where is it?")
    page = panel_site.show(chat)
    page.get_by_role("button", name="Where is it?", exact=True).click()
    panel_site.expect_whole(page, other)
    page.get_by_role("button", name="New chat").click()
    expect(page.locator("#panel .empty")).to_be_visible()
    expect(cells(page)).to_have_count(0)


def test_closed_it_is_told_nothing_and_that_is_remembered(panel_site: PanelSite) -> None:
    page = panel_site.open(script=f"{RECORD_STREAM}; if (!localStorage.length) {CLOSED}")
    toggle = page.locator("#panel-toggle")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    panel_site.engine.answer = TEXT
    ask(page, "How is it serviced?")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert TEXT[:20] in page.evaluate("received"), "the stream was not seen"
    assert STEP_LINE not in page.evaluate("received")
    page.reload()
    expect(toggle).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#panel .panel-body")).to_be_hidden()
    toggle.focus()
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    panel_site.expect_whole(page, int(page.url.rpartition("=")[2]))
    assert STEP_LINE in page.evaluate("received"), "it would have been seen"
    page.reload()
    expect(page.locator("#panel .panel-body")).to_be_visible()
    page.get_by_role("button", name="Close the panel").press("Enter")
    expect(page.locator("#panel .panel-body")).to_be_hidden()
    expect(toggle).to_be_focused()
    page.context.close()


FORGED: list[Any] = [
    None,
    7,
    "1",
    [],
    {},
    {"answer": "1", "step": 0},
    {"answer": 1, "step": True},
    {"answer": 1.5, "step": 0},
    {"answer": 10**30, "step": 0},
    {"answer": 2, "step": -(10**30)},
    {"answer": 999_999, "step": 0},
    {"answer": 2, "step": 999_999},
    {"answer": 2, "step": -1},
    {"answer": {"$gt": 0}, "step": 0},
]


def test_forged_requests_for_details_are_refused_in_words(panel_site: PanelSite, chat: int) -> None:
    page = panel_site.show(chat)
    forged: list[Any] = []

    def forge(route: Route) -> None:
        sent = route.request.post_data_json
        assert sent["fn_name"] == "step_details"
        route.continue_(post_data={**sent, "data": forged[-1]})

    page.route("**/component_server/", forge)
    error = details(page).locator(".error")
    for index, payload in enumerate(FORGED):
        forged.append(payload)
        with page.expect_response("**/component_server/") as response:
            cells(page).nth(index).click()
        assert response.value.status == 200, payload
        expect(details(page)).not_to_have_attribute("aria-busy", "true")
        expect(error, str(payload)).to_have_text(REFUSAL)
    page.unroute("**/component_server/")
    cells(page).nth(4).click()
    expect_selected(page, 4)
    expect(error).to_have_count(0)


@pytest.mark.parametrize(
    ("trigger", "payload"),
    [
        ("show_answer", {"id": "2"}),
        ("show_answer", {"id": 10**30}),
        ("show_answer", {"id": 1.5}),
        ("show_answer", {"id": 1}),  # a question, of another chat
        ("show_answer", None),
        ("toggle_panel", {"open": "yes"}),
        ("toggle_panel", [True]),
    ],
)
def test_forged_events_are_refused_and_break_nothing(
    panel_site: PanelSite, trigger: str, payload: Any
) -> None:
    chat = panel_site.answered("One.", "First?")
    panel_site.answered("Two.", "Second?", chat)
    page = panel_site.show(chat)

    def forge(route: Route) -> None:
        route.continue_(post_data={**route.request.post_data_json, "event_data": payload})

    page.route("**/queue/join*", forge, times=1)
    if trigger == "show_answer":
        page.get_by_role("button", name="Earlier answer").click()
    else:
        page.locator("#panel-toggle").click()
    expect(page.locator(".toast-body").first).to_contain_text(EVENT_REFUSAL)
    page.locator(".toast-close").first.click()  # it would lie over the button for ten seconds
    if trigger == "toggle_panel":  # closed, it keeps nothing
        assert shown_text(page) == ""
        page.locator("#panel-toggle").click()
    panel_site.expect_whole(page, chat)
    page.get_by_role("button", name="Earlier answer").click()
    panel_site.expect_whole(page, chat, back=1)


REFUSAL = re.compile(
    r"^(The page sent something unexpected; reload it\."
    r"|Message \d+ does not exist; its chat may have been deleted\."
    r"|Answer \d+ has no step -?\d+: it has \d+, counted from 0\.)$"
)
EVENT_REFUSAL = re.compile("The page sent something unexpected|not in this chat any more")
STEP_LINE = r"\"model\"]"  # of the panel's log, as JSON in JSON

# All that gradio's event stream brings, in `received`.
RECORD_STREAM = """
window.received = '';
const fetchAsIs = window.fetch;
window.fetch = async (...request) => {
  const response = await fetchAsIs(...request);
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    const reader = response.clone().body.pipeThrough(new TextDecoderStream()).getReader();
    (async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        window.received += part.value;
      }
    })().catch(() => {});
  }
  return response;
}"""


def _sources(step: Any) -> set[str]:
    return {step.draft.sources[node] for node in step.accepted_nodes}


def _last(site: PanelSite, page: Page, chat: int, number: int) -> AnswerSnapshot:
    """The last of so many answers, when it is over and shown."""
    expect(page.locator("#panel .answers")).to_contain_text(f"Answer {number} of {number}")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    job = site.service.running_job(chat)
    if job is not None:
        job.wait_until_over(WAIT)
    return site.expect_whole(page, chat)
