"""The page in front of the real chat service with a scripted engine, and what its panel shows.

Used by the tests of the panel. All that is expected is taken from what the service has saved, and
all that is shown is read from the page.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import Error as PlaywrightError

from app.looks import look_of
from app.services import AnswerOptions, AnswerSnapshot, ChatService, ServiceConfig
from tests.app.asking import WAIT
from tests.app.varied_engine import VariedEngine
from tests.browser.serving import served
from tests.browser.watched_site import DESKTOP, WatchedSite

__all__ = [
    "CLOSED",
    "DOCUMENT",
    "EARLIER_QUESTION",
    "PanelSite",
    "cells",
    "details",
    "expect_selected",
    "learn",
    "recorded_pieces",
    "running_panel_site",
    "selected",
    "shown_pieces",
    "shown_text",
]

DOCUMENT = "pump-manual.md"
DOCUMENT_TEXT = "The pump is serviced in May. The valve closes at 4 bar. Never open it by hand.\n"
EARLIER_QUESTION = "How is the pump serviced?"
EARLIER_ANSWER = "Close the valve, wait for the pressure to fall, and open the lid by hand."
CLOSED = "localStorage.setItem('lookahead-chat-panel', 'closed')"


class PanelSite(WatchedSite):
    """A running server, the service behind it, and one page that tests share."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        *,
        service: ChatService,
        engine: VariedEngine,
        data_dir: Path,
    ) -> None:
        super().__init__(browser, address)
        self.service = service
        self.engine = engine
        self.data_dir = data_dir
        self._page: Page | None = None

    def answered(self, answer: str, question: str = "Tell me.", chat: int | None = None) -> int:
        """A chat whose last answer this is."""
        self.engine.answer = answer
        options = AnswerOptions(max_new_tokens=1 + len(answer.encode()))
        job = self.service.ask(chat, question, options)
        snapshot = job.wait_until_over(WAIT)
        assert snapshot.status == "complete", snapshot
        assert snapshot.text == answer
        return job.conversation_id

    def saved(self, chat: int, *, back: int = 0) -> AnswerSnapshot:
        """The last answer of a chat, or one so many answers before."""
        answers = [m for m in self.service.messages(chat) if m.role == "assistant"]
        return self.service.saved_answer(answers[-1 - back].id)

    def show(self, chat: int | None = None) -> Page:
        """The shared page with this chat and the panel as it is by default, whatever was before."""
        if self._page is None:
            self._page = self.open()
        page = self._page
        page.set_viewport_size(DESKTOP)
        page.evaluate("localStorage.clear()")
        page.goto(self.address + ("" if chat is None else f"?chat={chat}"))
        if chat is not None:
            self.expect_whole(page, chat)
        return page

    def expect_whole(self, page: Page, chat: int, *, back: int = 0) -> AnswerSnapshot:
        """Wait until the panel shows the whole saved answer."""
        saved = self.saved(chat, back=back)
        expect(cells(page)).to_have_count(len(saved.steps))
        with suppress(PlaywrightError):  # the comparison below says more
            page.wait_for_function(
                "text => document.querySelector('#panel .steps').textContent === text",
                arg=saved.text,
            )
        assert shown_text(page) == saved.text
        return saved

    def close(self) -> None:
        super().close()
        self._page = None


@contextmanager
def running_panel_site(
    browser: Browser, data_dir: Path, engine: VariedEngine, *, is_ready: bool = True
) -> Iterator[PanelSite]:
    """The site; at the end every page must have been clean."""
    service = ChatService(ServiceConfig(data_dir, data_dir / "cache", model="s"), engine=engine)
    try:
        service.start()
        if is_ready:
            assert service.wait_until_ready(WAIT).is_ready
        with served(service, data_dir) as address:
            site = PanelSite(browser, address, service=service, engine=engine, data_dir=data_dir)
            try:
                yield site
            finally:
                engine.gate = None
                site.close()
    finally:
        service.close()
    assert site.complaints == []


def learn(site: PanelSite, folder: Path, name: str = DOCUMENT) -> None:
    """Give the engine a document and an earlier chat to draft from."""
    document = folder / name
    document.write_text(DOCUMENT_TEXT, encoding="utf-8")
    assert site.service.import_paths([document]).wait_until_over(WAIT).num_documents == 1
    site.answered(EARLIER_ANSWER, EARLIER_QUESTION)
    site.engine.document_position = 4
    site.engine.history_position = len(DOCUMENT_TEXT) + 20


def cells(page: Page) -> Locator:
    return page.locator("#panel .heatmap [role=gridcell][data-step]")


def details(page: Page) -> Locator:
    return page.locator("#panel .details")


def shown_text(page: Page) -> str:
    text = page.locator("#panel .steps").evaluate("steps => steps.textContent")
    assert isinstance(text, str)
    return text


def selected(page: Page) -> tuple[list[int], list[int]]:
    """The steps that are marked in the heatmap, and in the text."""
    found = page.evaluate(
        """() => [
          '#panel .heatmap [aria-selected="true"]', '#panel .steps [aria-current]',
        ].map(q => [...document.querySelectorAll(q)].map(node => Number(node.dataset.step)))"""
    )
    return found[0], found[1]


def expect_selected(page: Page, step: int) -> None:
    """Wait until a step is selected: in the heatmap, in the text, and in the details."""
    expect(details(page).locator("h3")).to_have_text(f"Step {step + 1}")
    expect(details(page)).not_to_have_attribute("aria-busy", "true")
    assert selected(page) == ([step], [step])


def shown_pieces(page: Page) -> dict[int, list[list[str]]]:
    """The accepted run of each step in the text, as [source, text] of each piece."""
    found: list[Any] = page.locator("#panel .steps .run[data-step]").evaluate_all(
        """runs => runs.map(run => [
          Number(run.dataset.step),
          [...run.children].map(piece => [piece.dataset.source, piece.textContent]),
        ])"""
    )
    assert len({step for step, _ in found}) == len(found), "a step has two chips"
    return {step: [piece for piece in pieces if piece[1]] for step, pieces in found}


def recorded_pieces(saved: AnswerSnapshot) -> dict[int, list[list[str]]]:
    """The same, from the recorded steps."""
    place = len(saved.text) - sum(sum(step.text_lengths or ()) for step in saved.steps)
    recorded = {}
    for step in saved.steps:
        pieces: list[list[str]] = []
        lengths = step.text_lengths or ()
        for at, length in enumerate(lengths):
            text = saved.text[place : place + length]
            place += length
            if at < step.accepted_length:
                _add(pieces, look_of(step.draft.sources[step.accepted_nodes[at]]), text)
        if step.accepted_length:
            recorded[step.index] = pieces
    return recorded


def _add(pieces: list[list[str]], look: str, text: str) -> None:
    if not text:
        return
    if pieces and pieces[-1][0] == look:
        pieces[-1][1] += text
    else:
        pieces.append([look, text])
