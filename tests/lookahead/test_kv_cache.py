"""The KV buffer: growth, rollback, gather."""

import pytest
import torch

from lookahead.kv_cache import KVCache

pytestmark = pytest.mark.tiny


def rows(*values: float) -> torch.Tensor:
    """[1, 2 heads, n, 4], each row filled with its value."""
    return torch.tensor(values)[None, None, :, None].expand(1, 2, -1, 4).contiguous()


def filled(*values: float) -> KVCache:
    cache = KVCache(num_layers=3, max_length=4096)
    for layer in range(3):
        cache.update(rows(*values), -rows(*values), layer)
    return cache


def contents(cache: KVCache, layer: int) -> tuple[list[float], list[float]]:
    keys, values = cache.update(rows(), rows(), layer)
    return keys[0, 1, :, 3].tolist(), values[0, 1, :, 3].tolist()


@pytest.mark.parametrize("slots", [[2, 3], [3, 5], [2, 4, 5], [5], []])
def test_keep_gathers_the_slots_of_every_layer_in_order(slots: list[int]) -> None:
    """[2, 4, 5] → 2, 3, 4: source and target overlap, which a naive in-place copy gets wrong."""
    cache = filled(0, 1, 2, 3, 4, 5)
    cache.keep(2, slots)
    for layer in range(3):
        keys, values = contents(cache, layer)
        assert keys == [0, 1, *slots]
        assert values == [-key for key in keys]


def test_truncated_slots_are_overwritten() -> None:
    cache = filled(0, 1, 2, 3)
    cache.truncate(2)
    assert cache.length == cache.get_seq_length() == 2
    for layer in range(3):
        cache.update(rows(9), -rows(9), layer)
        assert contents(cache, layer)[0] == [0, 1, 9]


def test_growth_keeps_what_was_there_and_stays_within_the_cap() -> None:
    cache = KVCache(num_layers=2, max_length=600)
    for start in range(0, 600, 100):
        values = [float(value) for value in range(start, start + 100)]
        for layer in range(2):
            cache.update(rows(*values), -rows(*values), layer)
    for layer in range(2):
        assert contents(cache, layer)[0] == list(range(600))
    assert cache._buffer is not None
    assert cache._buffer.nbytes == 2 * 2 * 2 * 600 * 4 * 4  # layers, K, V, heads, slots, dim, bytes
