"""Which attention changes no bit on this machine, found out by trying it on random numbers.

Knows the shape of a model's heads and the kernels of the library; no weights, no tokens. Called by
`strictness.py`, which decides.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Self

import torch
from torch.nn.functional import scaled_dot_product_attention

from lookahead.adapter import ModelAdapter
from lookahead.cascade_attention import CascadeAttention, cascade_attention

__all__ = ["cascade_is_exact", "fold_is_exact"]

_logger = logging.getLogger(__name__)

_FOLD_LENGTHS = (*range(1, 300, 3), 511, 512, 513, 1024, 1500, 2049)
# Around the places where keys are split, and where the kernel cuts them.
_CASCADE_LENGTHS = (0, 5, 31, 62, 63, 64, 93, 127, 300, 511, 512, 545, 1024, 1500, 2049)
_CASCADE_WIDTHS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 32)
_ALL_WIDTHS_LENGTHS = (60, 300)  # of context: with one split and with two
_SPARE_SLOTS = 37  # of a cache's buffer, behind those in use


@dataclass(frozen=True, slots=True)
class _Heads:
    """The heads of a model's attention."""

    query: int
    key: int
    dim: int
    device: torch.device
    dtype: torch.dtype

    @classmethod
    def of(cls, adapter: ModelAdapter) -> Self:
        config = adapter.hf_model.config.get_text_config(decoder=True)
        query = config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // query
        key = getattr(config, "num_key_value_heads", None) or query
        return cls(query, key, dim, adapter.device, adapter.dtype)

    def random(self, length: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Query of one row, keys and values of `length`: `[1, heads, length, dim]` each."""
        return [
            torch.randn(1, count, rows, self.dim, generator=generator).to(self.device, self.dtype)
            for count, rows in ((self.query, 1), (self.key, length), (self.key, length))
        ]


def fold_is_exact(adapter: ModelAdapter) -> bool:
    """Whether folding query heads over their key head was seen to change no bit of a one-row call.

    Only chance tells: in bf16 here one element in some thousands differs, hence the many lengths.
    """
    heads = _Heads.of(adapter)
    if heads.query == heads.key:
        return False
    generator = torch.Generator().manual_seed(0)
    for length in _FOLD_LENGTHS:
        query, key, value = heads.random(length, generator)
        plain = scaled_dot_product_attention(query, key, value, enable_gqa=True)
        folded = query.reshape(1, heads.key, heads.query // heads.key, heads.dim)
        if not torch.equal(
            plain, scaled_dot_product_attention(folded, key, value).reshape(plain.shape)
        ):
            return False
    return True


def cascade_is_exact(adapter: ModelAdapter) -> bool:
    """Whether cascade attention runs here and gives a node in a tree the bits it has alone."""
    if adapter.device.type != "cpu":
        return False
    heads = _Heads.of(adapter)
    config = adapter.hf_model.config.get_text_config(decoder=True)
    if getattr(config, "v_head_dim", None) not in (None, heads.dim):
        return False  # keys and values of latent attention differ in size
    generator, random = torch.Generator().manual_seed(0), Random(0)
    shapes = [*product(_CASCADE_LENGTHS, _CASCADE_WIDTHS)]
    shapes += product(_ALL_WIDTHS_LENGTHS, range(1, max(_CASCADE_WIDTHS) + 1))
    try:
        return all(
            _is_same_alone(heads, length, _random_tree(width, random), generator)
            for length, width in shapes
        )
    except (AttributeError, RuntimeError, TypeError):
        _logger.info("cascade attention does not run here", exc_info=True)
        return False


def _random_tree(width: int, random: Random) -> list[int]:
    """Parents; mostly chains, as drafts are."""
    return [
        -1,
        *(node if random.random() < 0.7 else random.randint(0, node) for node in range(width - 1)),
    ]


def _is_same_alone(
    heads: _Heads, context_length: int, parents: Sequence[int], generator: torch.Generator
) -> bool:
    """Whether each node has the bits that it has as the only one behind its committed path."""
    attention = CascadeAttention(heads.dtype, heads.query // heads.key)
    module = torch.nn.Module()
    width = len(parents)
    rows = torch.cat([heads.random(1, generator)[0] for _ in parents], dim=2)
    query = rows.transpose(1, 2).contiguous().transpose(1, 2)  # as the library's projections lie
    buffers = heads.random(context_length + width + _SPARE_SLOTS, generator)[1:]
    key, value = (buffer[:, :, : context_length + width] for buffer in buffers)
    plan = attention.plan(parents, context_length)
    tree, _ = cascade_attention(module, query, key, value, None, strict_plan=plan)
    path: list[list[int]] = []
    for node, parent in enumerate(parents):
        path.append([*(path[parent] if parent >= 0 else ()), node])
        slots = [*range(context_length), *(context_length + at for at in path[node])]
        plan = attention.plan([-1], len(slots) - 1)
        alone, _ = cascade_attention(
            *(module, query[:, :, node : node + 1], key[:, :, slots], value[:, :, slots], None),
            strict_plan=plan,
        )
        if not torch.equal(alone[0, 0], tree[0, node]):
            return False
    return True
