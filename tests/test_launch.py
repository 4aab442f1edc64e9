"""launch.py: what it says when something is missing, and a whole set-up with a small package."""

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import launch

ROOT = Path(__file__).resolve().parent.parent


def test_an_old_python_can_read_it_far_enough_to_be_told() -> None:
    tree = ast.parse((ROOT / "launch.py").read_text(encoding="utf-8"), feature_version=(3, 7))
    before_check = tree.body[: next(i for i, n in enumerate(tree.body) if isinstance(n, ast.If))]
    assert [ast.unparse(node) for node in before_check[1:]] == ["import sys"]


def test_an_old_python_is_told_what_to_do() -> None:
    script = "import sys; sys.version_info = (3, 8, 1); exec(open('launch.py').read())"
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "needs Python 3.11 or newer, and this is 3.8" in told.stderr
    assert "python3.12 launch.py" in told.stderr


def test_every_requirement_is_pinned() -> None:
    for path in launch.TEST_REQUIREMENTS:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.startswith("#") or line.count("==") == 1, f"{path.name}: {line}"


def test_a_build_for_another_device_satisfies_the_pin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("torch==2.13.0\n")
    installed = {"torch": "2.13.0+cpu"}
    monkeypatch.setattr(launch.metadata, "version", installed.__getitem__)
    assert launch.missing_packages(requirements) == []
    installed["torch"] = "2.13.1"
    assert launch.missing_packages(requirements) == ["torch==2.13.0"]


@pytest.mark.parametrize(
    ("complaint", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("Retrying after connection broken by 'NewConnectionError(...)'", "network connection"),
        ("ERROR: No matching distribution found for torch==2.13.0", "Python 3.12"),
        ("ERROR: Could not find a version (from versions: none)", "Python 3.12"),
    ],
)
def test_a_failed_installation_says_what_to_do(complaint: str, advice: str) -> None:
    assert advice in launch.explain_pip(complaint)


def test_a_python_without_venv_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'No module named venv'\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(launch, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(launch.sys, "executable", str(broken))
    with pytest.raises(launch.SetupError, match=r"No module named venv\n.*apt install python3"):
        launch.ready_venv()


def test_a_full_disk_is_told_where_pip_gives_no_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(launch.sys, "executable", shutil.which("false"))
    monkeypatch.setattr(launch.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(launch.SetupError, match="The disk is full"):
        launch.ready_venv()


class Project:
    """A copy of launch.py with an app of three lines and one small requirement."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "wheels"
        self.wheels.mkdir(parents=True)
        shutil.copy(ROOT / "launch.py", folder)
        (folder / "app").mkdir()
        (folder / "app" / "cli.py").write_text(
            "import sys, pear\n"
            "def main(arguments):\n"
            "    print(sys.prefix, pear.version, *arguments)\n"
            "    return 7\n"
        )
        self.require("1.0")

    def require(self, version: str) -> None:
        (self.folder / "requirements.txt").write_text(f"# comment\npear=={version}\n")

    def offer(self, version: str) -> None:
        """Make a wheel of the required package."""
        info = f"pear-{version}.dist-info"
        with zipfile.ZipFile(self.wheels / f"pear-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("pear.py", f"version = '{version}'\n")
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: pear\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")

    def launch(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
        }
        command = [sys.executable, str(self.folder / "launch.py"), *arguments]
        return subprocess.run(
            command, env=environment, cwd=self.wheels, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


@pytest.mark.real
def test_a_set_up_from_nothing_to_a_refresh(project: Project) -> None:
    """One test, since each step starts from what the one before left in `.venv`."""
    nothing_found = project.launch("--version")
    assert nothing_found.returncode == 1
    assert nothing_found.stdout == ""
    assert "too new or too old" in nothing_found.stderr

    project.offer("1.0")
    resumed = project.launch("import", "a b")  # `.venv` is there, and not taken for a whole one
    assert resumed.stdout.split(maxsplit=1) == [
        str(project.folder / ".venv"),
        "1.0 import a b\n",
    ]
    assert resumed.returncode == 7
    assert "Making a virtual environment" not in resumed.stderr
    assert "Installing" in resumed.stderr

    again = project.launch()
    assert (again.returncode, again.stderr) == (7, "")

    project.require("2.0")
    project.offer("2.0")
    refreshed = project.launch()
    assert " 2.0" in refreshed.stdout
    assert "Installing" in refreshed.stderr

    (project.folder / ".venv" / ".requirements.txt.sha256").unlink()  # as if pip was interrupted
    assert "Installing" in project.launch().stderr

    python = project.folder / ".venv" / "bin" / "python"
    if python.exists():  # an environment whose Python is gone is made anew
        python.unlink()
        remade = project.launch()
        assert "Making a virtual environment" in remade.stderr
        assert " 2.0" in remade.stdout


@pytest.mark.real
def test_an_environment_that_satisfies_the_requirements_is_used_as_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (project.folder / "requirements.txt").write_text("pytest==" + pytest.__version__)
    (project.folder / "app" / "cli.py").write_text(
        "import sys\ndef main(arguments):\n    print(sys.executable)\n    return 0\n"
    )
    used = project.launch()
    assert used.stdout.strip() == sys.executable
    assert not (project.folder / ".venv").exists()
