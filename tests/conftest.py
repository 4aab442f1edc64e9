"""What all tests share: tiers, the `--slow` option, the profile of hypothesis, the real things.

Tiers run in order, so that a broken Trie is told in seconds: *pure* tests carry no mark, `tiny`
ones need torch, `real` ones the embedded model, a browser or a process of their own.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

from lookahead.embedded_model import EMBEDDED_MODEL_NAME, default_cache_dir
from lookahead.model_folder import is_whole

IS_CI = bool(os.environ.get("CI"))
TIERS = ("tiny", "real")
REAL_FIXTURES = {"embedded_model_path", "browser_path"}
BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if IS_CI else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order by tier, and leave the slow tests out unless they are wanted."""
    for item in items:
        if REAL_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
    items.sort(key=_tier)  # stable: within a tier the order stays
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        if slow:
            config.hook.pytest_deselected(items=slow)
            items[:] = [item for item in items if not item.get_closest_marker("slow")]


def _tier(item: pytest.Item) -> int:
    return max(
        (TIERS.index(name) + 1 for name in TIERS if item.get_closest_marker(name)), default=0
    )


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's chats and settings; the model's cache is the real one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("LOOKAHEAD_CHAT_") and name != "LOOKAHEAD_CHAT_CACHE_DIR":
                patch.delenv(name)
        for name in ("DATA_DIR", "CONFIG_DIR"):
            folder = tmp_path_factory.mktemp(name.lower())
            patch.setenv(f"LOOKAHEAD_CHAT_{name}", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def sqlite_as_elsewhere() -> Iterator[None]:
    """Some builds of SQLite overwrite what is deleted unasked; the product must ask for it."""
    connect = sqlite3.connect

    def connect_as_elsewhere(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_as_elsewhere)
        yield


@pytest.fixture(scope="session")
def embedded_model_path() -> Path:
    """Folder of the converted embedded model, which `launch.py test` has prepared."""
    folder = default_cache_dir() / "models" / EMBEDDED_MODEL_NAME
    if not is_whole(folder):
        _missing("the embedded model is not prepared; `python launch.py test` does that")
    return folder


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Path of an installed Chromium, Chrome or Edge, for Playwright's `executable_path`."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    return found or _missing("no Chromium, Chrome or Edge is installed")


def _missing(what: str) -> NoReturn:
    """A real thing is missing: a failure where all of them are expected, otherwise said aloud."""
    if IS_CI:
        pytest.fail(what)
    pytest.skip(what)
