"""The machine and the versions a run was made with, in words that anybody may read.

No host name, no user, no path. Called when a report is written.
"""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

from app import __version__

__all__ = ["describe_machine", "describe_versions"]

_LIBRARIES = ("torch", "transformers", "numpy", "pydivsufsort", "matplotlib", "llama_cpp_python")
_GIBIBYTE = 1024**3


def describe_machine() -> dict[str, str | int | float]:
    """CPU model, cores that this process may use, memory, system, accelerators."""
    return {
        "cpu": _cpu_model(),
        "cores": _num_cores(),
        "memory_gib": round(_memory_bytes() / _GIBIBYTE, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "accelerator": _accelerator(),
    }


def describe_versions() -> dict[str, str]:
    """Versions of the app, of Python and of what decides about speed."""
    versions = {"lookahead-chat": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 0


def _accelerator() -> str:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "mps" if torch.backends.mps.is_available() else "none"
