"""Noise: keyed to seed, position and token, and cheap to take the argmax with."""

import math

import numpy as np
import pytest

from lookahead.noise import argmax_with_noise, gumbel_noise, position_key, position_keys

pytestmark = pytest.mark.tiny

GOLDEN_NOISE = [0.8063697091421264, -1.5753393218783878, -0.863865850409436, 1.0906208298656086]
VOCAB = np.arange(49_152, dtype=np.uint64)


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


@pytest.mark.parametrize("seed", [0, 17, 2**64 - 1])
def test_keys_of_positions_in_a_row_are_those_of_each(seed: int) -> None:
    keys = position_keys(seed, 1234, 31)
    assert keys.tolist() == [position_key(seed, 1234 + place) for place in range(31)]
    assert len(position_keys(seed, 5, 0)) == 0


def test_a_token_has_the_same_noise_alone_and_among_many() -> None:
    """A vocabulary is hashed in pieces, a drafted token by itself."""
    noise = gumbel_noise(2**64 - 1, 1234, VOCAB)
    for token_id in (0, 1, 16_383, 16_384, 32_768, 49_151):
        alone = gumbel_noise(2**64 - 1, 1234, VOCAB[token_id : token_id + 1])
        assert alone.tolist() == [noise[token_id]]
    assert gumbel_noise(2**64 - 1, 1234, VOCAB[20_000:]).tolist() == noise[20_000:].tolist()


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 6.0, 40.0])
def test_leaving_out_what_cannot_win_changes_no_winner(spread: float) -> None:
    random = np.random.default_rng(1)
    far_winners = 0
    for position in range(200):
        scores = spread * random.standard_normal(len(VOCAB))
        if position % 3 == 0:
            scores[random.integers(len(VOCAB))] += 12
        if position % 5 == 0:
            scores[: random.integers(len(VOCAB))] = -math.inf
        winner = int((scores + gumbel_noise(9, position, VOCAB)).argmax())
        far_winners += bool(scores[winner] < scores.max() - 7)
        assert argmax_with_noise(9, position, VOCAB, scores) == winner
    if spread == 3.0:
        assert far_winners > 10, "tokens far below the best must win now and then"
