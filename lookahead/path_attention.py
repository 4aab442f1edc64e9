"""Attention over a draft tree, done as plain decoding does it, so that no bit differs.

One masked call over a tree is another kernel than the unmasked one-row call of plain decoding, and
it finds a node's ancestors in other slots. Here every branch's keys and values are placed in the
slots that plain decoding would use, and each node's query runs alone, unmasked, over exactly its
own path: the bits of the library's own decode step, where one row is run like many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = ["PathAttention", "PathPlan"]


@dataclass(frozen=True, slots=True)
class Branch:
    """Nodes, each the child of the one before, and what to place before they are run.

    Args:
        nodes: these, as many as follow each other.
        depth: depth of its first node.
        placed_nodes: nodes of its path whose slots hold another node; empty: all are in place.
        placed_depth: depth of the first of them.
    """

    nodes: tuple[int, ...]
    depth: int
    placed_nodes: tuple[int, ...]
    placed_depth: int


@dataclass(frozen=True, slots=True)
class PathPlan:
    """What the attention of one verifying forward has to do, the same in every layer.

    Args:
        context_length: committed slots before the tree.
        num_nodes: nodes of the tree; rows behind them are padding and get zeros.
        branches: in the order to be run.
        fold_query_group: see `PathAttention`.
    """

    context_length: int
    num_nodes: int
    branches: tuple[Branch, ...]
    fold_query_group: bool


@dataclass(frozen=True, slots=True)
class PathAttention:
    """This attention.

    Args:
        fold_query_group: run a node's query heads as rows of their shared key head. Chosen at load
            where that gives the same bits; on some processors it is several times faster.
    """

    kind: ClassVar[str] = "path"
    name: ClassVar[str] = f"lookahead_{kind}"

    fold_query_group: bool = False

    def register(self) -> None:
        """Tell the library of it. No mask function has that name, so the library builds no mask."""
        ALL_ATTENTION_FUNCTIONS.register(self.name, path_attention)

    def plan(self, parents: Sequence[int], context_length: int) -> PathPlan:
        """Split a tree (or forest: parent -1 starts a tree) into branches, in node order."""
        branches: list[Branch] = []
        in_slot = list(range(len(parents)))  # slot behind the context → node whose keys it holds
        node = 0
        while node < len(parents):
            end = node + 1
            while end < len(parents) and parents[end] == end - 1:
                end += 1
            path = [*_path(parents, parents[node]), *range(node, end)]
            first = next((at for at, held in enumerate(path) if in_slot[at] != held), len(path))
            in_slot[first : len(path)] = path[first:]
            depth = len(path) - (end - node)
            branches.append(Branch(tuple(range(node, end)), depth, tuple(path[first:]), first))
            node = end
        return PathPlan(context_length, len(parents), tuple(branches), self.fold_query_group)


def _path(parents: Sequence[int], node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


def path_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    strict_plan: PathPlan,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of `[1, heads, rows, dim]` queries over `[1, kv_heads, context + rows, dim]` keys.

    `key` and `value` are views of the cache: they are rearranged for a branch and put back.
    Returns `[1, rows, heads, dim]`.
    """
    assert attention_mask is None, "strict attention takes a plan, not a mask"
    context_length = strict_plan.context_length
    rearranges = any(branch.placed_nodes for branch in strict_plan.branches)
    if rearranges:
        tree_keys, tree_values = (
            key[:, :, context_length:].clone(),
            value[:, :, context_length:].clone(),
        )
    outputs: list[torch.Tensor] = []
    for branch in strict_plan.branches:
        if branch.placed_nodes:
            start = context_length + branch.placed_depth
            stop = start + len(branch.placed_nodes)
            nodes = list(branch.placed_nodes)
            key[:, :, start:stop] = tree_keys[:, :, nodes]
            value[:, :, start:stop] = tree_values[:, :, nodes]
        for depth, node in enumerate(branch.nodes, branch.depth):
            length = context_length + depth + 1
            outputs.append(
                _one_query(
                    module,
                    query[:, :, node : node + 1],
                    key[:, :, :length],
                    value[:, :, :length],
                    scaling,
                    kwargs,
                    fold=strict_plan.fold_query_group,
                )
            )
    if rearranges:
        key[:, :, context_length:] = tree_keys
        value[:, :, context_length:] = tree_values
    num_padding = query.shape[2] - strict_plan.num_nodes
    if num_padding:
        outputs.append(torch.zeros_like(outputs[0]).expand(1, num_padding, -1, -1))
    return torch.cat(outputs, dim=1), None


def _one_query(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, heads, 1, dim]
    key: torch.Tensor,  # [1, kv_heads, length, dim]
    value: torch.Tensor,
    scaling: float | None,
    kwargs: dict[str, Any],
    *,
    fold: bool,
) -> torch.Tensor:
    """One row of plain decoding: `[1, 1, heads, value_dim]`."""
    if not fold:
        output, _ = sdpa_attention_forward(
            module, query, key, value, None, scaling=scaling, **kwargs
        )
        return output
    kv_heads = key.shape[1]
    folded = query.reshape(1, kv_heads, query.shape[1] // kv_heads, query.shape[3])
    output = scaled_dot_product_attention(folded, key, value, scale=scaling)
    return output.reshape(1, 1, query.shape[1], value.shape[3])
