"""Weight matrices laid out for this processor once, instead of anew in every product.

On a CPU the library multiplies by a plain matrix. oneDNN's kernels want it in blocks, and with it
laid out so beforehand, once at load, a product over few rows takes about half the time.

The names in `torch.ops.mkldnn` are private to torch, which is pinned; where they are missing, or
take no weights of this kind, a model stays as it was. Called by the loader.
"""

import logging
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

__all__ = ["PackedLinear", "Packing", "pack_weights"]

_logger = logging.getLogger(__name__)

# Kernels are chosen by the number of rows: one, a few, those of a draft, those of a prompt.
_PROBED_ROWS = (1, *range(2, 9), 12, 16, 24, 32, 200, 2048)
_PROBED_AGAIN = (1, 4, 16)  # with the weights of every layer
_NUM_SINGLE_ROWS = 8
_SEVERAL_ROWS = 4  # as many as the self-test compares with one
_MOST_OUTPUTS = 1 << 22  # of a probe; a head is run for the last row of a prompt only
_CLOSE = 0.05  # of the largest number: rounding is far below, another product far above


class Packing(Enum):
    """What was done to the weights of a model, or would come of it."""

    NONE = "none"
    SAME_BITS = "packed"  # its forwards have the bits that they had
    OTHER_BITS = "packed, other bits"


class PackedLinear(nn.Module):
    """A linear layer that keeps its weights in blocks only: `[…, in]` to `[…, out]`.

    For inference: it has no parameter but its bias, and stays on the CPU.

    Raises:
        AttributeError, RuntimeError: there are no such kernels here, or not for this type.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        self._blocks = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), None)

    @cached_property
    def weight(self) -> torch.Tensor:
        """`[out, in]` the plain matrix, copied out of its blocks when it is first asked for."""
        plain: torch.Tensor = self._blocks.to_dense()
        return plain

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The product."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self._blocks, self.bias, "none", [], ""
        )
        return product

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = self._blocks.to_dense()


@torch.no_grad()
def pack_weights(hf_model: PreTrainedModel, known: Packing | None = None) -> Packing:
    """Put packed layers in the place of a model's linear ones, where that can be done.

    Bits are given up only where one row and several differ anyway, so that a draft could not have
    the bits of the library's `generate()`. That they are kept is seen with the weights of every
    layer; a product that is not the layer's is never taken.

    Args:
        known: what an earlier call gave for these weights on this machine; None: it is found out.
    """
    layers = {name: part for name, part in hf_model.named_modules() if type(part) is nn.Linear}
    found = _try_kinds(layers.values()) if known is None else known
    if found is Packing.NONE:
        return found
    for name in list(layers):  # one after the other, so that few weights are there twice
        layer = layers.pop(name)
        packed = PackedLinear(layer)
        if known is None and _try(layer, packed, _PROBED_AGAIN) is not Packing.SAME_BITS:
            found = Packing.OTHER_BITS
        hf_model.set_submodule(name, packed)
    return found


def _try_kinds(layers: Iterable[nn.Linear]) -> Packing:
    """What would come of packing these layers, from one of each kind."""
    kinds = {
        (layer.weight.shape, layer.weight.dtype, layer.bias is None): layer for layer in layers
    }
    try:
        found = {_try(layer, PackedLinear(layer), _PROBED_ROWS) for layer in kinds.values()}
    except (AttributeError, RuntimeError):
        _logger.info("weights cannot be packed here", exc_info=True)
        return Packing.NONE
    if not found or Packing.NONE in found:
        return Packing.NONE
    if found == {Packing.SAME_BITS}:
        return Packing.SAME_BITS
    can_differ = any(_rows_differ(layer) for layer in kinds.values())
    return Packing.OTHER_BITS if can_differ else Packing.NONE


def _try(layer: nn.Linear, packed: nn.Module, row_counts: Sequence[int]) -> Packing:
    """What packing does to this layer; NONE: it is another product."""
    rows = _random_rows(layer, max(_NUM_SINGLE_ROWS, *row_counts))
    found = Packing.SAME_BITS
    for count in row_counts:
        if count * layer.out_features > _MOST_OUTPUTS:
            continue
        for start in range(_NUM_SINGLE_ROWS if count == 1 else 1):
            some = rows[:, start : start + count]
            plain, product = layer(some), packed(some)
            if not torch.equal(plain, product):
                found = Packing.OTHER_BITS
                if not (plain - product).abs().max() <= _CLOSE * plain.abs().max():
                    return Packing.NONE
    return found


def _rows_differ(layer: nn.Linear) -> bool:
    """Whether one row alone has other bits than among several."""
    rows = _random_rows(layer, _NUM_SINGLE_ROWS)

    def products(count: int) -> torch.Tensor:
        parts = [rows[:, start : start + count] for start in range(0, rows.shape[1], count)]
        return torch.cat([layer(part) for part in parts], dim=1)

    return not torch.equal(products(1), products(_SEVERAL_ROWS))


def _random_rows(layer: nn.Linear, count: int) -> torch.Tensor:
    """`[1, count, in]`, the same on every run."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(1, count, layer.in_features, generator=generator)
    return rows.to(layer.weight.dtype)
