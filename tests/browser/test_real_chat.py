"""The whole app as its users have it: the command, the embedded model, a real browser."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from lookahead.embedded_model import EMBEDDED_MODEL_NAME
from storage import Database
from tests.browser.shown_panel import SavedAnswer, ShownPanel
from tests.browser.watched_site import WatchedSite, answer, answer_line, ask

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
]

ROOT = Path(__file__).resolve().parents[2]
MODEL_PATIENCE = 300_000  # milliseconds, for all that waits for the model
QUESTION = "List the twelve months of the year with the number of days in each."
LONG_QUESTION = "Write a long story about a fox."
MAX_TOKENS = "64"


@dataclass(frozen=True, slots=True)
class FirstRun:
    """What the first run of the app left behind, and what was seen of it on the page."""

    data_dir: Path
    answer: str
    saved: SavedAnswer
    panel: ShownPanel


@contextmanager
def app_running(data_dir: Path) -> Iterator[str]:
    """The address of the app, started as people start it, and ended with Ctrl-C."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "launch.py", "--no-open", "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"LOOKAHEAD_CHAT_DATA_DIR": str(data_dir)},
        cwd=ROOT,
    )
    assert process.stderr is not None
    address = f"http://127.0.0.1:{port}/"
    try:
        said = line = process.stderr.readline()
        while address not in line:
            assert line, f"it did not start: {said}"
            line = process.stderr.readline()
            said += line
        yield address
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 130, rest
        assert rest.endswith("Stopped.\n")
        assert "Traceback" not in rest
    finally:
        process.kill()  # does nothing to an ended one
        process.communicate()


def open_ready(site: WatchedSite) -> Page:
    """A page with a new chat, and a model that is loaded."""
    page = site.open()
    expect(page.locator("#status-line .text")).to_have_text(
        re.compile(rf"^{EMBEDDED_MODEL_NAME} · (strict|flexible) mode\b"), timeout=MODEL_PATIENCE
    )
    return page


def ask_anew(page: Page, question: str, *, lookahead: bool = True) -> str:
    """Ask in a new chat, greedily, and return the answer when it is over."""
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What would you like to know?")).to_be_visible()
    page.get_by_label("Lookahead").set_checked(lookahead)
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Max tokens").fill(MAX_TOKENS)
    ask(page, question)
    wait_until_over(page)
    return answer(page)


def wait_until_over(page: Page) -> None:
    """Send takes the place of Stop when the answer and its line are whole."""
    expect(page.get_by_role("button", name="Send")).to_be_visible(timeout=MODEL_PATIENCE)


def tokens_per_step(page: Page) -> float:
    found = re.search(r"([\d.]+)\s+tokens\s+per\s+step", answer_line(page))
    assert found, answer_line(page)
    return float(found[1])


def saved_answer(data_dir: Path, page: Page) -> SavedAnswer:
    """The last answer of the chat that is open in the page."""
    chat = re.search(r"\?chat=(\d+)$", page.url)
    assert chat, page.url
    with Database(data_dir) as database:
        message = database.messages.list(int(chat[1]))[-1]
        generation = database.generations.for_message(message.id)
        assert generation is not None
        assert generation.id is not None
        return SavedAnswer(message, generation, database.generations.list_steps(generation.id))


@pytest.fixture(scope="module")
def first_run(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, embedded_model_path: Path
) -> FirstRun:
    """The app started in an empty folder, asked one question, and ended."""
    data_dir = tmp_path_factory.mktemp("data")
    with app_running(data_dir) as address, WatchedSite(browser, address) as site:
        page = open_ready(site)
        text = ask_anew(page, QUESTION)
        saved = saved_answer(data_dir, page)
        return FirstRun(data_dir, text, saved, ShownPanel.read(page, saved))


def test_the_panel_shows_what_the_database_has(first_run: FirstRun) -> None:
    assert first_run.panel == ShownPanel.expected(first_run.saved)
    assert len(first_run.panel.lengths) > 10


def test_an_imported_answer_is_drafted_from_the_document(
    browser: Browser, first_run: FirstRun, tmp_path: Path
) -> None:
    note = tmp_path / "months.md"
    note.write_text(f"# Notes\n\n{first_run.saved.message.text}\n", encoding="utf-8")
    data_dir = tmp_path / "data"
    with app_running(data_dir) as address, WatchedSite(browser, address) as site:
        page = open_ready(site)
        page.get_by_role("tab", name="Documents").click()
        page.get_by_label("Folder or file on this machine").fill(str(note))
        page.get_by_role("button", name="Import").click()
        expect(page.get_by_text("Imported: 1 document")).to_be_visible(timeout=MODEL_PATIENCE)
        expect(page.get_by_role("cell", name="months.md", exact=True)).to_be_visible()
        page.get_by_role("tab", name="Chat").click()
        assert ask_anew(page, QUESTION) == first_run.answer
        saved = saved_answer(data_dir, page)
    assert saved.generation.accepted_by_source["document"] >= 10
    accepted = [step.draft.sources[node] for step in saved.steps for node in step.accepted_nodes]
    assert accepted.count("document") == saved.generation.accepted_by_source["document"]
    assert "history" not in accepted, "in a fresh folder there is none"


@pytest.fixture(scope="module")
def restarted(first_run: FirstRun) -> Iterator[str]:
    """The address of the app started again with the folder of the first run."""
    with app_running(first_run.data_dir) as address:
        yield address


def test_after_a_restart_the_panel_shows_the_old_answer_again(
    browser: Browser, first_run: FirstRun, restarted: str
) -> None:
    with WatchedSite(browser, restarted) as site:
        page = site.open(f"?chat={first_run.saved.message.conversation_id}")
        assert ShownPanel.read(page, first_run.saved) == first_run.panel


def test_after_a_restart_the_chat_is_there_and_the_same_question_takes_fewer_steps(
    browser: Browser, first_run: FirstRun, restarted: str
) -> None:
    with WatchedSite(browser, restarted) as site:
        page = open_ready(site)
        page.get_by_role("button", name=QUESTION[:20]).first.click()
        expect(page.locator("#chatbot .user.message")).to_have_text(QUESTION)
        assert answer(page) == first_run.answer
        assert ask_anew(page, QUESTION) == first_run.answer
        # What steps cost decides how much is verified; of a repeated answer three pay anywhere.
        assert tokens_per_step(page) >= 3
        again = saved_answer(first_run.data_dir, page)
        assert ask_anew(page, QUESTION, lookahead=False) == first_run.answer
        assert tokens_per_step(page) == 1
        plain = saved_answer(first_run.data_dir, page)
    first_ids = first_run.saved.message.token_ids
    assert again.message.token_ids == plain.message.token_ids == first_ids
    assert len({first_run.saved.message.id, again.message.id, plain.message.id}) == 3
    assert again.generation.accepted_by_source["history"] >= 10
    assert plain.generation.num_drafted_tokens == 0


def test_an_answer_streams_until_stop_and_a_reload_shows_what_was_said(
    browser: Browser, first_run: FirstRun, restarted: str
) -> None:
    with WatchedSite(browser, restarted) as site:
        page = open_ready(site)
        ask(page, LONG_QUESTION)
        seen = [""]
        for _ in range(3):
            expect(page.get_by_role("button", name="Stop")).to_be_visible()
            page.wait_for_function(LONGER_ANSWER, arg=seen[-1], timeout=MODEL_PATIENCE)
            seen.append(answer(page))
        with page.expect_response(lambda response: "/run/" in response.url):
            page.get_by_role("button", name="Stop").click()
        wait_until_over(page)
        assert answer_line(page).endswith(" · stopped")
        said = answer(page)
        for earlier, later in zip(seen, [*seen[1:], said], strict=True):
            assert later.startswith(earlier)
        page.reload()
        expect(page.locator("#chatbot .user.message")).to_have_text(LONG_QUESTION)
        assert answer(page) == said
        assert answer_line(page).endswith(" · stopped")
        saved = saved_answer(first_run.data_dir, page)
    assert saved.message.status == "stopped"
    assert " ".join(saved.message.text.split()) == " ".join(said.split())
    assert saved.generation.reason == "cancelled"


# Whether the answer has grown beyond what was seen of it.
LONGER_ANSWER = """seen => {
  const parts = [...document.querySelectorAll('#chatbot .bot-row')];
  const text = parts.at(-2)?.innerText.replace('\\u200b', '').trim() ?? '';
  return text.length > seen.length;
}"""
