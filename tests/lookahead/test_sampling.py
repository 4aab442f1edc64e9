"""Choosing tokens: each setting as the library has it, distributed as it says, on the true path."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from transformers import (
    GenerationConfig,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from lookahead import sampling
from lookahead.config import SamplingConfig
from lookahead.errors import InvalidRequestError
from lookahead.foresight import Foresight
from lookahead.sampling import TokenSampler, likeliest
from tests.lookahead.weighing import reweigh

pytestmark = pytest.mark.tiny

LOGITS = torch.tensor([0.3, -1.0, 2.0, 1.5, 0.0])
NUM_DRAWS = 20_000
# Chi-squared above which one in 10,000 fair samples lies, by degrees of freedom.
ONE_IN_10_000 = {1: 15.1, 2: 18.4, 3: 21.1, 4: 23.5}


def committed(length: int) -> np.ndarray:
    return np.zeros(length, np.int32)


def test_greedy_takes_the_first_of_equal_maxima_in_every_dtype() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        sampler = TokenSampler(SamplingConfig(), 4)
        assert sampler.choose(torch.tensor([0.0, 1.0, 1.0, 0.5], dtype=dtype), committed(3)) == 1
        assert sampler.seed is None


def test_scores_are_widened_on_the_cpu() -> None:
    """Sampling, and looking for a tie, failed on devices without float64."""

    class OnDevice(torch.Tensor):
        def cpu(self, *args: object, **kwargs: object) -> torch.Tensor:
            return self.as_subclass(torch.Tensor)

        def double(self, *args: object, **kwargs: object) -> torch.Tensor:
            raise TypeError("this device has no float64")

    logits = LOGITS.as_subclass(OnDevice)
    sampler = TokenSampler(SamplingConfig(temperature=0.8, seed=1), 5)
    assert sampler.choose(logits, committed(3)) in range(5)


def test_a_temperature_too_small_to_divide_by_is_greedy() -> None:
    """5e-324 made every score infinite, and token 0 won."""
    for temperature in (5e-324, 1e-300, 1e-9):
        sampler = TokenSampler(SamplingConfig(temperature=temperature, seed=1), 5)
        assert sampler.choose(LOGITS, committed(3)) == 2


def test_one_position_is_one_draw_whoever_asks_and_how_often() -> None:
    config = SamplingConfig(temperature=0.8, seed=11, repetition_penalty=1.3, top_p=0.9)
    one, other = TokenSampler(config, 5), TokenSampler(config, 5)
    sequence = [one.choose(LOGITS, committed(at)) for at in range(1, 200)]
    for at in reversed(range(1, 200)):
        path = [0] * (at // 2)
        assert other.choose(LOGITS, committed(at - at // 2), path) == sequence[at - 1]


def library_scores(logits: torch.Tensor, prefix: Sequence[int], config: SamplingConfig):
    """The library's processors in the library's order."""
    scores = logits.double()[None]
    if config.repetition_penalty != 1:
        penalty = RepetitionPenaltyLogitsProcessor(config.repetition_penalty)
        scores = penalty(torch.tensor([list(prefix)]), scores)
    scores = TemperatureLogitsWarper(config.temperature)(None, scores)
    if config.top_k:
        scores = TopKLogitsWarper(config.top_k)(None, scores)
    if config.top_p < 1:
        scores = TopPLogitsWarper(config.top_p)(None, scores)
    if config.min_p:
        scores = MinPLogitsWarper(config.min_p)(None, scores)
    return scores[0]


SETTINGS = [
    SamplingConfig(temperature=t, seed=3, top_k=k, top_p=p, min_p=m, repetition_penalty=r)
    for t, k, p, m, r in product(
        (0.7, 1.3), (0, 1, 3, 40), (0.0, 0.3, 0.9, 1.0), (0.0, 0.05, 1.0), (0.6, 1.0, 1.4)
    )
]


def test_each_setting_keeps_the_tokens_that_the_library_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All settings together, at logits of every spread; the scores kept agree to rounding."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def spy(seed: int, position: int, token_ids: np.ndarray, scores: np.ndarray) -> int:
        seen.append((token_ids, scores))
        return 0

    monkeypatch.setattr(sampling, "argmax_with_noise", spy)
    torch.manual_seed(0)
    for number, config in enumerate(SETTINGS):
        logits = torch.randn(200) * (0.2, 2.0, 9.0)[number % 3]
        prefix = torch.randint(200, (30,)).tolist()
        sampler = TokenSampler(config, 200)
        sampler.choose(logits, np.array(prefix[:20], np.int32), prefix[20:])
        expected = library_scores(logits, prefix, config)
        token_ids, scores = seen.pop()
        assert token_ids.tolist() == expected.isfinite().nonzero()[:, 0].tolist(), config
        assert scores.tolist() == pytest.approx(expected[token_ids.astype(int)].tolist())


@pytest.mark.parametrize("size", [5, 1000, 50_000])
def test_the_likeliest_are_found_without_sorting_them_all(size: int) -> None:
    """Also far down, and among equals."""
    random = np.random.default_rng(size)
    for scores in (
        4 * random.standard_normal(size),
        np.zeros(size),
        np.round(3 * random.standard_normal(size)),
        np.where(np.arange(size) == 3, 0.0, -math.inf),
    ):
        order = np.argsort(-scores, kind="stable")
        weights = np.exp(scores[order])
        shares = np.cumsum(weights) / weights.sum()
        for top_k in (1, 4, size // 2, size):
            kth = scores[order[top_k - 1]]
            possible = np.flatnonzero((scores >= kth) & (scores > -math.inf))
            assert likeliest(scores, top_k, 1.0, 0.0).tolist() == possible.tolist()
        for top_p in (0.25, 0.9, 0.9999):
            count = int(np.searchsorted(shares, top_p)) + 1
            kept = likeliest(scores, 0, top_p, 0.0)
            assert abs(len(kept) - count) <= 1e-9 * size + (len(set(scores)) < 3)
            assert set(kept) <= set(order[: count + 1])
    assert likeliest(np.zeros(size), 0, 0.5, 0.0).tolist() == list(range(-(-size // 2)))


def chi_squared(choices: Sequence[int], expected: np.ndarray) -> float:
    counts = np.bincount(choices, minlength=len(expected))
    assert not counts[expected == 0].any(), "a token was chosen that cannot be"
    possible = expected > 0
    counts, expected = counts[possible], expected[possible] * len(choices)
    return float(((counts - expected) ** 2 / expected).sum())


EXACT = [
    SamplingConfig(temperature=0.5, seed=3),
    SamplingConfig(temperature=1.0, seed=3),
    SamplingConfig(temperature=2.0, seed=3),
    SamplingConfig(temperature=1.5, seed=4, top_k=3),
    SamplingConfig(temperature=1.5, seed=5, top_p=0.8),
    SamplingConfig(temperature=1.5, seed=6, min_p=0.2),
    SamplingConfig(temperature=1.2, seed=7, repetition_penalty=1.8),
    SamplingConfig(temperature=1.4, seed=8, top_k=4, top_p=0.9, min_p=0.2, repetition_penalty=1.3),
]


@pytest.mark.parametrize("config", EXACT, ids=repr)
def test_tokens_follow_the_exact_distribution(config: SamplingConfig) -> None:
    sampler = TokenSampler(config, 5)
    prefix = np.full(NUM_DRAWS + 1, 2, np.int32)  # the likeliest token has occurred
    choices = [sampler.choose(LOGITS, prefix[:at]) for at in range(1, NUM_DRAWS + 1)]
    expected = torch.softmax(library_scores(LOGITS, [2], config), 0).numpy()
    freedom = int((expected > 0).sum()) - 1
    assert chi_squared(choices, expected) < ONE_IN_10_000[freedom]


@pytest.mark.parametrize("bias", ["noise of little temperature", "one token favoured", "no filter"])
def test_a_biased_sampler_is_found_out(bias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same test, with samplers a little wrong."""
    config = SamplingConfig(temperature=1.5, seed=5, top_p=0.8)
    fair = sampling.argmax_with_noise

    def biased(seed: int, position: int, token_ids: np.ndarray, scores: np.ndarray) -> int:
        if bias == "noise of little temperature":
            scores = scores * 1.1
        elif bias == "one token favoured":
            scores = scores + 0.1 * (token_ids == 3)
        return fair(seed, position, token_ids, scores)

    monkeypatch.setattr(sampling, "argmax_with_noise", biased)
    if bias == "no filter":
        monkeypatch.setattr(sampling, "likeliest", lambda scores, *_: np.arange(len(scores)))
    with pytest.raises(AssertionError):
        test_tokens_follow_the_exact_distribution(config)


def test_a_row_without_a_finite_maximum_still_gives_a_token() -> None:
    sampler = TokenSampler(SamplingConfig(temperature=1.0, seed=1, top_p=0.9), 3)
    assert sampler.choose(torch.tensor([0.0, math.nan, 1.0]), committed(1)) == 1
    assert sampler.choose(torch.tensor([0.0, 1.0, math.inf]), committed(1)) == 2


def test_greedy_obeys_the_repetition_penalty() -> None:
    sampler = TokenSampler(SamplingConfig(repetition_penalty=1.5), 5)
    prefix = np.array([2], np.int32)
    assert sampler.choose(LOGITS, prefix[:0]) == 2
    assert sampler.choose(LOGITS, prefix) == 3  # 2.0 / 1.5 is less than 1.5
    assert sampler.choose(LOGITS, prefix, [3, 3, 3]) == 2  # and more than 1.5 / 1.5
    assert sampler.choose(LOGITS, prefix) == 3, "a path is no commitment"
    assert LOGITS.tolist() == torch.tensor([0.3, -1.0, 2.0, 1.5, 0.0]).tolist()


def test_a_penalty_counts_a_token_once_and_pushes_negative_logits_down() -> None:
    logits = torch.tensor([-1.0, -1.2, -5.0, -5.0, -5.0], dtype=torch.float64)
    sampler = TokenSampler(SamplingConfig(repetition_penalty=1.3), 5)
    assert sampler.choose(logits, np.array([0, 0, 0], np.int32)) == 1
    assert sampler.choose(logits, np.array([0, 0, 0, 1], np.int32)) == 0
    assert logits.tolist() == [-1.0, -1.2, -5.0, -5.0, -5.0]


def test_a_seed_is_drawn_and_reported_where_none_is_given() -> None:
    seeds = {TokenSampler(SamplingConfig(temperature=1.0), 5).seed for _ in range(20)}
    assert None not in seeds
    assert len(seeds) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"seed": -1},
        {"seed": 2**64},
        {"seed": 1.5},
        {"top_k": -1},
        {"top_p": 1.01},
        {"top_p": float("nan")},
        {"min_p": -0.01},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": float("inf")},
        {"temperature": "0.7"},
        {"top_k": None},
    ],
)
def test_values_out_of_range_are_refused_with_the_range(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidRequestError, match=f"{name} must .*between"):
        SamplingConfig(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="whole"):
        SamplingConfig(top_k=2.5)  # type: ignore[arg-type]


class Said:
    """A generation config that says so much."""

    def __init__(self, **values: object) -> None:
        vars(self).update(values)


def test_the_models_own_defaults_are_taken_where_it_samples() -> None:
    said = Said(do_sample=True, temperature=0.6, top_k=20, top_p=0.95, min_p=None)
    expected = SamplingConfig(temperature=0.6, top_k=20, top_p=0.95)
    assert SamplingConfig.from_generation_config(said) == expected
    for silent in (None, Said(), Said(temperature=0.6, top_p=0.9), Said(do_sample=False)):
        assert SamplingConfig.from_generation_config(silent) == SamplingConfig()
    penalty = SamplingConfig.from_generation_config(Said(repetition_penalty=1.1))
    assert (penalty.is_greedy, penalty.repetition_penalty) == (True, 1.1)


def test_where_a_sampled_model_is_silent_the_librarys_defaults_are_taken() -> None:
    """All tokens were kept where the library keeps fifty."""
    library = GenerationConfig._get_default_generation_params()
    neutral = SamplingConfig().settings
    expected = {name: library.get(name, value) for name, value in neutral.items()}
    found = SamplingConfig.from_generation_config(GenerationConfig(do_sample=True))
    assert found.settings == expected
    assert expected["top_k"] == 50
    silent = SamplingConfig.from_generation_config(GenerationConfig(), temperature=0.7)
    assert silent == SamplingConfig(temperature=0.7), "asked for by people: nothing else is added"


def test_a_models_bad_default_is_refused_unless_another_value_is_asked_for() -> None:
    """It blocked every answer, also of people who had chosen the value themselves."""
    for wrong in (7, "0.9", [0.9], True):
        said = Said(do_sample=True, top_p=wrong)
        with pytest.raises(InvalidRequestError, match="top_p must be a number between 0 and 1"):
            SamplingConfig.from_generation_config(said)
        assert SamplingConfig.from_generation_config(said, top_p=0.5, seed=3).top_p == 0.5


def test_foresight_is_of_the_same_noise() -> None:
    """Where the prior is the model's own distribution, the noise believed finds the winner."""
    sampler = TokenSampler(SamplingConfig(temperature=1.0, seed=17), 5)
    prior = torch.softmax(LOGITS.double(), 0).tolist()
    foresight, believing = sampler.foresight(40), Foresight(17, 40, strength=0.99)
    assert foresight is not None
    hits = surest_hits = 0
    for depth in range(1, 200):
        chosen = sampler.choose(LOGITS, committed(39 + depth))
        _, believed = reweigh(believing, depth, range(5), prior)
        hits += max(range(5), key=believed.__getitem__) == chosen
        _, reweighed = reweigh(foresight, depth, range(5), prior)
        assert sum(reweighed) == pytest.approx(1.0)
        surest_hits += max(range(5), key=reweighed.__getitem__) == chosen
    assert hits > 195  # the prior alone has 0.5 of 199
    assert surest_hits > 130
    assert sum(reweigh(foresight, 3, [1, 4], [0.2, 0.3])[1]) < 1.0


@pytest.mark.parametrize(
    "setting",
    [
        {"temperature": 0.0},
        {"temperature": 0.01},
        {"temperature": 0.8, "top_k": 1},
        {"temperature": 0.8, "top_p": 0.0},
        {"temperature": 0.8, "min_p": 1.0},
    ],
)
def test_noise_that_decides_nothing_weighs_no_draft(setting: dict[str, float]) -> None:
    """Drafts followed noise where the likeliest token was taken anyway."""
    config = SamplingConfig(seed=17, **setting)  # type: ignore[arg-type]
    assert TokenSampler(config, 5).foresight(40) is None


def test_noise_weighs_less_where_it_decides_less() -> None:
    """It weighed at every temperature what it was measured to weigh at 0.8."""

    def moved(temperature: float) -> float:
        foresight = TokenSampler(SamplingConfig(temperature, 17), 5).foresight(40)
        assert foresight is not None
        return abs(reweigh(foresight, 1, [1, 2], [0.4, 0.4])[1][0] - 0.4)

    assert 0 < moved(0.1) < moved(0.4) < moved(0.8) == moved(1.5)
