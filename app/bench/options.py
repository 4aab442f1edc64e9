"""What `bench` can be asked for, with the defaults of each suite.

Knows no suite's work. Made by the command line, read by the suites.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app import paths
from app.bench.errors import BenchError
from app.settings import Settings

__all__ = ["SUITES", "BenchOptions", "add_bench_options", "parse_bench_options"]

SUITES = ("quick", "full", "replay", "trie", "worst-case", "turns", "start")

_DEFAULT_LENGTHS = {"quick": 24, "full": 128, "replay": 256, "worst-case": 48, "turns": 48}
_DEFAULT_LIMITS = {"quick": 13, "worst-case": 13, "turns": 8}
_ASKING = ("prompts", "categories", "max_new_tokens", "limit")
_LIVE = (*_ASKING, "warmup", "warmup_limit", "drafters", "gguf", "compare")
_USED = {  # suite → the options that it reads, beside those of every suite
    "quick": _LIVE,
    "full": _LIVE,
    "replay": (*_ASKING, "drafters", "measure_costs"),
    "trie": ("limit",),
    "worst-case": (*_ASKING, "compare"),
    "turns": (*_ASKING, "compare"),
    "start": ("limit",),
}
_FLAGS = {
    "prompts": "--prompts",
    "categories": "--category",
    "warmup": "--warmup",
    "drafters": "--drafter",
    "gguf": "--gguf",
    "measure_costs": "--measure-costs",
    "compare": "--compare",
}
_COUNTS = {
    "max_new_tokens": "--max-new-tokens",
    "limit": "--limit",
    "warmup_limit": "--warmup-limit",
}


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """One run.

    Args:
        settings: model, device, dtype, mode, context length.
        prompts: JSON lines to ask; None: the project's own. `warmup`: likewise, to warm the Trie.
        categories: of the prompts, to ask these alone; empty: all.
        max_new_tokens: of an answer; None: what suits the suite.
        limit: prompts at most, of `trie` tokens, of `start` starts; None: what suits the suite.
        warmup_limit: prompts to warm with at most; None: as many as are asked.
        drafters: names of further drafters to run.
        gguf: for the arm of llama.cpp; None: that of the embedded model, if it is installed.
        measure_costs: measure what steps cost here, for the replay's expected speed-up.
        compare: the JSON of an earlier run, to hold this one against.
        json_path: where the report goes as JSON. `charts`: folder of Markdown and charts.
    """

    suite: str = "quick"
    settings: Settings = field(default_factory=Settings)
    prompts: Path | None = None
    warmup: Path | None = None
    categories: tuple[str, ...] = ()
    max_new_tokens: int | None = None
    limit: int | None = None
    warmup_limit: int | None = None
    drafters: tuple[str, ...] = ()
    gguf: Path | None = None
    measure_costs: bool = False
    compare: Path | None = None
    json_path: Path | None = None
    charts: Path | None = None

    @property
    def answer_length(self) -> int:
        """Tokens of an answer at most."""
        return self.max_new_tokens or _DEFAULT_LENGTHS.get(self.suite, 128)

    @property
    def num_prompts(self) -> int | None:
        """Prompts at most; None: all."""
        return self.limit or _DEFAULT_LIMITS.get(self.suite)


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Values stay strings here: `parse_bench_options` checks them."""
    parser.add_argument("--suite", choices=SUITES, default="quick", help="what to measure")
    parser.add_argument("--prompts", metavar="FILE", help="JSON lines with id, category, turns")
    parser.add_argument(
        "--category",
        dest="categories",
        action="append",
        metavar="NAME",
        help="ask the prompts of this category alone; can be repeated",
    )
    parser.add_argument("--warmup", metavar="FILE", help="the same, to warm the Trie with")
    parser.add_argument("--max-new-tokens", metavar="N", help="tokens of an answer at most")
    parser.add_argument(
        "--limit", metavar="N", help="prompts (trie: tokens, start: starts) at most"
    )
    parser.add_argument(
        "--warmup-limit", metavar="N", help="prompts to warm with (default: as many as are asked)"
    )
    parser.add_argument(
        "--drafter",
        dest="drafters",
        action="append",
        metavar="NAME",
        help="measure this drafter, too; can be repeated",
    )
    parser.add_argument("--gguf", metavar="FILE", help="weights for the arm of llama.cpp")
    parser.add_argument(
        "--measure-costs",
        action="store_true",
        help="suite replay: first measure what a step costs here by its width (minutes)",
    )
    parser.add_argument(
        "--compare", metavar="FILE", help="hold the run against an earlier one's --json file"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--charts", metavar="FOLDER", help="write the report and its charts here")


def parse_bench_options(values: Mapping[str, Any], settings: Settings) -> BenchOptions:
    """Check what the command line was given; files that are written are tried at once.

    Raises:
        BenchError: a value is not possible.
    """
    _check_used(values)
    counts = {name: _count(values.get(name), flag) for name, flag in _COUNTS.items()}
    drafters = tuple(dict.fromkeys(values.get("drafters") or ()))
    _check_drafters(drafters)
    json_path, charts = _path(values.get("json")), _path(values.get("charts"))
    try:
        if charts is not None:
            charts.mkdir(parents=True, exist_ok=True)
        if json_path is not None:
            json_path.parent.mkdir(parents=True, exist_ok=True)
            if json_path.is_dir() or not os.access(json_path.parent, os.W_OK):
                raise BenchError(f"{json_path} cannot be written. Give another file to --json.")
    except OSError as error:
        raise BenchError(f"The report cannot be written: {error}. Give another place.") from error
    return BenchOptions(
        suite=values["suite"],
        settings=settings,
        prompts=_existing(_path(values.get("prompts"))),
        warmup=_existing(_path(values.get("warmup"))),
        categories=tuple(dict.fromkeys(values.get("categories") or ())),
        drafters=drafters,
        gguf=_existing(_path(values.get("gguf"))),
        compare=_existing(_path(values.get("compare"))),
        measure_costs=bool(values.get("measure_costs")),
        json_path=json_path,
        charts=charts,
        **counts,
    )


def _count(value: str | None, flag: str) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value) >= 1):
        raise BenchError(f"{flag} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def _path(value: str | None) -> Path | None:
    return None if value is None else paths.expanded(value).absolute()


def _existing(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise BenchError(f"{path}: there is no such file. Check the name and the folder.")
    return path


def _check_used(values: Mapping[str, Any]) -> None:
    """Refuse what the suite would pass over."""
    used = _USED[values["suite"]]
    for name, flag in {**_FLAGS, **_COUNTS}.items():
        if values.get(name) and name not in used:
            suites = ", ".join(suite for suite in SUITES if name in _USED[suite])
            raise BenchError(
                f"The suite {values['suite']} does not use {flag}: leave it out, or choose "
                f"--suite {suites}."
            )
    if values.get("gguf") and find_spec("llama_cpp") is None:
        raise BenchError("--gguf needs the package llama-cpp-python, which is not installed.")


def _check_drafters(chosen: tuple[str, ...]) -> None:
    from lookahead import drafters

    unknown = sorted(set(chosen) - set(drafters.names()))
    if unknown:
        raise BenchError(
            f"There is no drafter {unknown[0]!r}. Choose of: {', '.join(drafters.names())}."
        )
