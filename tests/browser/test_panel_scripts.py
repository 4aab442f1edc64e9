"""The panel's scripts alone, in a real browser: no server, one bare page.

What they compute is called by name; what they show is driven as gradio does it, by values.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from app.panel import panel_component
from tests.browser.watched_site import DESKTOP, PATIENCE, PHONE

LOOKS = ("chat", "history", "document", "recycled", "model")
FUNCTIONS = (
    *("layTree", "histogramOf", "reachOf", "csvText", "csvOf", "parseStep", "passagesOf"),
    *("outcomeOf", "linePath", "stepTip", "quoted", "StepLog", "Numbers", "Answers", "StepsTable"),
)
PAGE = """<style>
  #chat-row { --room: wide } [hidden] { display: none !important }
  @media (max-width: 1099px) { #chat-row { --room: between } }
</style>
<div><button id="before">before</button>
<div id="chat-row"><div id="panel"><div></div></div></div>
<button id="behind">behind</button></div>"""
# As gradio runs it. `told` is what it triggered, `asked` for which steps it asked.
START = """([script, names, value]) => {
  localStorage.clear();
  sessionStorage.clear();
  const props = { value };
  const panel = { told: [], asked: [], props, numSteps: 0 };
  const trigger = (name, data) => panel.told.push([name, data]);
  const server = { step_details: async (request) => {
    panel.asked.push(request.step);
    await panel.wait;
    return { numbers: [], nodes: [], passages: [], bonus: null };
  } };
  const element = document.querySelector('#panel > div');
  const watch = (name, changed) => { panel.changed = changed; };
  const body = `${script}; return { ${names.join(', ')} };`;
  panel.of = Function('element', 'trigger', 'props', 'server', 'upload', 'watch', body)(
    element, trigger, props, server, null, watch);
  window.panel = panel;
}"""
UPDATE = """async (value) => {
  panel.props.value = value;
  panel.of.show();
}"""


@pytest.fixture(scope="module")
def bare_page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=DESKTOP)
    context.route("**/*", lambda route: route.fulfill(body="", content_type="text/html"))
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto("http://panel.test/")
    yield page
    context.close()


@pytest.fixture
def page(bare_page: Page) -> Iterator[Page]:
    """The bare page with the panel in it, which shows nothing yet."""
    errors: list[str] = []
    bare_page.on("pageerror", lambda error: errors.append(str(error)))
    bare_page.set_viewport_size(DESKTOP)
    bare_page.mouse.move(0, 0)  # no tooltip
    bare_page.set_content(PAGE)
    start(bare_page)
    yield bare_page
    assert errors == []


def start(page: Page) -> None:
    script = str(panel_component(lambda payload: {}).js_on_load)
    page.evaluate(START, [script, [*FUNCTIONS, "show"], value(None)])


def update(page: Page, given: dict[str, Any]) -> None:
    page.evaluate(UPDATE, given)


def step(
    accepted: list[list[Any]], *, own: str | None = "x", width: int = 16, match: int = 2
) -> list[Any]:
    """A line of the log; `accepted` are [text, look, probability, origin]."""
    tokens = [*accepted, *([] if own is None else [[own, "model"]])]
    return [len(accepted), match, width, 16, 20.0, 0.1, tokens]


def steps_of(lengths: list[int]) -> list[list[Any]]:
    return [step([["a", "recycled", 0.5, None]] * length) for length in lengths]


def value(
    answer: int | None, steps: list[list[Any]] | None = None, **changes: Any
) -> dict[str, Any]:
    """A value as the server sends it."""
    lines = [["first", "T", 0, 3, 10.0], *steps] if steps is not None else []
    made = {
        "answer": answer,
        "version": 1,
        "status": "decoding" if answer is not None else "",
        "answers": [
            {"id": 1, "label": "One?", "tokens_per_step": 2.0, "tokens_per_second": 9.0},
            {"id": 2, "label": "Two?", "tokens_per_step": 3.0, "tokens_per_second": 9.0},
        ],
        "max_length": 15,
        "steps": "".join(f"{json.dumps(line)}\n" for line in lines),
        "unsplit": "",
        "labels": {},
        "numbers": [{"name": "speed", "value": "1", "definition": "How fast."}],
        "legend": dict.fromkeys(LOOKS, 0),
        "summary": "3 fewer forward passes than one a token",
        "summary_definition": "Fewer than what.",
    }
    return made | changes


def shown(page: Page, chart: str) -> list[int]:
    page.locator("#panel .segments label", has_text=chart).click()
    values = page.locator(f"#panel .{chart.lower()} .value").all_text_contents()
    return [int(text or 0) for text in values]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("histogramOf([3, 0, 2], 4)", [3, 0, 2, 0, 0]),
        ("histogramOf([1, 1, 1, 1], 2)", [1, 1, 2]),  # longer than the scale: counted at its end
        ("histogramOf([, , 2], 2)", [0, 0, 2]),
        ("reachOf([3, 0, 2], 4)", [2, 2, 0, 0]),
        ("reachOf([1, 1, 1, 1], 3)", [3, 2, 1]),
        ("reachOf([], 2)", [0, 0]),
        ("reachOf([], 0)", []),
        ("""csvText('a "b", c')""", '"a ""b"", c"'),
        ("csvText('=1+1')", '"\'=1+1"'),
        ("csvText('\\t=1')", '"\'\t=1"'),
        ("csvText('a=1')", '"a=1"'),
        ("linePath([0, 1])", "M0.5,1L1.5,0"),
        ("linePath([0, null, 1, 0.5])", "M0.5,1M2.5,0L3.5,0.5"),
    ],
)
def test_what_is_computed(page: Page, call: str, expected: Any) -> None:
    name = call.partition("(")[0]
    assert page.evaluate(f"() => {{ const {name} = panel.of.{name}; return {call}; }}") == expected


def test_a_step_is_parsed_with_its_place_in_the_answer(page: Page) -> None:
    lines = value(1, [step([["a", "document", 0.5, [7, 4]], ["b", "chat", 0.4, 9]]), step([])])
    parsed = page.evaluate(
        "text => { const log = new panel.of.StepLog(); log.take(text); return log.steps; }",
        lines["steps"],
    )
    assert [[s["index"], s["position"], s["acceptedLength"]] for s in parsed] == [
        [0, 1, 2],
        [1, 4, 0],
    ]
    assert parsed[0]["tokens"] == [
        {"text": "a", "source": "document", "probability": 0.5, "origin": [7, 4]},
        {"text": "b", "source": "chat", "probability": 0.4, "origin": 9},
        {"text": "x", "source": "model", "probability": None, "origin": None},
    ]
    assert [token["text"] for token in parsed[0]["accepted"]] == ["a", "b"]


TIP = """text => {
  const log = new panel.of.StepLog();
  log.take(text);
  const lines = panel.of.stepTip(log.steps.at(-1), log, { 7: 'manual.md' });
  return lines.map((line) => line.textContent);
}"""


def test_each_passage_of_a_run_is_told_with_its_place_and_its_words(page: Page) -> None:
    run = [
        [" in", "document", 0.9, [7, 4]],
        [" May", "document", 0.8, [7, 5]],
        [" or", "document", 0.8, [7, 90]],  # elsewhere in the same document
        [" so", "history", 0.7, [8, 0]],
        [" T", "chat", 0.7, 7],
        [" b", "chat", 0.7, 6],
        [" me", "chat", 0.7, 40],
        ["!", "recycled", 0.6, None],
    ]
    lines = value(1, [step([["b", "recycled", 0.5, None]]), step(run)])["steps"]
    told = page.evaluate(TIP, lines)
    assert told[3:] == [
        "Documents · manual.md, token 5: “in May”",
        "Documents · manual.md, token 91: “or”",
        "Earlier chats · a chat that was deleted, token 1: “so”",
        "This chat · 7 tokens back, the first token of this answer: “T”",
        "This chat · 6 tokens back, step 1 of this answer: “b”",
        "This chat · 40 tokens back, before this answer: “me”",
        "Recycled successors: “!”",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (step([], width=1), "Nothing was drafted; the model added one token."),
        (step([], width=1, own=None), "Nothing was drafted, and the answer ended there."),
        (step([], width=6), "None of 5 drafted tokens accepted; the model added its own."),
        (step([], width=6, own=None), "None of 5 drafted tokens accepted; the answer ended there."),
        (
            step([["a", "chat", 0.5, 3]], width=6),
            "1 of 5 drafted tokens accepted in one forward pass.",
        ),
        (
            step([["a", "chat", 0.5, 3]], width=6, own=None),
            "1 of 5 drafted tokens accepted in one forward pass, where the answer ended.",
        ),
    ],
)
def test_the_outcome_says_what_was_added(page: Page, line: list[Any], expected: str) -> None:
    told = page.evaluate("line => panel.of.outcomeOf(panel.of.parseStep(line, 0, 1))", line)
    assert told == expected


LAY = """parents => {
  const nodes = parents.map((parent, i) => ({ parent, accepted: i < 3 }));
  return panel.of.layTree(nodes).places.map((place) => [place.index, place.column, place.row]);
}"""


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ([-1], [[0, 1, 1]]),
        ([-1, 0, 1], [[0, 1, 1], [1, 2, 1], [2, 3, 1]]),
        ([-1, 0, 1, 0, 3], [[0, 1, 1], [1, 2, 1], [2, 3, 1], [3, 2, 2], [4, 3, 2]]),
        ([-1, 0, 1, 1, 0], [[0, 1, 1], [1, 2, 1], [2, 3, 1], [3, 3, 2], [4, 2, 2]]),
    ],
)
def test_a_tree_is_laid_with_the_accepted_path_straight(
    page: Page, parents: list[int], expected: list[list[int]]
) -> None:
    places = page.evaluate(LAY, parents)
    assert sorted(places) == expected
    cells = [tuple(place[1:]) for place in places]
    assert len(set(cells)) == len(cells), "two nodes in one place"


def test_numbers_keep_focus_and_tooltip_while_they_change(page: Page) -> None:
    update(page, value(1, []))
    term = page.locator("#panel .numbers button")
    page.keyboard.press("Tab")
    term.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_have_text("How fast.")
    number = {"name": "speed", "value": "2", "definition": "How fast it is now."}
    update(page, value(1, [], version=2, numbers=[number]))
    expect(page.locator("#panel .numbers dd")).to_have_text("2")
    expect(term).to_be_focused()
    expect(tip).to_have_text("How fast it is now.")


@pytest.mark.parametrize("length", [6, 40])
def test_words_stand_among_the_numbers_and_long_ones_below_them(page: Page, length: int) -> None:
    numbers = [
        {"name": "speed", "value": "1", "definition": "How fast."},
        {"name": "sampling", "value": "w" * length, "definition": "How.", "is_words": True},
    ]
    update(page, value(1, [], numbers=numbers))
    assert page.locator("#panel .numbers .long").count() == (length > 14)


@pytest.mark.parametrize(
    ("texts", "pieces"),
    [
        ("\U0001f1e9|\U0001f1ea", "|\U0001f1e9\U0001f1ea"),
        ("a\U0001f44d|\U0001f3fd!", "a|\U0001f44d\U0001f3fd!"),
        ("\U0001f469||\u200d|\U0001f467", "|||\U0001f469\u200d\U0001f467"),
        ("e|\u0301", "|e\u0301"),
        ("a|\U0001f469+\u200d|\U0001f467", "a||\U0001f469\u200d\U0001f467"),
        ("日|本", "日|本"),
        ("a|b", "a|b"),
    ],
)
def test_a_character_of_several_tokens_is_drawn_whole_at_its_last(
    page: Page, texts: str, pieces: str
) -> None:
    looks = ["chat", "history", "document", "recycled"]
    parts = [part.split("+") for part in texts.split("|")]  # "+": between tokens of one piece
    tokens = [
        [text, look, 0.5, None] for part, look in zip(parts, looks, strict=False) for text in part
    ]
    halves = [step(tokens[:1], own=None), step(tokens[1:], own=None)]
    update(page, value(1, halves[:1]))
    update(page, value(1, halves, version=2))
    found = page.locator("#panel .run [data-source]")
    assert found.all_text_contents() == pieces.split("|")
    assert found.evaluate_all("all => all.map(one => one.dataset.source)") == looks[: len(parts)]
    expect(page.locator("#panel .steps")).to_have_text(
        "T" + "".join(token[0] for token in tokens), use_inner_text=False
    )


def test_charts_count_the_answer_that_is_shown_while_it_grows(page: Page) -> None:
    update(page, value(1, steps_of([0, 2])))
    assert shown(page, "Histogram")[:3] == [1, 0, 1]
    update(page, value(1, steps_of([0, 2, 2]), version=2))
    assert shown(page, "Histogram")[:3] == [1, 0, 2]
    update(page, value(2, steps_of([1]), version=1))
    assert shown(page, "Histogram")[:3] == [0, 1, 0]
    assert shown(page, "Reach")[:2] == [100, 0]
    update(page, value(1, []))
    assert shown(page, "Histogram") == [0] * 16


def test_an_older_value_changes_nothing_and_the_selection_outlives_other_steps(page: Page) -> None:
    update(page, value(1, steps_of([1, 2, 3]), version=5))
    cells = page.locator("#panel [role=gridcell]")
    cells.nth(1).click()
    update(page, value(1, steps_of([1]), version=4))
    expect(cells).to_have_count(3)
    selected = page.locator("#panel [role=gridcell][aria-selected]")
    expect(selected).to_have_text("2")
    update(page, value(1, steps_of([1, 2, 1]), version=6))  # the end of it was taken back
    assert cells.all_text_contents() == ["1", "2", "1"]
    expect(selected).to_have_text("2")
    update(page, value(2, steps_of([4]), version=1))
    assert cells.all_text_contents() == ["4"]
    expect(selected).to_have_count(0)


def test_later_step_wakes_when_there_is_one(page: Page) -> None:
    update(page, value(1, steps_of([1])))
    page.locator("#panel [role=gridcell]").click()
    later = page.get_by_role("button", name="Later step")
    expect(later).to_be_disabled()
    update(page, value(1, steps_of([1, 2]), version=2))
    expect(later).to_be_enabled()


def test_details_are_asked_for_again_when_what_they_name_is_gone(page: Page) -> None:
    update(page, value(1, steps_of([1]), labels={"7": "manual.md"}))
    page.locator("#panel [role=gridcell]").click()
    update(page, value(1, steps_of([1]), version=2, labels={"7": "manual.md", "8": "new"}))
    assert page.evaluate("panel.asked") == [0]
    update(page, value(1, steps_of([1]), version=3, labels={"8": "new"}))
    assert page.evaluate("panel.asked") == [0, 0]


def test_a_closed_panel_keeps_nothing(page: Page) -> None:
    update(page, value(1, steps_of([1])))
    content = page.locator("#panel .panel-content")
    expect(content).to_contain_text("One?")
    page.get_by_role("button", name="Close the panel").click()
    for part in (".steps", ".heatmap", ".numbers", ".summary", ".sparkline"):
        assert not page.locator(f"#panel {part}").text_content(), part
    assert "One?" not in (content.text_content() or "")


def test_the_points_of_the_answers_stay_and_an_unknown_one_is_none(page: Page) -> None:
    update(page, value(2, []))
    points = page.locator("#panel .point")
    points.first.evaluate("point => { window.kept = point; }")
    answers: Any = value(2)["answers"]
    note = "tokens per step not known"
    answers[1] |= {"tokens_per_step": None, "tokens_per_second": None, "note": note}
    update(page, value(2, [], version=2, answers=answers))
    assert points.first.evaluate("point => point === window.kept")
    assert points.last.get_attribute("data-tip") == f"Two?\n{note}"
    assert points.last.get_attribute("class") == "point unknown"
    assert page.locator("#panel .sparkline path").get_attribute("d") == "M0.5,0"


def test_a_step_without_a_draft_and_a_hostile_quote_are_told_as_they_are(page: Page) -> None:
    """It said "0 of 0 accepted"; marks of direction turned round what was said after them."""
    lines = page.evaluate(
        """() => {
          const step = panel.of.parseStep([0, 0, 1, 16, 1, 0, [["a", "model"]]], 0, 1);
          return panel.of.stepTip(step, new panel.of.StepLog(), {}).map(node => node.textContent);
        }"""
    )
    assert lines == ["Step 1 · nothing drafted"]
    assert page.evaluate("panel.of.quoted('a\u202eb\u2066c')") == "“abc”"


def paused_step() -> list[Any]:
    return [*step([], width=1, match=0), True]


def test_a_paused_step_says_so_wherever_it_is_shown(page: Page) -> None:
    update(page, value(1, [step([]), paused_step()]))
    cells = page.locator("#panel .heatmap [data-step]")
    assert cells.first.get_attribute("data-paused") is None
    assert cells.last.get_attribute("aria-label") == "0, drafting paused"
    expect(page.locator("#panel .paused-key")).to_be_visible()
    cells.last.hover()
    expect(page.locator("#panel-tooltip")).to_contain_text("drafting paused: not paying")
    cells.last.click()
    expect(page.locator("#panel .outcome")).to_have_text(
        "Drafting was paused, since it would not have paid; the model added one token."
    )
    page.locator("#panel .table-reach").focus()
    rows = page.locator("#panel .steps-table tbody tr")
    assert [row.split("\t")[-1] for row in rows.all_inner_texts()] == ["", "paused"]
    csv = page.evaluate(
        "text => { const log = new panel.of.StepLog(); log.take(text);"
        " return panel.of.csvOf(log); }",
        value(1, [step([]), paused_step()])["steps"],
    )
    assert [line.split(",")[5] for line in csv.splitlines()] == ["paused", "", "0", "1"]
    update(page, value(2, [step([])]))
    expect(page.locator("#panel .paused-key")).to_be_hidden()


def test_while_drafting_is_paused_the_status_tells_it(page: Page) -> None:
    status = page.locator("#panel .panel-status")
    steps = [step([]), *[paused_step() for _ in range(3)]]
    update(page, value(1, steps))
    expect(status).to_have_text("Decoding …")
    update(page, value(1, [*steps, paused_step()], version=2))
    expect(status).to_have_text("Decoding, drafting paused: not paying")
    update(page, value(1, [*steps, paused_step(), step([])], version=3))
    expect(status).to_have_text("Decoding …")


def test_an_answer_that_failed_before_its_first_token_shows_no_empty_frame(page: Page) -> None:
    update(page, value(1, status="failed", numbers=[], summary=""))
    expect(page.locator("#panel .nothing")).to_be_visible()
    for part in ("figures", "legend", "accepted", "text", "downloads", "steps-table"):
        expect(page.locator(f"#panel .{part}")).to_be_hidden()
    update(page, value(2, steps_of([1])))
    expect(page.locator("#panel .nothing")).to_be_hidden()
    expect(page.locator("#panel .downloads")).to_be_visible()


def test_an_answer_being_written_is_told_while_another_is_shown(page: Page) -> None:
    point = {"id": 9, "label": "Two?", "tokens_per_step": None, "note": "being written"}
    points = [*value(1)["answers"], point]
    update(page, value(1, steps_of([1]), status="complete", running=9, answers=points))
    button = page.get_by_role("button", name="An answer is being written")
    expect(button).to_be_visible()
    assert page.locator("#panel .point").last.get_attribute("data-tip") == "Two?\nbeing written"
    button.click()
    assert page.evaluate("panel.told.at(-1)") == ["show_answer", {"id": 9}]


def test_a_selected_step_holds_its_answer_and_lets_go_when_it_is_closed(page: Page) -> None:
    update(page, value(3, steps_of([1, 2, 0])))
    page.locator("#panel [role=gridcell]").first.click()
    page.keyboard.press("ArrowRight")
    told = [entry for entry in page.evaluate("panel.told") if entry[0] == "hold_answer"]
    assert told == [["hold_answer", {"id": 3}]]
    page.get_by_role("button", name="Close the details").click()
    assert page.evaluate("panel.told.at(-1)") == ["show_answer", {"id": 3}]


def test_a_silent_server_is_told_within_seconds_and_what_comes_late_is_shown(page: Page) -> None:
    page.evaluate(  # seconds pass at once
        """() => {
          window.real = setTimeout;
          setTimeout = (call, after) => real(call, after >= 4000 ? 1 : after);
        }"""
    )
    update(page, value(2, steps_of([1, 2])))
    page.evaluate("() => { panel.wait = new Promise(done => { panel.answer = done; }); }")
    page.locator("#panel [role=gridcell]").first.click()
    expect(page.locator("#panel .details .error")).to_contain_text("did not answer")
    page.evaluate("setTimeout = real; panel.answer()")
    expect(page.locator("#panel .details .error")).to_have_count(0)


def test_a_tooltip_comes_by_movement_and_not_by_what_comes_under_the_pointer(page: Page) -> None:
    update(page, value(2, steps_of([1, 2])))
    cell = page.locator("#panel [role=gridcell]").first
    tip = page.get_by_role("tooltip")
    page.mouse.move(0, 0)
    cell.dispatch_event("pointerover", {"pointerType": "mouse", "bubbles": True})
    expect(tip).to_be_hidden()
    cell.hover()
    expect(tip).to_be_visible()


def test_the_focus_goes_back_to_where_the_details_came_from(page: Page) -> None:
    update(page, value(1, steps_of([1, 2])))
    text = page.locator("#panel .steps-box")
    text.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#panel [aria-live]")).to_contain_text("Step 2: 2 of 15")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#panel [aria-live]")).to_contain_text("Step 1: 1 of 15")
    close = page.get_by_role("button", name="Close the details")
    close.click()
    expect(text).to_be_focused()
    page.locator("#panel [role=gridcell]").first.click()
    page.locator("#panel .segments label", has_text="Reach").click()
    close.click()
    expect(page.get_by_role("radio", name="Reach")).to_be_focused()


def test_a_sheet_keeps_the_focus_both_ways(page: Page) -> None:
    page.set_viewport_size(PHONE)
    update(page, value(1, steps_of([1])))
    close = page.get_by_role("button", name="Close the panel")
    expect(close).to_be_focused()
    expect(page.locator("#panel-toggle")).to_be_hidden()
    page.keyboard.press("Shift+Tab")
    last = page.locator("#panel .table-reach")
    expect(last).to_be_focused()
    page.keyboard.press("Tab")
    expect(close).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel-toggle")).to_be_focused()


def test_the_table_is_whole_when_it_is_reached(page: Page) -> None:
    update(page, value(1, steps_of([1] * 70)))
    rows = page.locator("#panel .steps-table tbody tr")
    expect(rows).to_have_count(0)
    page.locator("#panel .table-reach").focus()
    expect(rows).to_have_count(70)


def test_a_text_that_cannot_be_divided_is_shown_as_a_whole(page: Page) -> None:
    line = step([["", "chat", 0.5, 3], ["", "chat", 0.5, 3]], own="")
    update(page, value(1, [line], unsplit="An old answer."))
    assert page.locator("#panel .steps").text_content() == "An old answer.T"
    expect(page.locator("#panel .unsplit-note")).to_be_visible()
    assert page.locator("#panel .run [data-count]").get_attribute("data-count") == "2 tokens"
    update(page, value(2, steps_of([1])))
    expect(page.locator("#panel .unsplit-note")).to_be_hidden()


DEMO = "document.dispatchEvent(new CustomEvent('lookahead-chat:demo'))"


def test_the_demo_opens_it_and_that_is_not_remembered(page: Page) -> None:
    body = page.locator("#panel .panel-body")
    page.get_by_role("button", name="Close the panel").click()
    page.evaluate(DEMO)
    expect(body).to_be_visible()
    assert page.evaluate("localStorage.getItem('lookahead-chat-panel')") == "closed"
    page.get_by_role("button", name="Close the panel").click()
    page.set_viewport_size(PHONE)
    page.evaluate(DEMO)
    expect(body).to_be_hidden()
    assert page.evaluate("panel.told.at(-1)") == ["toggle_panel", {"open": True}]
    update(page, value(1, steps_of([1])))
    expect(body).to_be_hidden()
    update(page, value(1, steps_of([1]), version=2, status="complete"))
    expect(body).to_be_visible()
    expect(page.locator("#panel [role=gridcell]")).to_have_count(1)
    assert page.evaluate("localStorage.getItem('lookahead-chat-panel')") == "closed"


def test_put_in_anew_it_leaves_nothing_behind(page: Page) -> None:
    page.evaluate("window.old = panel")
    page.locator("#panel > div").evaluate("old => old.replaceWith(document.createElement('div'))")
    start(page)
    page.evaluate("panel.told.length = old.told.length = 0")
    page.set_viewport_size(PHONE)
    expect(page.get_by_role("button", name="Close the panel")).to_be_focused()
    page.keyboard.press("Escape")
    assert page.evaluate("panel.told") == [["toggle_panel", {"open": False}]]
    assert page.evaluate("old.told") == []
