"""Choosing tokens: keyed to seed and position, and distributed as the softmax says."""

import numpy as np
import pytest
import torch

from lookahead.config import SamplingConfig
from lookahead.errors import InvalidRequestError
from lookahead.sampling import TokenSampler, gumbel_noise

pytestmark = pytest.mark.tiny

GOLDEN_NOISE = [0.8063697091421264, -1.5753393218783878, -0.863865850409436, 1.0906208298656086]
LOGITS = torch.tensor([0.3, -1.0, 2.0, 1.5, 0.0])


def committed(length: int) -> np.ndarray:
    return np.zeros(length, np.int32)


def test_greedy_takes_the_first_of_equal_maxima_in_every_dtype() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        sampler = TokenSampler(SamplingConfig(), 4)
        assert sampler.choose(torch.tensor([0.0, 1.0, 1.0, 0.5], dtype=dtype), committed(3)) == 1
        assert sampler.seed is None


def test_a_temperature_too_small_to_divide_by_is_greedy() -> None:
    """5e-324 made every score infinite, and token 0 won."""
    for temperature in (5e-324, 1e-300, 1e-9):
        sampler = TokenSampler(SamplingConfig(temperature=temperature, seed=1), 5)
        assert sampler.choose(LOGITS, committed(3)) == 2


def test_noise_stays_what_it_is() -> None:
    """Golden values: a recorded seed must give the same text in every later version."""
    noise = gumbel_noise(42, 7, np.arange(4, dtype=np.uint64))
    assert noise.tolist() == pytest.approx(GOLDEN_NOISE, rel=1e-12)


def test_noise_depends_on_seed_position_and_token() -> None:
    ids = np.arange(1000, dtype=np.uint64)
    draws = [gumbel_noise(seed, at, ids) for seed in (0, 1) for at in (0, 1)]
    for index, one in enumerate(draws):
        for other in draws[:index]:
            assert not np.isclose(one, other).any()
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.1
        assert len(np.unique(one)) == len(one)


def test_one_position_is_one_draw_whoever_asks_and_how_often() -> None:
    config = SamplingConfig(temperature=0.8, seed=11)
    one, other = TokenSampler(config, 5), TokenSampler(config, 5)
    sequence = [one.choose(LOGITS, committed(at)) for at in range(200)]
    for at in reversed(range(200)):
        assert other.choose(LOGITS, committed(at - at // 2), [0] * (at // 2)) == sequence[at]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampled_tokens_follow_the_softmax(temperature: float) -> None:
    """Chi-squared over 20,000 positions; 4 degrees of freedom, 23.5 is the 1 in 10,000 mark."""
    sampler = TokenSampler(SamplingConfig(temperature=temperature, seed=3), 5)
    draws = 20_000
    counts = np.bincount(
        [sampler.choose(LOGITS, committed(at)) for at in range(draws)], minlength=5
    )
    expected = torch.softmax(LOGITS.double() / temperature, 0).numpy() * draws
    assert ((counts - expected) ** 2 / expected).sum() < 23.5


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
    ],
)
def test_values_out_of_range_are_refused_with_the_range(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError, match="between"):
        SamplingConfig(**wrong)  # type: ignore[arg-type]
