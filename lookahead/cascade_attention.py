"""Attention over a draft tree in two blocks, the same for a node whatever else is in the tree.

The keys of a node are split at a place that its position alone decides. Those before it belong to
the committed context: all nodes of the tree attend to them in one call. The few behind it, its own
ancestors among them, are gathered in the order of its path and padded to a fixed number, so that
every node has a call of one shape to itself. The two are merged by their log-sum-exps, as cascade
inference and split-KV decoding do. A tree costs little more than one masked call over it.

Plain decoding in this mode runs the same two blocks: its bits are those of our own plain loop, not
of the library's one-row kernel; `path_attention.py` has those, at the price of a call a node.
For CPUs, whose kernel gives rows the same bits in every number that is a multiple of four.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import torch
from torch.nn.functional import pad
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = ["CascadeAttention", "CascadePlan"]

_STRIDE = 32  # positions from one splitting place to the next
MAX_DEPTH = _STRIDE - 1  # of a node: its splitting place must lie within the context
_TAIL_LENGTH = 2 * _STRIDE  # keys behind the splitting place, padding included
_ROW_MULTIPLE = 4  # query heads of one key head are padded to it
_VECTOR_LENGTH = 32  # elements that a vectorised loop takes at once, or a divisor of it


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes whose keys are split at one place.

    Args:
        nodes: their indexes; a slice where they are all.
        split: slots before it are attended to in one call.
        slots: [num_nodes × 64] slots of the keys behind it, a node's path in order.
        mask: [num_nodes, 1, 1, 64] additive: 0 for a key of the node's own, else -inf.
    """

    nodes: torch.Tensor | slice
    split: int
    slots: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class CascadePlan:
    """What the attention of one verifying forward has to do, the same in every layer.

    Args:
        num_nodes: nodes of the tree; rows behind them are padding and get zeros.
        order: [num_nodes] where each node is among the blocks' nodes; None: they are in order.
    """

    blocks: tuple[Block, ...]
    num_nodes: int
    order: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class CascadeAttention:
    """This attention, for keys and queries of one type.

    Args:
        dtype: of the model.
    """

    kind: ClassVar[str] = "cascade"
    name: ClassVar[str] = f"lookahead_{kind}"

    dtype: torch.dtype

    def register(self) -> None:
        """Tell the library of it. No mask function has that name, so the library builds no mask."""
        ALL_ATTENTION_FUNCTIONS.register(self.name, cascade_attention)

    def plan(self, parents: Sequence[int], context_length: int) -> CascadePlan:
        """Split a tree (or forest: parent -1 starts a tree) of 32 levels at most into blocks."""
        paths: list[list[int]] = []
        for node, parent in enumerate(parents):
            paths.append([*(paths[parent] if parent >= 0 else ()), node])
        assert max(map(len, paths)) <= MAX_DEPTH + 1, "a strict tree has 32 levels at most"

        def split(node: int) -> int:
            position = context_length + len(paths[node]) - 1
            return max(0, (position - MAX_DEPTH) // _STRIDE * _STRIDE)

        nodes = sorted(range(len(parents)), key=split)
        groups = [(at, list(group)) for at, group in groupby(nodes, key=split)]
        is_whole = len(groups) == 1
        return CascadePlan(
            blocks=tuple(
                self._block(
                    *(slice(len(nodes)) if is_whole else torch.tensor(members), at),
                    [paths[node] for node in members],
                    context_length,
                )
                for at, members in groups
            ),
            num_nodes=len(nodes),
            order=None if is_whole else torch.tensor(nodes).argsort(),
        )

    def _block(
        self,
        nodes: torch.Tensor | slice,
        split: int,
        paths: list[list[int]],
        context_length: int,
    ) -> Block:
        committed = range(split, context_length)
        tails = [[*committed, *(context_length + node for node in path)] for path in paths]
        padded = [tail + [split] * (_TAIL_LENGTH - len(tail)) for tail in tails]
        lengths = torch.tensor([len(tail) for tail in tails])
        is_padding = torch.arange(_TAIL_LENGTH) >= lengths[:, None]
        mask = torch.zeros(is_padding.shape, dtype=self.dtype).masked_fill_(is_padding, -torch.inf)
        return Block(nodes, split, torch.tensor(padded).flatten(), mask[:, None, None])


def cascade_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    strict_plan: CascadePlan,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of `[1, heads, rows, dim]` queries over `[1, kv_heads, context + rows, dim]` keys.

    Returns `[1, rows, heads, dim]`.
    """
    assert attention_mask is None, "strict attention takes a plan, not a mask"
    blocks = [
        _attend(query[0, :, block.nodes], key, value, block, scaling)
        for block in strict_plan.blocks
    ]
    attended = blocks[0] if strict_plan.order is None else torch.cat(blocks)[strict_plan.order]
    num_padding = query.shape[2] - strict_plan.num_nodes
    if num_padding:
        padding = attended.new_zeros(num_padding, *attended.shape[1:])
        attended = torch.cat([attended, padding])
    return attended[None], None


def _attend(
    query: torch.Tensor,  # [heads, nodes, dim]
    key: torch.Tensor,
    value: torch.Tensor,
    block: Block,
    scaling: float | None,
) -> torch.Tensor:
    """Attention of the nodes of one block: `[nodes, heads, dim]`."""
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    heads, num_nodes, dim = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    rows = -(-group // _ROW_MULTIPLE) * _ROW_MULTIPLE
    grouped = query.reshape(kv_heads, group, num_nodes, dim).transpose(1, 2)
    padded = pad(grouped, (0, 0, 0, rows - group))  # [kv_heads, nodes, rows, dim]
    tail_keys, tail_values = (
        states[0]
        .index_select(1, block.slots)
        .view(kv_heads, num_nodes, _TAIL_LENGTH, dim)
        .transpose(0, 1)
        for states in (key, value)
    )
    tail, tail_weight = attend(
        padded.transpose(0, 1), tail_keys, tail_values, attn_mask=block.mask, scale=scaling
    )
    if block.split:
        context, context_weight = attend(
            padded.reshape(1, kv_heads, num_nodes * rows, dim),
            key[:, :, : block.split],
            value[:, :, : block.split],
            scale=scaling,
        )
        context = context.view(kv_heads, num_nodes, rows, dim).transpose(0, 1)
        context_weight = context_weight.view(kv_heads, num_nodes, rows).transpose(0, 1)
        share = _sigmoid(context_weight - tail_weight)[..., None]
        tail = (context * share + tail * (1 - share)).to(query.dtype)
    attended: torch.Tensor = tail[:, :, :group].reshape(num_nodes, heads, dim)
    return attended


def _sigmoid(numbers: torch.Tensor) -> torch.Tensor:
    """Elementwise, each by the vectorised code: the rest of an odd number is done by other code."""
    flat = numbers.reshape(-1)
    padded = pad(flat, (0, -len(flat) % _VECTOR_LENGTH))
    return torch.sigmoid(padded)[: len(flat)].view(numbers.shape)
