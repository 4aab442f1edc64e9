"""Prompt files: what is taken, in which order, and what is said of a bad line."""

import json
from pathlib import Path

import pytest

from app.bench.prompt_sets import (
    OWN_PROMPTS,
    OWN_WARMUP,
    BenchPrompt,
    PromptSetError,
    overlap_share,
    read_prompts,
)

CATEGORIES = {
    *("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"),
    *("translation", "summarization", "qa", "math_reasoning", "rag"),
}


def line(name: str, category: str = "qa", turns: object = ("Why?",)) -> str:
    return json.dumps({"id": name, "category": category, "turns": turns})


def test_our_own_sets_have_every_category_and_share_next_to_nothing() -> None:
    prompts, warmup = read_prompts(OWN_PROMPTS), read_prompts(OWN_WARMUP)
    counts = [sum(p.category == name for p in prompts.prompts) for name in CATEGORIES]
    assert min(counts) >= 3
    for known in (prompts, warmup):
        assert {prompt.category for prompt in known.prompts} == CATEGORIES
    assert {p.id for p in prompts.prompts}.isdisjoint(p.id for p in warmup.prompts)
    assert overlap_share(prompts.prompts, warmup.prompts) < 0.01
    assert sum(len(p.turns) > 1 for p in prompts.prompts) >= 24


def test_prompts_go_round_the_categories_so_that_a_limit_keeps_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    named = [line("a1", "a"), line("a2", "a"), line("a3", "a"), line("b1", "b"), line("b2", "b")]
    path.write_text("\n".join(named) + "\n\n", encoding="utf-8")
    prompts = read_prompts(path)
    assert [prompt.id for prompt in prompts.prompts] == ["a1", "b1", "a2", "b2", "a3"]
    assert [prompt.id for prompt in prompts.limited(2).prompts] == ["a1", "b1"]
    assert prompts.of(()) == prompts
    assert {prompt.category for prompt in prompts.of(["b"]).prompts} == {"b"}
    with pytest.raises(PromptSetError, match=r"no category 'z'\. Choose of: a, b"):
        prompts.of(["b", "z"])
    assert (prompts.name, len(prompts.sha256)) == ("p.jsonl", 64)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"id": "x", "turns": ["?"]}', "'category' is missing"),
        (line(" "), "'id' must be a text"),
        (line("x", category=""), "'category' must be a text"),
        (line("x", turns=[]), "'turns' must be a list"),
        (line("x", turns="Why?"), "'turns' must be a list"),
        (line("x", turns=["Why?", 3]), "every turn must be a text"),
        (line("x", turns=["Why?", " "]), "every turn must be a text"),
        (line("first"), "the id 'first' is there already"),
    ],
)
def test_a_bad_line_is_told_with_its_number_and_the_reason(
    bad: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f"{line('first')}\n\n{bad}\n", encoding="utf-8")
    with pytest.raises(PromptSetError, match=r"p\.jsonl, line 3: ") as refused:
        read_prompts(path)
    assert reason in str(refused.value)


@pytest.mark.parametrize(("data", "said"), [(b"\n", "holds no prompt"), (b"\xff\xfe", "UTF-8")])
def test_a_file_without_prompts_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(data)
    with pytest.raises(PromptSetError, match=said):
        read_prompts(path)
    with pytest.raises(PromptSetError, match="cannot be read"):
        read_prompts(tmp_path / "nowhere.jsonl")


def test_overlap_is_the_share_of_runs_of_eight_words() -> None:
    words = "one two three four five six seven eight nine ten"  # three runs of eight
    asked = [BenchPrompt("a", "qa", (words,)), BenchPrompt("b", "qa", ("Short one?",))]
    known = [BenchPrompt("c", "qa", ("ONE two, three four five six: seven eight! Eleven",))]
    assert overlap_share(asked, known) == 1 / 4
    assert overlap_share(asked, [*known, BenchPrompt("d", "qa", ("short one",))]) == 2 / 4
    assert overlap_share([], known) == 0.0
