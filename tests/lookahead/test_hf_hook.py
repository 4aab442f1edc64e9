"""Lookahead decoding inside the library's own `generate()`."""

from functools import partial

import pytest
import torch

import lookahead
from lookahead import DecodingConfig, hf_hook
from lookahead.errors import InvalidRequestError
from tests.lookahead.tiny_models import FAMILIES, tiny_hf_model

pytestmark = pytest.mark.tiny

INPUT_IDS = torch.tensor([[7, 3, 9, 3, 9]])
MASK = torch.ones_like(INPUT_IDS)


@pytest.fixture(autouse=True)
def verify_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock says; it might pause all drafting of so small a model."""
    monkeypatch.setattr(hf_hook, "DecodingConfig", partial(DecodingConfig, adaptive=False))


def generate(model: torch.nn.Module, **choices: object) -> torch.Tensor:
    torch.manual_seed(0)
    ids: torch.Tensor = model.generate(
        INPUT_IDS, attention_mask=MASK, custom_generate=lookahead.generate_hf, **choices
    )
    return ids


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"repetition_penalty": 1.7},
        {"no_repeat_ngram_size": 2},
        {"min_new_tokens": 20},
        {"bad_words_ids": [[3], [9]]},
    ],
    ids=lambda choices: next(iter(choices), "greedy"),
)
def test_greedy_ids_are_the_librarys_with_every_processor(
    family: str, choices: dict[str, object]
) -> None:
    """End of sequence included: `generate()` returns it. Twice: cold, then from the warm Trie."""
    model = tiny_hf_model(family, "sdpa", "float64")
    choices = {"do_sample": False, "max_new_tokens": 40, **choices}
    expected = model.generate(INPUT_IDS, attention_mask=MASK, **choices)
    trie = lookahead.Trie()
    assert torch.equal(generate(model, trie=trie, **choices), expected)
    assert torch.equal(generate(model, trie=trie, **choices), expected)
    assert trie.statistics().num_sequences == 2


def test_a_seed_gives_one_text_whatever_the_trie_holds() -> None:
    model = tiny_hf_model("llama", "sdpa", "float64")
    choices = {"do_sample": True, "temperature": 0.9, "top_p": 0.9, "max_new_tokens": 40}
    trie = lookahead.Trie()
    texts = [generate(model, trie=trie, seed=seed, **choices).tolist() for seed in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_tokens_are_told_as_they_come() -> None:
    model = tiny_hf_model("llama", "sdpa", "float64")
    told: list[int] = []
    ids = generate(model, trie=None, on_tokens=told.extend, do_sample=False, max_new_tokens=20)
    assert told == ids[0, INPUT_IDS.shape[1] :].tolist()


def test_what_it_cannot_do_is_refused_with_the_reason() -> None:
    model = tiny_hf_model("llama", "sdpa", "float64")
    two = INPUT_IDS.repeat(2, 1)
    padded = MASK.clone()
    padded[0, 0] = 0
    with pytest.raises(InvalidRequestError, match="no scores"):
        generate(model, max_new_tokens=4, output_scores=True, return_dict_in_generate=True)
    for ids, mask, problem in ((two, MASK.repeat(2, 1), "one prompt"), (INPUT_IDS, padded, "pad")):
        with pytest.raises(InvalidRequestError, match=problem):
            model.generate(
                ids, attention_mask=mask, custom_generate=lookahead.generate_hf, max_new_tokens=4
            )
