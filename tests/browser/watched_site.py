"""A running page as its tests see it: opened in a browser, asked, and watched for misbehaviour.

Knows no service behind the page. Used by all tests of the page.
"""

from types import TracebackType
from typing import Self

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
PATIENCE = 30_000  # milliseconds; the machine may be busy with other things


class WatchedSite:
    """Opens pages of one address; at the end none may have done what it must not."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.address = address
        self.complaints: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(
        self,
        path: str = "",
        *,
        size: ViewportSize = DESKTOP,
        scheme: str = "light",
        is_calm: bool = False,
        script: str = "",
        beside: Page | None = None,
    ) -> Page:
        """A page in a context of its own. `is_calm`: its user prefers reduced motion.

        `script` runs in the page before its own. `beside`: a tab of that page's browser instead,
        with which it shares the browser's connections.
        """
        context = beside.context if beside else self._new_context(size, scheme, is_calm, script)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.on("requestfinished", lambda request: self._note_request(request.url))
        page.on(
            "requestfailed",
            lambda request: request.failure == "csp" or self._note_request(request.url),
        )
        page.goto(self.address + path)
        expect(page.locator("#message textarea")).to_be_visible()
        expect(page.locator("#status-line .text")).not_to_be_empty()
        return page

    def _new_context(
        self, size: ViewportSize, scheme: str, is_calm: bool, script: str
    ) -> BrowserContext:
        context = self._browser.new_context(
            viewport=size,
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce" if is_calm else "no-preference",
            permissions=["clipboard-read", "clipboard-write"],
        )
        if script:
            context.add_init_script(script)
        self._contexts.append(context)
        return context

    def close(self) -> None:
        """Close every page; what they still complain about is noted before."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            assert not self.complaints, self.complaints

    def _note(self, kind: str, text: str) -> None:
        # gradio's upload says the latter each time
        if kind in ("error", "warning") and text != "Method not implemented.":
            self.complaints.append(f"{kind}: {text}")

    def _note_request(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.complaints.append(f"request to {url}")


def ask(page: Page, text: str) -> None:
    """Ask in the open chat, and wait until the question stands in it."""
    page.locator("#message textarea").fill(text)
    page.locator("#message textarea").press("Enter")
    expect(page.locator("#chatbot .user.message").last).to_have_text(text)


def answer(page: Page) -> str:
    """The text of the last answer, without its numbers and without what holds its place."""
    parts = page.locator("#chatbot .bot-row")
    return parts.nth(parts.count() - 2).inner_text().strip(" \n\u200b")


def answer_line(page: Page) -> str:
    """The line under the last answer."""
    return page.locator("#chatbot .bot-row").last.inner_text().strip()
