"""How the tests are run: tiers in order, slow ones deselected, warnings, missing things in CI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SAMPLE = """
import warnings, pytest
from app import noisy

@pytest.mark.real
def test_real(): pass
@pytest.mark.tiny
def test_tiny(): pass
@pytest.mark.slow
def test_slow(): pass
def test_pure(): pass
def test_with_a_browser(browser_path): pass
def test_our_warning(): noisy.warn()
def test_a_warning_of_others(): exec("import warnings; warnings.warn('old')", {"__name__": "other"})
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with our configuration and a few tests."""
    project = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "pyproject.toml", project)
    (project / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", project / "tests")
    (project / "tests" / "test_sample.py").write_text(SAMPLE)
    shutil.copytree(ROOT / "lookahead", project / "lookahead")
    (project / "app").mkdir()
    (project / "app" / "noisy.py").write_text("import warnings\ndef warn(): warnings.warn('old')")
    return project


def run(project: Path, *arguments: str, ci: str) -> str:
    environment = {**os.environ, "CI": ci, "PATH": ""}  # an empty PATH: no browser
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments]
    told = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    return told.stdout


@pytest.fixture(scope="module")
def usual(project: Path) -> str:
    return run(project, ci="")


@pytest.fixture(scope="module")
def slow_in_ci(project: Path) -> str:
    return run(project, "--slow", ci="yes")


pytestmark = pytest.mark.real


def test_tiers_run_in_order(usual: str) -> None:
    order = [usual.index(f"::{name} ") for name in ("test_pure", "test_tiny", "test_real")]
    assert order == sorted(order)


def test_slow_tests_are_deselected_unless_wanted(usual: str, slow_in_ci: str) -> None:
    assert "test_slow" not in usual
    assert "1 deselected" in usual
    assert "test_slow PASSED" in slow_in_ci


def test_warnings_of_our_modules_alone_are_errors(usual: str) -> None:
    assert "test_our_warning FAILED" in usual
    assert "test_a_warning_of_others PASSED" in usual


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere browsers are found by path")
def test_a_missing_browser_is_said_and_in_ci_a_failure(usual: str, slow_in_ci: str) -> None:
    assert "test_with_a_browser SKIPPED (no Chromium" in usual
    assert "test_with_a_browser ERROR" in slow_in_ci
