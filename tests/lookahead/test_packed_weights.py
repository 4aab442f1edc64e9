"""Packed layers are the layers they stand for, and a model keeps the bits that it could have."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

import lookahead.packed_weights as module
from lookahead.packed_weights import PackedLinear, Packing, pack_weights
from tests.lookahead.tiny_models import tiny_model

pytestmark = pytest.mark.tiny

DTYPES = [torch.float32]
if torch.ops.mkldnn._is_mkldnn_bf16_supported():  # not by every processor
    DTYPES.append(torch.bfloat16)


def a_layer(dtype: torch.dtype = torch.float32, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(96, 160, bias=bias).to(dtype)


def a_model(family: str = "llama", dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    return copy.deepcopy(tiny_model(family).hf_model).to(dtype)


def linear_layers(model: nn.Module) -> set[type]:
    return {type(part) for part in model.modules()} & {nn.Linear, PackedLinear}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 96), (1, 7, 96), (2, 40, 96), (5, 96)])
@torch.no_grad()
def test_a_packed_layer_gives_the_product(
    dtype: torch.dtype, bias: bool, shape: tuple[int, ...]
) -> None:
    plain = a_layer(dtype, bias=bias)
    packed = PackedLinear(plain)
    wide = torch.randn(*shape[:-1], 2 * 96).to(dtype)
    for states in (wide[..., :96].contiguous(), wide[..., 96:], wide[..., ::2]):
        torch.testing.assert_close(packed(states), plain(states), rtol=0.02, atol=1e-2)
    assert torch.equal(packed.weight, plain.weight)
    for name, saved in plain.state_dict().items():
        assert torch.equal(packed.state_dict()[name], saved)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("dtype", DTYPES)
@torch.no_grad()
def test_a_packed_model_is_the_model(
    monkeypatch: pytest.MonkeyPatch, family: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(module, "_rows_differ", lambda _: True)  # so that bits may be given up
    stock, model = a_model(family, dtype), a_model(family, dtype)
    found = pack_weights(model)
    assert linear_layers(model) == {PackedLinear}
    ids = torch.arange(9)[None]
    expected, logits = stock(ids).logits, model(ids).logits
    torch.testing.assert_close(logits, expected, rtol=0.05, atol=0.05 * expected.abs().max())
    assert found is Packing.OTHER_BITS or torch.equal(logits, expected)


@torch.no_grad()
def test_a_head_that_shares_its_weights_leaves_the_embedding_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_rows_differ", lambda _: True)
    model = a_model()
    model.lm_head.weight = model.model.embed_tokens.weight
    before = model.model.embed_tokens.weight.clone()
    assert pack_weights(model) is not Packing.NONE
    assert torch.equal(model.lm_head.weight, before)
    assert torch.equal(model.model.embed_tokens.weight, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a_type_without_such_kernels_is_left_alone(dtype: torch.dtype) -> None:
    model = a_model(dtype=dtype)
    if pack_weights(model) is Packing.NONE:  # some processors have those of fp16
        assert linear_layers(model) == {nn.Linear}
    else:
        assert dtype == torch.float16


def with_layers(monkeypatch: pytest.MonkeyPatch, make: Callable[[nn.Linear], nn.Module]) -> None:
    monkeypatch.setattr(module, "PackedLinear", make)


def test_missing_kernels_leave_a_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are none of the library's public names."""

    def gone(_: nn.Linear) -> nn.Module:
        raise AttributeError("no such operator")

    with_layers(monkeypatch, gone)
    assert pack_weights(a_model()) is Packing.NONE


def changed(by: float, only_with_bias: bool = False) -> Callable[[nn.Linear], nn.Module]:
    """The layer itself with one of its weights another."""

    def make(layer: nn.Linear) -> nn.Module:
        other = copy.deepcopy(layer)
        if not only_with_bias or layer.bias is not None:
            other.weight.data[1, 1] += by
        return other

    return make


@pytest.mark.parametrize(
    ("by", "rows_differ", "expected"),
    [
        (0.0, False, Packing.SAME_BITS),
        (0.0, True, Packing.SAME_BITS),
        (1e-4, True, Packing.OTHER_BITS),
        (1e-4, False, Packing.NONE),  # strict mode could have the library's bits
        (1e4, True, Packing.NONE),  # another product
        (float("nan"), True, Packing.NONE),
    ],
)
def test_bits_are_given_up_only_where_strict_mode_could_not_have_them(
    monkeypatch: pytest.MonkeyPatch, by: float, rows_differ: bool, expected: Packing
) -> None:
    with_layers(monkeypatch, changed(by))
    monkeypatch.setattr(module, "_rows_differ", lambda _: rows_differ)
    assert pack_weights(a_model()) is expected


def test_layers_of_one_shape_with_and_without_bias_are_both_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_layers(monkeypatch, changed(1e-4, only_with_bias=True))
    monkeypatch.setattr(module, "_rows_differ", lambda _: False)
    model = a_model("qwen2")
    attention = model.model.layers[0].self_attn
    assert attention.q_proj.weight.shape == attention.o_proj.weight.shape
    assert pack_weights(model) is Packing.NONE


def test_one_layer_of_a_kind_with_other_bits_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = a_model()
    first = model.model.layers[0].mlp.up_proj  # its kind is tried with a later one's weights

    def make(layer: nn.Linear) -> nn.Module:
        return changed(1e-4 if layer is first else 0.0)(layer)

    with_layers(monkeypatch, make)
    assert pack_weights(model) is Packing.OTHER_BITS


@pytest.mark.parametrize("known", list(Packing))
def test_what_is_known_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, known: Packing) -> None:
    monkeypatch.setattr(module, "_try", None)
    model = a_model()
    assert pack_weights(model, known) is known
    assert linear_layers(model) == {nn.Linear if known is Packing.NONE else PackedLinear}


@torch.no_grad()
def test_a_single_row_with_other_bits_is_seen() -> None:
    class OneRowApart(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            product = super().forward(rows)
            return torch.nextafter(product, product + 1) if rows.shape[1] == 1 else product

    plain = a_layer()
    apart = OneRowApart(96, 160)
    apart.load_state_dict(plain.state_dict())
    assert module._rows_differ(apart)
    assert module._try(plain, apart, (1, 4, 16)) is Packing.OTHER_BITS
    assert module._try(plain, apart, (2, 4, 16)) is Packing.SAME_BITS
