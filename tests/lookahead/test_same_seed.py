"""The same seed gives the same ids whatever is drafted: every sampling setting, in float64.

Tokens are chosen along the true path, so the settings hold under drafting as without.
"""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch

import lookahead
from lookahead import DecodingConfig, FinishReason, SamplingConfig, Trie
from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.loaded_model import LoadedModel
from lookahead.request_view import RequestView
from lookahead.verify import Acceptance, accept
from tests.lookahead.oracle_drafter import OracleDrafter
from tests.lookahead.tiny_models import VOCAB_SIZE, tiny_model

pytestmark = pytest.mark.tiny

PROMPT = [7, 3, 9, 3, 9, 11]
LENGTH = 16
SETTINGS = [
    {"temperature": t, "top_k": k, "top_p": p, "min_p": m, "repetition_penalty": r}
    for t, k, p, m, r in [
        *((0.0, 0, 1.0, 0.0, 1.3), (0.0, 0, 1.0, 0.0, 0.7)),
        *product((0.7, 1.5), (0, 6), (1.0, 0.8), (0.1,), (1.2,)),
        *((1.2, 6, 1.0, 0.0, 1.0), (1.2, 0, 0.8, 0.0, 1.0), (1.2, 0, 1.0, 0.1, 1.0)),
    ]
]


def answer(
    model: LoadedModel, sampling: SamplingConfig, *, stop_ids: Sequence[int] = (), **choices: object
) -> lookahead.Finished:
    decoding = DecodingConfig(
        max_new_tokens=LENGTH, max_rows=16, adaptive=False, stop_ids=frozenset(stop_ids)
    )
    *_, finished = lookahead.generate(
        model, PROMPT, decoding=decoding, sampling=sampling, observe=False, **choices
    )  # type: ignore[arg-type]
    assert isinstance(finished, lookahead.Finished)
    return finished


def hostile(right: Sequence[int], seed: int) -> Trie:
    """At every token, many times, another way to go on."""
    draw = random.Random(seed)
    trie = Trie()
    for at in range(len(PROMPT), len(right)):
        wrong = [*right[:at], (right[at] + draw.randrange(1, VOCAB_SIZE)) % VOCAB_SIZE]
        for _ in range(3):
            trie.add([*wrong, *right[at + 1 :]])
    return trie


@pytest.mark.parametrize(
    "setting", SETTINGS, ids=lambda setting: "-".join(map(str, setting.values()))
)
def test_no_trie_changes_what_a_seed_says(setting: dict[str, float]) -> None:
    model = tiny_model("llama")
    num_accepted = 0
    for seed in (1, 2):
        sampling = SamplingConfig(seed=seed, **setting)  # type: ignore[arg-type]
        plain = answer(model, sampling)
        whole = [*PROMPT, *plain.token_ids]
        warm = Trie()
        warm.add(whole)
        for trie in (Trie(), warm, hostile(whole, seed)):
            drafted = answer(model, sampling, trie=trie)
            assert (drafted.token_ids, drafted.reason) == (plain.token_ids, plain.reason)
            num_accepted += drafted.stats.num_accepted_tokens
        drafted = answer(model, sampling, drafter=OracleDrafter(whole, VOCAB_SIZE, seed))
        assert drafted.token_ids == plain.token_ids
        assert {name: getattr(drafted.stats, name) for name in setting} == setting
    assert num_accepted > 2, "drafts must be accepted, or nothing was tested"


def drafted_path(
    draft: DraftTree, choose: Callable[[int, Sequence[int]], int], end_ids: Collection[int]
) -> Acceptance:
    """A walk that takes what was drafted before a node for what was said before it."""
    return accept(draft, lambda node, path: choose(node, [*path, *draft.token_ids[1 : node + 2]]))


def test_a_penalty_that_saw_rejected_drafts_would_be_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the true path the texts are equal (above); with the drafted one they are not."""
    model = tiny_model("llama")
    num_wrong = 0
    for seed in range(4):
        sampling = SamplingConfig(temperature=0.7, repetition_penalty=1.6, seed=seed)
        plain = answer(model, sampling)
        whole = [*PROMPT, *plain.token_ids]
        for walk in (accept, drafted_path):
            monkeypatch.setattr("lookahead.decoding.accept", walk)
            drafter = OracleDrafter(whole, VOCAB_SIZE, seed)
            is_equal = answer(model, sampling, drafter=drafter).token_ids == plain.token_ids
            assert is_equal or walk is drafted_path
            num_wrong += not is_equal
    assert num_wrong > 1


def test_a_stop_id_ends_the_answer_where_plain_decoding_meets_it() -> None:
    """Also inside an accepted branch; it is left out as an end of sequence is."""
    model = tiny_model("llama")
    sampling = SamplingConfig(temperature=1.2, seed=4)
    whole = answer(model, sampling).token_ids
    for stop_id in dict.fromkeys(whole):
        expected = whole[: whole.index(stop_id)]
        oracle = OracleDrafter([*PROMPT, *whole], VOCAB_SIZE, stop_id)
        for choices in ({}, {"drafter": oracle}):
            finished = answer(model, sampling, stop_ids=[stop_id], **choices)
            assert (finished.token_ids, finished.reason) == (expected, FinishReason.STOP)
            assert finished.stats.num_end_tokens == 1


def test_logits_behind_a_stop_id_are_never_looked_at() -> None:
    """A drafter that drafts through an end had processors asked for tokens that no answer has."""

    class Heedless(OracleDrafter):
        def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
            return super().draft(request, replace(limits, excluded_ids=frozenset()))

    model = tiny_model("llama")
    sampling = SamplingConfig(temperature=1.2, seed=4)
    whole = answer(model, sampling).token_ids
    for stop_id in dict.fromkeys(whole):
        lengths: list[int] = []

        def look(prefix: Sequence[int], logits: torch.Tensor, seen=lengths) -> torch.Tensor:
            seen.append(len(prefix))
            return logits

        drafter = Heedless([*PROMPT, *whole], VOCAB_SIZE, stop_id)
        answer(model, sampling, drafter=drafter, process_logits=look, stop_ids=[stop_id])
        end = len(PROMPT) + whole.index(stop_id)
        assert lengths == list(range(len(PROMPT), end + 1))


def test_without_a_sampling_the_models_own_defaults_hold() -> None:
    model = tiny_model("llama")
    config = model.hf_model.generation_config
    assert lookahead_sampling(model) == SamplingConfig()
    before = (config.do_sample, config.temperature, config.top_k)
    try:
        config.do_sample, config.temperature, config.top_k = True, 0.6, 20
        assert lookahead_sampling(model) == SamplingConfig(temperature=0.6, top_k=20)
    finally:
        config.do_sample, config.temperature, config.top_k = before


def lookahead_sampling(model: LoadedModel) -> SamplingConfig:
    """What an answer to nothing more than a prompt was sampled with."""
    *_, finished = lookahead.generate(model, PROMPT, decoding=DecodingConfig(max_new_tokens=2))
    stats = finished.stats
    assert (stats.seed is None) == (stats.temperature == 0)
    settings = SamplingConfig().settings
    return SamplingConfig(**{name: getattr(stats, name) for name in settings})
