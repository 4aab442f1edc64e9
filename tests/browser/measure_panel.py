"""What the panel costs: `python -m tests.browser.measure_panel [browser|server]`.

Measurements, not tests: a quiet machine is needed, and its load is said beside the numbers.

browser: 2,000 tokens at 100 tokens a second from a script; how busy the page's main thread is with
the panel open, and closed, by its CPU time and by the clock, which counts waiting for a core of a
busy machine, too. server: the embedded model answers with the panel open and closed in
turns; by how much the CPU time per token rises: of the whole process, and of the threads that serve
the page alone, which other programs disturb less.
"""

import argparse
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait use no CPU time

from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from app.services import ChatService, ServiceConfig
from lookahead.embedded_model import default_cache_dir
from tests.app.scripted_service import ScriptedService
from tests.app.scripted_steps import ScriptedAnswer
from tests.browser.panel_site import cells
from tests.browser.serving import served
from tests.browser.watched_site import WatchedSite, ask
from tests.conftest import BROWSERS

TOKENS = 2000
TOKENS_PER_SECOND = 100
PAIRS = 6
MODEL_THREAD = "engine-worker"
ANSWER_TOKENS = 128
QUESTION = "List the twelve months of the year with the number of days in each."
WORDS = (
    *("the", "a", "pump", "valve", "pressure", "water", "is", "are", "was", "and", "or", "in"),
    *("not", "when", "closes", "opens", "serviced", "checked", "every", "month", "by", "hand"),
)
MINUTES = 60_000  # milliseconds


@dataclass(frozen=True, slots=True)
class Busy:
    """Shares of the time that the page's main thread had a task, and the steps it showed."""

    by_cpu: float
    by_clock: float
    num_steps: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the panel costs.")
    parser.add_argument("part", nargs="?", choices=("browser", "server"))
    part = parser.parse_args().part
    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, BROWSERS)))
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        expect.set_options(timeout=5 * MINUTES)
        if part in (None, "browser"):
            measure_browser(browser)
        if part in (None, "server"):
            measure_server(browser)
        browser.close()


def measure_browser(browser: Browser) -> None:
    """Print how busy the page is, with the panel open and closed, twice each."""
    service = ScriptedService(text_of(TOKENS), 1 / TOKENS_PER_SECOND, has_steps=True)
    with site_of(browser, service) as site:
        for is_open in (True, False, True, False):
            started = time.monotonic()
            busy = busy_while_answering(site, is_open)
            seconds = time.monotonic() - started
            print(
                f"browser, panel {'open' if is_open else 'closed'}: main thread busy "
                f"{busy.by_cpu:.1%} by CPU time, {busy.by_clock:.1%} by the clock; "
                f"{busy.num_steps} steps in {seconds:.1f} s, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


def busy_while_answering(site: WatchedSite, is_open: bool) -> Busy:
    page = site.open()
    set_panel(page, is_open)
    clocks = [start_clock(page, domain) for domain in ("threadTicks", "timeTicks")]
    ask(page, "How is the pump serviced?")
    before = [read_clock(clock) for clock in clocks]
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    after = [read_clock(clock) for clock in clocks]
    by_cpu, by_clock = (
        (end["TaskDuration"] - start["TaskDuration"]) / (end["Timestamp"] - start["Timestamp"])
        for start, end in zip(before, after, strict=True)
    )
    num_steps = cells(page).count()
    site.close()
    return Busy(by_cpu, by_clock, num_steps)


def start_clock(page: Page, domain: str) -> CDPSession:
    """Chromium's own account of what its main thread does."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": domain})
    return session


def read_clock(session: CDPSession) -> dict[str, float]:
    found = session.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in found}


def text_of(num_tokens: int) -> str:
    """Sentences, paragraphs and lists of so many of the script's tokens."""
    words = random.Random(1)
    text = ""
    while count_tokens(text) < num_tokens:
        for _ in range(20):
            sentence = " ".join(words.choices(WORDS, k=words.randint(5, 14)))
            text += words.choice(("- ", "", "", "")) + sentence.capitalize()
            text += words.choice((". ", ".\n", ".\n\n"))
    return text


def count_tokens(text: str) -> int:
    return 1 + sum(map(len, ScriptedAnswer(text).texts))


def measure_server(browser: Browser) -> None:
    """Print the CPU time per token with the panel open and closed, pair by pair."""
    with tempfile.TemporaryDirectory() as folder:
        service = ChatService(ServiceConfig(Path(folder) / "data", default_cache_dir()))
        try:
            service.start()
            assert service.wait_until_ready(600).is_ready
            with site_of(browser, service) as site:
                page = site.open()
                for is_open in (True, False):  # warm
                    spent_on_answer(service, page, is_open)
                pairs = [rises_of_pair(service, page, pair) for pair in range(PAIRS)]
        finally:
            service.close()
    for at, name in enumerate(("the whole process", "the page's threads")):
        values = [rises[at] for rises in pairs]
        print(
            f"server: CPU time per token rises by {statistics.median(values):+.1%} in the median "
            f"of {PAIRS} pairs ({min(values):+.1%} to {max(values):+.1%}) by what {name} use; "
            f"load {os.getloadavg()[0]:.1f}"
        )


def rises_of_pair(service: ChatService, page: Page, pair: int) -> tuple[float, float]:
    """By how much an open panel lets CPU time per token rise, as shares of all of it."""
    order = (True, False) if pair % 2 == 0 else (False, True)
    spent = {is_open: spent_on_answer(service, page, is_open) for is_open in order}
    whole, serving = (spent[True][at] - spent[False][at] for at in range(2))
    print(
        f"server, milliseconds per token, whole process and page's threads: open "
        f"{spent[True][0]:.2f} {spent[True][1]:.2f}, closed {spent[False][0]:.2f} "
        f"{spent[False][1]:.2f}",
        flush=True,
    )
    return whole / spent[False][0], serving / spent[False][0]


def spent_on_answer(service: ChatService, page: Page, is_open: bool) -> tuple[float, float]:
    """CPU milliseconds per token: of the process, and of the threads that serve the page.

    One answer in a new chat, which is deleted afterwards, so that the next has the same drafts.
    """
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What would you like to know?")).to_be_visible()
    set_panel(page, is_open)
    page.get_by_label("Max tokens").first.fill(str(ANSWER_TOKENS))
    before, threads_before = time.process_time(), seconds_by_thread()
    ask(page, QUESTION)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    whole = time.process_time() - before
    serving = sum(
        seconds - threads_before.get(thread, 0) for thread, seconds in seconds_by_thread().items()
    )
    (chat,) = service.conversations()
    numbers = service.messages(chat.id)[-1].numbers
    assert numbers is not None
    expect(cells(page)).to_have_count(numbers.num_steps if is_open else 0)
    service.delete_conversation(chat.id)
    return 1000 * whole / numbers.num_tokens, 1000 * serving / numbers.num_tokens


def seconds_by_thread() -> dict[int, float]:
    """CPU seconds of each thread but the one with the model and this one."""
    return {
        thread.ident: time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.ident is not None
        and thread is not threading.main_thread()
        and thread.name != MODEL_THREAD
    }


def set_panel(page: Page, is_open: bool) -> None:
    toggle = page.locator("#panel-toggle")
    if toggle.get_attribute("aria-expanded") != str(is_open).lower():
        toggle.click()
    expect(toggle).to_have_attribute("aria-expanded", str(is_open).lower())


@contextmanager
def site_of(browser: Browser, service: object) -> Iterator[WatchedSite]:
    with (
        tempfile.TemporaryDirectory() as folder,
        served(service, Path(folder)) as address,
        WatchedSite(browser, address) as site,
    ):
        yield site


if __name__ == "__main__":
    main()
