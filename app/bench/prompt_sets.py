"""Sets of prompts: JSON lines with `id`, `category` and `turns`, checked as they are read.

The project's own sets lie in `data/`. Knows no model. Called by every suite that asks questions.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.bench.errors import BenchError

__all__ = [
    "OWN_PROMPTS",
    "OWN_WARMUP",
    "BenchPrompt",
    "PromptSet",
    "PromptSetError",
    "overlap_share",
    "read_prompts",
]

OWN_PROMPTS = Path(__file__).parent / "data" / "prompts.jsonl"
OWN_WARMUP = Path(__file__).parent / "data" / "warmup.jsonl"

_OVERLAP_WORDS = 8
_KEYS = {"id", "category", "turns"}


class PromptSetError(BenchError):
    """A file of prompts cannot be used. The message names the line and says what is wrong."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One question or conversation: `turns` are what the user says, in order."""

    id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts in the order in which they are run, the name of their file and its hash."""

    name: str
    sha256: str
    prompts: tuple[BenchPrompt, ...]

    def limited(self, limit: int | None) -> "PromptSet":
        """The first `limit` prompts; since they go round the categories, all are in it early."""
        return PromptSet(self.name, self.sha256, self.prompts[:limit])

    def of(self, categories: Sequence[str]) -> "PromptSet":
        """The prompts of some categories alone; of none: all. Raises PromptSetError."""
        if not categories:
            return self
        known = list(dict.fromkeys(prompt.category for prompt in self.prompts))
        for category in categories:
            if category not in known:
                raise PromptSetError(
                    f"{self.name} has no category {category!r}. Choose of: {', '.join(known)}."
                )
        chosen = tuple(prompt for prompt in self.prompts if prompt.category in categories)
        return PromptSet(self.name, self.sha256, chosen)

    def of_several_turns(self) -> "PromptSet":
        """The conversations alone."""
        several = tuple(prompt for prompt in self.prompts if len(prompt.turns) > 1)
        return PromptSet(self.name, self.sha256, several)


def read_prompts(path: Path) -> PromptSet:
    """Read a file of prompts and order them so that they go round its categories.

    Raises:
        PromptSetError: the file cannot be read, is empty, or has a bad line.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptSetError(
            f"{path} cannot be read as UTF-8 text: {error}. Give JSON lines with id, category and "
            "turns."
        ) from error
    prompts: dict[str, BenchPrompt] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            prompt = _parse(line)
            if prompt.id in prompts:
                raise ValueError(f"the id {prompt.id!r} is there already")
        except ValueError as error:
            raise PromptSetError(f"{path}, line {number}: {error}.") from None
        prompts[prompt.id] = prompt
    if not prompts:
        raise PromptSetError(f"{path} holds no prompt.")
    return PromptSet(
        path.name, hashlib.sha256(data).hexdigest(), _round_the_categories(prompts.values())
    )


def _parse(line: str) -> BenchPrompt:
    """One line's prompt. Raises ValueError with the reason."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object with id, category and turns")
    missing = sorted(_KEYS - entry.keys())
    if missing:
        raise ValueError(f"{missing[0]!r} is missing")
    for key in ("id", "category"):
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise ValueError(f"{key!r} must be a text that is not empty")
    turns = entry["turns"]
    if not isinstance(turns, list) or not turns:
        raise ValueError("'turns' must be a list of one text or more")
    if not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise ValueError("every turn must be a text that is not empty")
    return BenchPrompt(entry["id"], entry["category"], tuple(turns))


def _round_the_categories(prompts: Iterable[BenchPrompt]) -> tuple[BenchPrompt, ...]:
    """The first prompt of each category, then the second of each, and so on."""
    num_before: dict[str, int] = {}
    keyed = []
    for prompt in prompts:
        keyed.append((num_before.get(prompt.category, 0), prompt))
        num_before[prompt.category] = keyed[-1][0] + 1
    return tuple(prompt for _, prompt in sorted(keyed, key=lambda pair: pair[0]))


def overlap_share(prompts: Sequence[BenchPrompt], warmup: Sequence[BenchPrompt]) -> float:
    """Share of the prompts' runs of eight words that a warm-up prompt has, too.

    A turn of fewer words counts as one run. Case and punctuation are passed over.
    """
    known = {run for prompt in warmup for run in _word_runs(prompt)}
    runs = [run for prompt in prompts for run in _word_runs(prompt)]
    return sum(run in known for run in runs) / len(runs) if runs else 0.0


def _word_runs(prompt: BenchPrompt) -> Iterable[tuple[str, ...]]:
    for turn in prompt.turns:
        words = re.findall(r"\w+", turn.lower())
        for start in range(max(1, len(words) - _OVERLAP_WORDS + 1)):
            yield tuple(words[start : start + _OVERLAP_WORDS])
