"""Flexible mode is lossless: in float64 every generation equals plain decoding, token for token."""

import math
import random
from collections import Counter

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import lookahead
from lookahead import DecodingConfig, SamplingConfig, TokenSource, Trie
from lookahead.loaded_model import LoadedModel
from tests.lookahead.oracle_drafter import OracleDrafter
from tests.lookahead.tiny_models import (
    FAMILIES,
    FAMILIES_WITHOUT_TREES,
    VOCAB_SIZE,
    WINDOWED_FAMILIES,
    tiny_model,
)

pytestmark = pytest.mark.tiny

prompts = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=40)
seeds = st.integers(0, 2**32)
lengths = st.integers(1, 32)
temperatures = st.sampled_from([0.0, 0.0, 0.8, 1.5])
# Every model runs this often: 6 models, 3 generations and 1 library call each time.
many = settings(max_examples=26, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def answer(model: LoadedModel, prompt: list[int], **choices: object) -> lookahead.Finished:
    *_, finished = lookahead.generate(model, prompt, **choices)  # type: ignore[arg-type]
    assert isinstance(finished, lookahead.Finished)
    return finished


def library_answer(model: LoadedModel, prompt: list[int], max_new_tokens: int) -> list[int]:
    """What the library's own greedy `generate()` says, end of sequence left out."""
    ids = model.hf_model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=max_new_tokens,
        do_sample=False,
    )
    new = ids[0, len(prompt) :].tolist()
    return [token_id for token_id in new if token_id not in model.end_token_ids]


def warm_trie(continuation: list[int], seed: int) -> Trie:
    """The right continuation, wrong ones that fork off it, and noise."""
    draw = random.Random(seed)
    trie = Trie()
    for _ in range(draw.randint(0, 6)):
        wrong = list(continuation)
        wrong[draw.randrange(len(wrong))] = draw.randrange(VOCAB_SIZE)
        trie.add(wrong, source=draw.choice([TokenSource.HISTORY, TokenSource.DOCUMENT]))
    trie.add(continuation)
    trie.add([draw.randrange(VOCAB_SIZE) for _ in range(40)], source=TokenSource.DOCUMENT)
    return trie


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_draft_changes_the_text(family: str, attention: str) -> None:
    """≥ 300 drafted generations in all, their drafts accepted on every branch of the tree."""
    model = tiny_model(family, attention)
    assert model.mode == "flexible"
    seen: Counter[str] = Counter()

    @many
    @given(prompts, seeds, lengths, temperatures)
    def check(prompt: list[int], seed: int, length: int, temperature: float) -> None:
        choices = {
            "decoding": DecodingConfig(
                max_new_tokens=length, max_rows=1 + seed % 24, adaptive=seed % 8 == 0
            ),
            "sampling": SamplingConfig(temperature=temperature, seed=seed),
        }
        plain = answer(model, prompt, **choices)
        text = list(plain.token_ids)
        if temperature == 0:
            assert text == library_answer(model, prompt, length)
        whole = [*prompt, *text]
        drafter = OracleDrafter(whole, VOCAB_SIZE, seed)
        events = list(lookahead.generate(model, prompt, drafter=drafter, **choices))
        assert list(events[-1].token_ids) == text
        warm = answer(model, prompt, trie=warm_trie(whole, seed), **choices)
        assert (list(warm.token_ids), warm.reason) == (text, plain.reason)
        for event in events:
            if isinstance(event, lookahead.StepDone):
                seen["multi"] += event.accepted_length >= 2
                seen["side"] += event.accepted_nodes != (*range(1, event.accepted_length + 1),)
        seen["generations"] += 2

    check()
    assert seen["generations"] >= 50
    assert seen["multi"] >= 8, "drafts must be accepted, or nothing was tested"
    assert seen["side"] >= 4, "other branches than the first must be accepted, too"


@pytest.mark.parametrize(("family", "attention"), [*WINDOWED_FAMILIES, ("qwen3", "sdpa")])
def test_sliding_windows_and_other_families_are_lossless_too(family: str, attention: str) -> None:
    """The context is far longer than the window of eight."""
    model = tiny_model(family, attention)
    assert model.mode == "flexible"
    num_accepted = 0
    for seed in range(6):
        prompt = [(3 * seed + 7 * at) % VOCAB_SIZE for at in range(20)]
        choices = {"decoding": DecodingConfig(max_new_tokens=30, adaptive=False)}
        text = list(answer(model, prompt, **choices).token_ids)
        assert text == library_answer(model, prompt, 30)
        drafter = OracleDrafter([*prompt, *text], VOCAB_SIZE, seed)
        drafted = answer(model, prompt, drafter=drafter, **choices)
        assert list(drafted.token_ids) == text
        num_accepted += drafted.stats.num_accepted_tokens
    assert num_accepted >= 20


@pytest.mark.parametrize("strict", [False, True])
def test_no_draft_straddles_a_switch_of_the_rotary_embedding(strict: bool) -> None:
    """Longrope takes other factors for a whole forward once it reaches past 32 tokens: drafts that
    did changed 17 of 20 texts."""
    model = tiny_model("phi3")
    assert [model.adapter.max_draft_depth(at) for at in (0, 29, 31, 32)] == [31, 2, 0, math.inf]
    choices = {"decoding": DecodingConfig(max_new_tokens=30, strict=strict, adaptive=False)}
    num_accepted = 0
    for seed in range(12):
        prompt = [(3 * seed + 7 * at) % VOCAB_SIZE for at in range(20)]
        plain = answer(model, prompt, **choices).token_ids
        drafter = OracleDrafter([*prompt, *plain], VOCAB_SIZE, seed)
        drafted = answer(model, prompt, drafter=drafter, **choices)
        assert drafted.token_ids == plain
        num_accepted += drafted.stats.num_accepted_tokens
    assert num_accepted >= 40


@pytest.mark.parametrize("family", FAMILIES_WITHOUT_TREES)
def test_a_model_that_takes_no_trees_decodes_plainly_and_says_why(family: str) -> None:
    """Bloom takes no tree mask, Mamba cannot be rolled back, Llama 4 attends in chunks."""
    model = tiny_model(family)
    assert model.mode == "plain"
    assert model.mode_reason.startswith("Plain decoding only: ")
    prompt = [7, 3, 9, 3, 9]
    session = lookahead.Session(model)
    for _ in range(2):
        finished = answer(
            model, prompt, trie=Trie(), session=session, decoding=DecodingConfig(max_new_tokens=20)
        )
        assert finished.stats.mode == "plain"
        assert list(finished.token_ids) == library_answer(model, prompt, 20)
        prompt = [*prompt, *finished.token_ids, 4, 8]


@pytest.mark.parametrize("family", FAMILIES)
def test_token_id_zero_is_an_ordinary_token(family: str) -> None:
    """The ancestor takes id 0 for "none": 30 of 180 of its fp32 generations came out wrong."""
    model = tiny_model(family)
    choices = {
        "decoding": DecodingConfig(max_new_tokens=40, adaptive=False),
        "sampling": SamplingConfig(temperature=3.0, seed=1),
    }
    zeros = 0
    for start in range(12):
        prompt = [0, start, 0]
        text = list(answer(model, prompt, **choices).token_ids)
        drafter = OracleDrafter([*prompt, *text], VOCAB_SIZE, start)
        assert list(answer(model, prompt, drafter=drafter, **choices).token_ids) == text
        zeros += text.count(0)
    assert zeros >= 1


def test_logits_over_a_tree_are_those_of_each_branch() -> None:
    """Siblings, cousins and equal tokens on several branches, behind a context and behind none."""
    model = tiny_model("llama")
    session = lookahead.Session(model)
    context = [3, 1, 4, 1, 5, 9]
    session.run(context)
    token_ids = [2, 6, 5, 6, 0, 0, 7, 6]
    parents = [-1, 0, 1, 0, 3, 0, 5, 6]
    logits = model.adapter.verify(token_ids, parents, session.cache)
    for node in range(len(token_ids)):
        path, at = [], node
        while at >= 0:
            path.append(token_ids[at])
            at = parents[at]
        row = model.hf_model(torch.tensor([[*context, *path[::-1]]])).logits[0, -1]
        assert torch.allclose(logits[node], row, atol=1e-12)
