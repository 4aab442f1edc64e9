"""Strict mode keeps a seed's text under every sampling setting, on the embedded model.

`--slow`: two hundred seeds, each with settings of its own, in both dtypes.
"""

import random
from pathlib import Path

import pytest

import lookahead
from lookahead import DecodingConfig, SamplingConfig, Trie
from lookahead.loaded_model import LoadedModel
from tests.lookahead.prompts import PROMPTS

pytestmark = pytest.mark.real

DTYPES = [
    pytest.param("bfloat16", 4, id="bfloat16-4"),
    pytest.param("bfloat16", 200, id="bfloat16-200", marks=pytest.mark.slow),
    pytest.param("float32", 200, id="float32-200", marks=pytest.mark.slow),
]


def setting(seed: int) -> SamplingConfig:
    """Every setting on or off, by the seed; one in eight is greedy with a penalty."""
    draw = random.Random(seed)
    penalty = draw.choice((1.0, 1.1, 1.3))
    if seed % 8 == 7:
        return SamplingConfig(repetition_penalty=max(penalty, 1.1))
    return SamplingConfig(
        temperature=draw.choice((0.5, 0.8, 1.0, 1.3)),
        top_k=draw.choice((0, 5, 50)),
        top_p=draw.choice((1.0, 0.9, 0.5)),
        min_p=draw.choice((0.0, 0.05)),
        repetition_penalty=penalty,
        seed=seed,
    )


def answer(
    model: LoadedModel, prompt: list[int], sampling: SamplingConfig, trie: Trie | None
) -> lookahead.Finished:
    decoding = DecodingConfig(max_new_tokens=24, max_rows=16, adaptive=False)
    *_, finished = lookahead.generate(
        model, prompt, decoding=decoding, sampling=sampling, trie=trie, observe=False
    )
    assert isinstance(finished, lookahead.Finished)
    return finished


@pytest.mark.parametrize(("dtype", "num_seeds"), DTYPES)
def test_no_trie_changes_what_a_seed_says(
    dtype: str, num_seeds: int, embedded_model_path: Path
) -> None:
    model = lookahead.load_model(embedded_model_path, device="cpu", dtype=dtype, strict=True)
    num_accepted = 0
    for seed in range(num_seeds):
        sampling = setting(seed + 4)
        message = {"role": "user", "content": PROMPTS[seed % len(PROMPTS)]}
        prompt: list[int] = model.tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, return_dict=False
        )
        plain = answer(model, prompt, sampling, None)
        whole = [*prompt, *plain.token_ids]
        warm, hostile = Trie(), Trie()
        warm.add(whole)
        for at in range(len(prompt), len(whole), 3):  # the right way on, then a wrong one, often
            for _ in range(3):
                hostile.add([*whole[:at], (whole[at] + 1) % 40_000, *whole[at + 1 : at + 4]])
        for trie in (Trie(), warm, hostile):
            drafted = answer(model, prompt, sampling, trie)
            assert (drafted.token_ids, drafted.reason) == (plain.token_ids, plain.reason), sampling
            num_accepted += drafted.stats.num_accepted_tokens
    assert num_accepted >= 3 * num_seeds, "drafts must be accepted, or nothing was tested"
