"""Packed layers are the layers they stand for, and a model keeps the bits that it could have."""

import copy

import pytest
import torch
from torch import nn

import lookahead.packed_weights as module
from lookahead.packed_weights import PackedLinear, Packing, pack_weights
from tests.lookahead.tiny_models import tiny_model

pytestmark = pytest.mark.tiny


def layer(dtype: torch.dtype, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(96, 160, bias=bias).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 96), (1, 7, 96), (2, 40, 96), (5, 96)])
@torch.no_grad()
def test_a_packed_layer_gives_the_product(
    dtype: torch.dtype, bias: bool, shape: tuple[int, ...]
) -> None:
    plain = layer(dtype, bias=bias)
    packed = PackedLinear(plain)
    states = torch.randn(shape).to(dtype)
    for seen in (states, states.expand(3, *shape)[1], states.transpose(0, -2).transpose(0, -2)):
        torch.testing.assert_close(packed(seen), plain(seen))
    assert torch.equal(packed.weight, plain.weight)


@torch.no_grad()
def test_a_packed_model_is_the_model() -> None:
    stock = tiny_model("llama").hf_model
    model = copy.deepcopy(stock).float()
    expected = model(torch.arange(9)[None]).logits
    assert pack_weights(model) is not Packing.NONE
    assert {type(part) for part in model.modules()} & {nn.Linear, PackedLinear} == {PackedLinear}
    torch.testing.assert_close(model(torch.arange(9)[None]).logits, expected)


def test_a_type_without_such_kernels_is_left_alone() -> None:
    model = copy.deepcopy(tiny_model("llama").hf_model).double()
    assert pack_weights(model) is Packing.NONE
    assert not any(isinstance(part, PackedLinear) for part in model.modules())


def test_missing_kernels_leave_a_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are none of the library's public names."""

    class Gone(PackedLinear):
        def __init__(self, layer: nn.Linear) -> None:
            raise AttributeError("no such operator")

    monkeypatch.setattr(module, "PackedLinear", Gone)
    assert pack_weights(copy.deepcopy(tiny_model("llama").hf_model).float()) is Packing.NONE


@pytest.mark.parametrize(
    ("changes_bits", "rows_differ", "expected"),
    [
        (False, False, Packing.SAME_BITS),
        (False, True, Packing.SAME_BITS),
        (True, True, Packing.OTHER_BITS),
        (True, False, Packing.NONE),
    ],
)
def test_bits_that_strict_mode_could_have_are_not_given_away(
    monkeypatch: pytest.MonkeyPatch, changes_bits: bool, rows_differ: bool, expected: Packing
) -> None:
    monkeypatch.setattr(module, "_changes_bits", lambda _: changes_bits)
    monkeypatch.setattr(module, "_rows_differ", lambda _: rows_differ)
    assert pack_weights(copy.deepcopy(tiny_model("llama").hf_model).float()) is expected


@torch.no_grad()
def test_the_probes_see_a_single_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = layer(torch.float32)
    monkeypatch.setattr(module, "PackedLinear", copy.deepcopy)  # the layer itself
    assert not module._changes_bits(plain)

    def other(layer: nn.Linear) -> nn.Linear:
        changed = copy.deepcopy(layer)
        changed.weight.view(torch.int32)[17, 5] ^= 1 << 12
        return changed

    monkeypatch.setattr(module, "PackedLinear", other)
    assert module._changes_bits(plain)
    noisy = iter(range(1000))
    real = module._plain
    monkeypatch.setattr(module, "_plain", lambda *args: real(*args) + 1e-3 * next(noisy))
    assert module._rows_differ(plain)
