"""Weight matrices laid out for this processor once, instead of anew in every product.

On a CPU the library multiplies by a plain matrix. oneDNN's kernels want it in blocks, and with it
laid out so beforehand, once at load, a product over few rows takes about half the time.

The names in `torch.ops.mkldnn` are private to torch, which is pinned; where they are missing, or
take no weights of this kind, a model stays as it was.
"""

import logging
from enum import Enum

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

__all__ = ["PackedLinear", "Packing", "pack_weights"]

_logger = logging.getLogger(__name__)

# Kernels are chosen by the number of rows: one, a few, those of a draft, those of a prompt.
_PROBED_ROWS = (1, 2, 3, 5, 8, 16, 32, 200)


class Packing(Enum):
    """What was done to the weights of a model."""

    NONE = "none"
    SAME_BITS = "packed"  # its forwards have the bits that they had
    OTHER_BITS = "packed, other bits"


class PackedLinear(nn.Module):
    """A linear layer that keeps its weights in blocks only: `[…, in]` to `[…, out]`.

    Raises:
        AttributeError, RuntimeError: there are no such kernels here, or not for this type.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        self._blocks = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), None)

    @property
    def weight(self) -> torch.Tensor:
        """`[out, in]` the plain matrix, copied out of its blocks."""
        plain: torch.Tensor = self._blocks.to_dense()
        return plain

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The product."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self._blocks, self.bias, "none", [], ""
        )
        return product


@torch.no_grad()
def pack_weights(hf_model: PreTrainedModel) -> Packing:
    """Put packed layers in the place of a model's linear ones, where that can be done.

    Bits are given up only where one row and several differ anyway, so that a draft could not have
    the bits of the library's `generate()`.
    """
    layers = {name: part for name, part in hf_model.named_modules() if type(part) is nn.Linear}
    by_shape = {layer.weight.shape: layer for layer in layers.values()}
    try:
        changes = [_changes_bits(layer) for layer in by_shape.values()]
    except (AttributeError, RuntimeError):
        _logger.info("weights cannot be packed here", exc_info=True)
        return Packing.NONE
    if not layers or (any(changes) and not any(map(_rows_differ, by_shape.values()))):
        return Packing.NONE
    del by_shape
    for name in list(layers):  # one after the other, so that few weights are there twice
        hf_model.set_submodule(name, PackedLinear(layers.pop(name)))
    return Packing.OTHER_BITS if any(changes) else Packing.SAME_BITS


def _changes_bits(layer: nn.Linear) -> bool:
    packed = PackedLinear(layer)
    rows = _random_rows(layer)
    return not all(
        torch.equal(packed(rows[:, :count]), _plain(layer, rows[:, :count]))
        for count in _PROBED_ROWS
    )


def _rows_differ(layer: nn.Linear) -> bool:
    """Whether one row alone has other bits than among several."""
    rows = _random_rows(layer)[:, : _PROBED_ROWS[4]]
    alone = [_plain(layer, rows[:, [row]]) for row in range(rows.shape[1])]
    return not torch.equal(torch.cat(alone, dim=1), _plain(layer, rows))


def _plain(layer: nn.Linear, rows: torch.Tensor) -> torch.Tensor:
    return linear(rows, layer.weight, layer.bias)


def _random_rows(layer: nn.Linear) -> torch.Tensor:
    """`[1, rows, in]`, the same on every run."""
    generator = torch.Generator().manual_seed(0)
    shape = 1, max(_PROBED_ROWS), layer.in_features
    return torch.randn(shape, generator=generator).to(layer.weight.dtype)
