"""The one command: makes sure of an environment with the pinned packages, then runs the app in it.

Knows nothing of the app but `app.cli.main`. Stdlib only, and syntax that an old Python can read far
enough to be told that it is too old.

Where the running Python has the packages already, it is used as it is. Otherwise `.venv` beside
this file is made, filled and used; it is refreshed when the requirements change, and a set-up that
was interrupted goes on at the next start.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (this is how an older one is told)
    sys.exit(
        "Lookahead Chat needs Python 3.11 or newer, and this is "
        f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}).\n"
        "Install a newer Python (https://www.python.org/downloads/ or your package manager) and "
        "start with it, for example: python3.12 launch.py"
    )

import hashlib
import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
RUN_REQUIREMENTS = (ROOT / "requirements.txt",)
TEST_REQUIREMENTS = (*RUN_REQUIREMENTS, ROOT / "requirements-dev.txt")
EXIT_INTERRUPTED = 130
VENV_BYTES = 50_000_000  # an empty one

NO_SPACE_SIGNS = ("No space left", "Errno 28", "not enough space")
NO_NETWORK_SIGNS = (
    "connection broken",
    "NewConnectionError",
    "NameResolutionError",
    "Max retries exceeded",
    "Read timed out",
    "ProxyError",
)


class SetupError(Exception):
    """The environment cannot be prepared. The message says why and what to do."""


def main(arguments: list[str]) -> int:
    """Prepare the environment for the command in `arguments`, run it, return its exit status."""
    requirements = TEST_REQUIREMENTS if arguments[:1] == ["test"] else RUN_REQUIREMENTS
    try:
        if not is_satisfied(requirements):
            if not is_inside_venv():
                return run_again_with(ready_venv(), arguments)
            install(requirements)
    except SetupError as error:
        say(f"Error: {error}")
        return 1
    except KeyboardInterrupt:
        say("Stopped. Start again to go on with the set-up.")
        return EXIT_INTERRUPTED
    from app.cli import main as run_command

    return run_command(arguments)


def is_satisfied(requirements: tuple[Path, ...]) -> bool:
    """Whether this Python has every pinned package; in `.venv` the set-up must have ended, too."""
    if is_inside_venv() and not all(is_stamped(path) for path in requirements):
        return False
    return not any(missing_packages(path) for path in requirements)


def missing_packages(requirements: Path) -> list[str]:
    """The pins of a requirements file that this Python does not have."""
    missing = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        pin = line.split("#")[0].strip()
        if pin:
            name, version = pin.split("==")
            try:
                installed = metadata.version(name)
            except metadata.PackageNotFoundError:
                installed = None
            if installed is None or installed.split("+")[0] != version:  # 2.13.0+cpu is 2.13.0
                missing.append(pin)
    return missing


def is_inside_venv() -> bool:
    """Whether the running Python is that of `.venv`."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def ready_venv() -> Path:
    """Return the Python of `.venv`, made anew where there is none that works."""
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if works(python):
        return python
    say(f"Making a virtual environment in {VENV}")
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    made = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if made.returncode == 0 and works(python):
        return python
    # pip's installation inside fails without a reason, so the disk is asked, too.
    is_full = shutil.disk_usage(ROOT).free < VENV_BYTES
    if is_full or has_sign(made.stdout, NO_SPACE_SIGNS):
        raise SetupError(f"The disk is full: {VENV} could not be made. Free some space.")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    raise SetupError(
        f"This Python ({sys.executable}) could not make a virtual environment:\n"
        f"{made.stdout.strip()}\n"
        f"On Debian or Ubuntu `sudo apt install python{version}-venv` helps; elsewhere install "
        "Python with its venv and pip modules, then start again."
    )


def works(python: Path) -> bool:
    """Whether an environment's Python runs, is new enough and has pip."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        command = [str(python), "-c", check]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def run_again_with(python: Path, arguments: list[str]) -> int:
    """Go on in `.venv`: this process becomes that one, or on Windows waits for it."""
    command = [str(python), str(ROOT / "launch.py"), *arguments]
    if os.name != "nt":
        os.execv(command[0], command)
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # it was told as well and ends by itself
            continue


def install(requirements: tuple[Path, ...]) -> None:
    """Install into this environment with pip, which shows its progress; then stamp it."""
    say(f"Installing the packages into {VENV} (the first time takes some minutes)")
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    for path in requirements:
        stamp_of(path).unlink(missing_ok=True)
        command += ["-r", str(path)]
    # stdout stays free for what the command itself prints.
    complaints = []
    with subprocess.Popen(command, stdout=sys.stderr, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                complaints.append(line.decode(errors="replace"))
                sys.stderr.write(complaints[-1])
        except KeyboardInterrupt:
            process.wait()  # pip was told as well: a restart must not meet it
            raise
    if process.returncode != 0:
        raise SetupError(explain_pip("".join(complaints)))
    still_missing = [pin for path in requirements for pin in missing_packages(path)]
    if still_missing:
        raise SetupError(
            f"After the installation {', '.join(still_missing)} cannot be found. "
            f"Delete {VENV} and start again."
        )
    for path in requirements:
        write_stamp(path)


def explain_pip(complaints: str) -> str:
    """Say in a sentence why pip failed, and what to do."""
    if has_sign(complaints, NO_SPACE_SIGNS):
        return (
            f"The disk is full. The packages need about 2 GB, with CUDA 8 GB, in {VENV} and as "
            "much in the temporary folder. Free some space (or set TMPDIR to a folder on another "
            "disk), then start again."
        )
    if has_sign(complaints, NO_NETWORK_SIGNS):
        return (
            "The packages could not be downloaded. Check the network connection (behind a proxy, "
            "set HTTPS_PROXY), then start again: what has arrived is kept."
        )
    return (
        "pip could not install the packages; the lines above say why. If it finds no matching "
        f"distribution, this Python ({sys.version_info[0]}.{sys.version_info[1]}) is too new or "
        f"too old for one of them: delete {VENV} and start with another one; Python 3.12 is a "
        "good choice. Otherwise start again."
    )


def has_sign(text: str, signs: tuple[str, ...]) -> bool:
    """Whether one of the signs is in the text."""
    return any(sign.lower() in text.lower() for sign in signs)


def stamp_of(requirements: Path) -> Path:
    """The file in `.venv` that says which requirements were installed completely."""
    return VENV / f".{requirements.name}.sha256"


def is_stamped(requirements: Path) -> bool:
    """Whether exactly these requirements were installed completely."""
    try:
        return stamp_of(requirements).read_text(encoding="ascii") == sha256(requirements)
    except OSError:
        return False


def write_stamp(requirements: Path) -> None:
    """Remember that these requirements are installed."""
    stamp_of(requirements).write_text(sha256(requirements), encoding="ascii")


def sha256(path: Path) -> str:
    """The hash of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(text: str) -> None:
    """Tell the user; stdout is for what the command prints."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
