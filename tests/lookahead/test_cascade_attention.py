"""A node's two blocks hold its own path, whatever else is in the tree, and give the same bits."""

import copy

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch.nn.functional import scaled_dot_product_attention

import lookahead.cascade_attention as module
from lookahead.adapter import ModelAdapter
from lookahead.attention_probe import cascade_is_exact, fold_is_exact
from lookahead.cascade_attention import CascadeAttention, cascade_attention
from tests.lookahead.tiny_models import tiny_model

pytestmark = pytest.mark.tiny

forests = st.lists(st.integers(0, 10**6), max_size=31).map(
    lambda draws: [-1, *[draw % (node + 2) - 1 for node, draw in enumerate(draws)]]
)


def path_of(parents: list[int], node: int) -> list[int]:
    path = [node]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return path[::-1]


@given(forests, st.integers(0, 200))
def test_each_node_sees_its_own_path_once_and_in_order(
    parents: list[int], context_length: int
) -> None:
    plan = CascadeAttention(torch.float32, 3).plan(parents, context_length)
    expected = {
        node: [*range(context_length), *(context_length + at for at in path_of(parents, node))]
        for node in range(len(parents))
    }
    seen: dict[int, list[int]] = {}
    for block in plan.blocks:
        assert block.split <= context_length, "the first block is committed"
        nodes = torch.arange(len(parents))[block.nodes].tolist()
        num_rows = block.mask.shape[2]
        places = range(len(nodes)) if block.places is None else block.places.tolist()
        rows = places if block.run_rows is None else block.run_rows.tolist()
        for at, (node, place) in enumerate(zip(nodes, places, strict=True)):
            assert rows[place] == at
            run, row = divmod(4 * place, num_rows)
            for mask in block.mask[run, 0, row : row + 4]:
                seen[node] = [*range(block.split), *block.slots[run][mask == 0].tolist()]
                assert seen[node] == expected[node]
    assert seen == expected


@given(forests, st.integers(0, 200))
def test_the_place_of_the_split_depends_on_the_position_alone(
    parents: list[int], context_length: int
) -> None:
    """Else a node would be computed in another way once its ancestors are committed."""
    attention = CascadeAttention(torch.float32, 3)
    for block in attention.plan(parents, context_length).blocks:
        for node in torch.arange(len(parents))[block.nodes].tolist():
            depth = len(path_of(parents, node)) - 1
            (alone,) = attention.plan([-1], context_length + depth).blocks
            assert alone.split == block.split


@pytest.mark.parametrize("heads", [(4, 2), (9, 3), (4, 4), (8, 2), (8, 1), (16, 2)])
@pytest.mark.parametrize("context_length", [3, 61, 70, 300])
def test_it_is_attention_over_the_path(heads: tuple[int, int], context_length: int) -> None:
    generator = torch.Generator().manual_seed(1)
    parents = [-1, 0, 1, 0, 3, 3]
    length = context_length + len(parents)
    query, key, value = (
        torch.randn(1, *shape, 16, generator=generator, dtype=torch.float64)
        for shape in ((8, heads[0]), (heads[1], length + 9), (heads[1], length + 9))
    )  # laid out as the library's projections and our cache have them
    query, key, value = query.transpose(1, 2), key[:, :, :length], value[:, :, :length]
    plan = CascadeAttention(torch.float64, heads[0] // heads[1]).plan(parents, context_length)
    output, _ = cascade_attention(torch.nn.Module(), query, key, value, None, strict_plan=plan)
    for node in range(len(parents)):
        slots = [*range(context_length), *(context_length + at for at in path_of(parents, node))]
        expected = scaled_dot_product_attention(
            query[:, :, node : node + 1], key[:, :, slots], value[:, :, slots], enable_gqa=True
        )
        torch.testing.assert_close(output[:, node], expected[:, :, 0])
    assert not output[:, len(parents) :].any(), "rows behind the nodes are padding"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("family", "key_heads"), [("llama", 2), ("llama", 1), ("gpt2", 4)])
def test_the_probe_finds_it_exact_here(family: str, key_heads: int, dtype: torch.dtype) -> None:
    model = copy.deepcopy(tiny_model(family).hf_model)
    if family == "llama":
        model.config.num_key_value_heads = key_heads  # the probe needs the shape alone
    assert cascade_is_exact(ModelAdapter(model.to(dtype)))


def test_the_probe_sees_rows_that_are_not_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROW_MULTIPLE", 1)
    assert not cascade_is_exact(tiny_model("llama").adapter)


def test_a_kernel_that_is_not_there_is_no_cascade(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is none of the library's public names."""

    def gone(*args: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(module, "_attend", gone)
    assert not cascade_is_exact(tiny_model("llama").adapter)


def test_where_no_heads_are_shared_nothing_is_folded() -> None:
    assert not fold_is_exact(tiny_model("gpt2").adapter)
