"""Attention over a draft tree in two blocks, the same for a node whatever else is in the tree.

The keys of a node are split at a place that its position alone decides. Those before it belong to
the committed context: all nodes of the tree attend to them in one call. The few behind it, its own
ancestors among them, are gathered in the order of its path and padded to a fixed number: each node
finds each of its keys in a slot that the position alone decides. A few nodes, each the child of the
one before, share what is gathered, and what lies behind a node is masked. The two blocks are merged
by their log-sum-exps, as cascade inference and split-KV decoding do. A tree costs little more than
one masked call over it.

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
_MAX_RUN_LENGTH = 4  # nodes that share gathered keys: a run is padded to the longest one's rows


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes whose keys are split at one place.

    Args:
        nodes: their indexes; a slice where they are all.
        split: slots before it are attended to in one call.
        slots: [num_runs, 64] slots of the keys behind it, a run's path in order.
        run_rows: [num_runs × longest run] which of the nodes each row of the runs is, the last of a
            shorter run once more; None: the nodes in order.
        places: [num_nodes] in which of these rows each node is; None: in order.
        mask: [num_runs, 1, rows, 64] additive: 0 for a key of the row's node, else -inf; each node
            has as many rows as a key head has query heads, padded.
    """

    nodes: torch.Tensor | slice
    split: int
    slots: torch.Tensor
    run_rows: torch.Tensor | None
    places: torch.Tensor | None
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
        group_length: query heads of one key head.
    """

    kind: ClassVar[str] = "cascade"
    name: ClassVar[str] = f"lookahead_{kind}"

    dtype: torch.dtype
    group_length: int

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
        runs = _runs(paths)
        longest = max(map(len, runs))
        rows = [run[min(at, len(run) - 1)] for run in runs for at in range(longest)]
        places = {node: at for at, node in reversed(list(enumerate(rows)))}
        is_in_order = rows == list(range(len(paths)))
        committed = range(split, context_length)
        tails = [[*committed, *(context_length + node for node in paths[run[-1]])] for run in runs]
        padded = [tail + [split] * (_TAIL_LENGTH - len(tail)) for tail in tails]
        lengths = torch.tensor([len(committed) + len(paths[node]) for node in rows])
        is_hidden = torch.arange(_TAIL_LENGTH) >= lengths[:, None]
        mask = torch.zeros(is_hidden.shape, dtype=self.dtype).masked_fill_(is_hidden, -torch.inf)
        return Block(
            nodes,
            split,
            slots=torch.tensor(padded),
            run_rows=None if is_in_order else torch.tensor(rows),
            places=None if is_in_order else torch.tensor([places[at] for at in range(len(paths))]),
            mask=mask.repeat_interleave(_padded(self.group_length), 0).view(
                len(runs), 1, -1, _TAIL_LENGTH
            ),
        )


def _runs(paths: Sequence[Sequence[int]]) -> list[list[int]]:
    """Indexes of paths, each by one node longer than the one before it; in ascending order."""
    runs: list[list[int]] = []
    ends: dict[tuple[int, ...], list[int]] = {}  # path → the run that ends with it
    for index, path in enumerate(paths):
        run = ends.pop(tuple(path[:-1]), None)
        if run is None or len(run) == _MAX_RUN_LENGTH:
            run = []
            runs.append(run)
        run.append(index)
        ends[tuple(path)] = run
    return runs


def _padded(group_length: int) -> int:
    """Rows of a node: the query heads of a key head, and padding."""
    return -(-group_length // _ROW_MULTIPLE) * _ROW_MULTIPLE


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
    rows = _padded(group)
    grouped = query.view(kv_heads, group, num_nodes, dim).transpose(1, 2)
    padded = pad(grouped, (0, 0, 0, rows - group))  # [kv_heads, nodes, rows, dim]
    in_runs = padded if block.run_rows is None else padded.index_select(1, block.run_rows)
    memory_rows = _memory_rows(key, block.slots)  # and those of the values
    tail, tail_weight = attend(
        in_runs.reshape(kv_heads, len(block.slots), -1, dim).transpose(0, 1),
        _gathered(key, memory_rows),
        _gathered(value, memory_rows),
        attn_mask=block.mask,
        scale=scaling,
    )
    tail, tail_weight = (
        by_row if block.places is None else by_row.index_select(0, block.places)
        for by_row in (_by_node(tail, rows), _by_node(tail_weight, rows))
    )  # [nodes, rows, kv_heads, dim] and [nodes, rows, kv_heads]
    if block.split:
        context, context_weight = attend(
            padded.reshape(1, kv_heads, num_nodes * rows, dim),
            key[:, :, : block.split],
            value[:, :, : block.split],
            scale=scaling,
        )
        # Two numbers a softmax, so that each has the same code however many there are.
        weights = torch.stack((_by_node(context_weight, rows), tail_weight), dim=-1)
        context_share, tail_share = weights.softmax(dim=-1)[..., None].unbind(dim=-2)
        context = _by_node(context, rows)
        tail = (context * context_share + tail * tail_share).to(query.dtype)
    attended: torch.Tensor = tail[:, :group].transpose(1, 2).reshape(num_nodes, heads, dim)
    return attended


def _by_node(states: torch.Tensor, rows: int) -> torch.Tensor:
    """`[runs, kv_heads, rows of all nodes, …]` as `[nodes, rows, kv_heads, …]`."""
    return states.transpose(1, 2).reshape(-1, rows, states.shape[1], *states.shape[3:])


def _memory_rows(states: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """`[runs, kv_heads, 64]` where `[runs, 64]` slots of a cache lie in the memory of all heads."""
    head_stride = states.stride(1) // states.stride(2)  # slots from one head to the next
    starts = torch.arange(0, states.shape[1] * head_stride, head_stride)
    return slots[:, None] + starts[:, None]


def _gathered(states: torch.Tensor, memory_rows: torch.Tensor) -> torch.Tensor:
    """`[runs, kv_heads, 64, dim]` the keys or values in these rows of a cache's memory."""
    _, kv_heads, length, dim = states.shape
    head_stride = states.stride(1) // dim
    if states.stride()[1:] != (head_stride * dim, dim, 1):
        raise RuntimeError(f"keys or values lie otherwise in memory: strides {states.stride()}")
    memory = states.as_strided(((kv_heads - 1) * head_stride + length, dim), (dim, 1))
    return memory.index_select(0, memory_rows.view(-1)).view(*memory_rows.shape, dim)
