"""What a loaded model can do here, found out by trying: trees, strict rows, the cost of rows.

Every answer depends on weights, dtype, device, threads and library versions, so it is measured on
the loaded model and remembered by the callers under those. Nothing here decodes text.
"""

import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lookahead.adapter import ModelAdapter
from lookahead.kv_cache import Cache, KVCache, new_stock_cache

__all__ = [
    "MAX_PROBED_ROWS",
    "RowClasses",
    "cheapest_row_count",
    "find_row_classes",
    "follows_stock",
    "max_tree_error",
    "row_cost_ratio",
    "strict_tree_error",
    "tree_error",
]

MAX_PROBED_ROWS = 32
_CONTEXT_LENGTH = 96  # so long that cascade attention has both of its blocks
_TIMED_ROUNDS = 12
_MOST_PADDED_ROWS = 8  # of a plain step
_NEXT_TO_NOTHING = 1.03  # times the cheapest
_MIN_COMPARED_TOKENS = 16  # of the pool of 32, at every row count
_FEWEST_ROWS = 4
_TREE = (-1, 0, 1, 2, 0, 4, 1, 6)  # parents: three branches, one of them behind another


@dataclass(frozen=True, slots=True)
class RowClasses:
    """Row counts of a forward that give every token the same bits.

    Args:
        classes: disjoint groups of row counts, each ascending; a count whose bits depend on the
            row's index or neighbours is in none.
        matches_stock: whether one row gives the bits of the library's own decode step.
    """

    classes: tuple[tuple[int, ...], ...]
    matches_stock: bool

    def best(self, max_rows: int) -> tuple[int, ...]:
        """The class to decode in; empty if none allows a draft.

        That of one row where it allows a draft of `_FEWEST_ROWS`, since its plain steps need no
        padding; else the one that allows the widest draft at `max_rows` at most. Not decided by
        timing: the class decides the bits, so it must not change with the machine's load.
        """

        def worth(group: tuple[int, ...]) -> tuple[bool, int, int]:
            widest = max((rows for rows in group if rows <= max_rows), default=group[0])
            return group[0] == 1 and widest >= _FEWEST_ROWS, widest, -group[0]

        return max((group for group in self.classes if group[-1] > 1), key=worth, default=())

    def to_json(self) -> str:
        """Serialize."""
        return json.dumps(
            {
                "classes": self.classes,
                "matches_stock": self.matches_stock,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "RowClasses":
        """Read what `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        known = json.loads(text)
        classes = tuple(tuple(group) for group in known["classes"])
        possible = range(1, MAX_PROBED_ROWS + 1)
        for group in classes:
            if not group or group != tuple(rows for rows in possible if rows in group):
                raise ValueError(f"{group} are no row counts")
        return cls(classes, known["matches_stock"] is True)


def find_row_classes(
    adapter: ModelAdapter, vocab_size: int, report: Callable[[str], None] = lambda _: None
) -> RowClasses:
    """Run every row count from 1 to 32, each token at several indexes among other neighbours.

    All rows stand at the same position behind the same context with only themselves in view, so
    that a difference can come from the row count, the row's index or its neighbours alone.
    """
    pool = _probe_ids(vocab_size, MAX_PROBED_ROWS)
    cache = _probe_cache(adapter, vocab_size)
    classes: list[tuple[list[int], dict[int, torch.Tensor]]] = []
    for num_rows in range(1, MAX_PROBED_ROWS + 1):
        if num_rows % 8 == 1:
            report(f"Comparing the bits at {num_rows} to {num_rows + 7} rows (once per machine)")
        num_tokens = min(len(pool), max(_MIN_COMPARED_TOKENS, num_rows))
        logits = _logits_by_token(adapter, cache, pool[:num_tokens], num_rows)
        if logits is None:
            continue
        for members, known in classes:
            if all(torch.equal(known[token_id], row) for token_id, row in logits.items()):
                members.append(num_rows)
                break
        else:
            rest = _logits_by_token(adapter, cache, pool[num_tokens:], num_rows)
            if rest is not None:
                classes.append(([num_rows], logits | rest))
    stock = _stock_logits(adapter, vocab_size, pool[0])
    return RowClasses(
        classes=tuple(tuple(members) for members, _ in classes),
        matches_stock=any(
            members[0] == 1 and torch.equal(known[pool[0]], stock) for members, known in classes
        ),
    )


def _logits_by_token(
    adapter: ModelAdapter, cache: KVCache, token_ids: Sequence[int], num_rows: int
) -> dict[int, torch.Tensor] | None:
    """Logits of each token at `num_rows` rows; None if they depend on index or neighbours.

    The tokens are run in order, a full forward at a time, then in reverse: every row index is
    taken, and each token has met two of them among different neighbours. One row has one index and
    no neighbours: once is enough.
    """
    logits: dict[int, torch.Tensor] = {}
    order = list(token_ids)
    for tokens in [order, order[::-1]][:num_rows]:
        for start in range(0, len(tokens), num_rows):
            batch = [tokens[(start + row) % len(tokens)] for row in range(num_rows)]
            for token_id, row in zip(batch, _strict_rows(adapter, cache, batch), strict=True):
                if not torch.equal(logits.setdefault(token_id, row.clone()), row):
                    return None
    return logits


def _strict_rows(adapter: ModelAdapter, cache: KVCache, token_ids: Sequence[int]) -> torch.Tensor:
    """Logits `[num_rows, vocab]` of one forward, each token alone behind the context."""
    num_rows = len(token_ids)
    rows = adapter.verify(token_ids, [-1] * num_rows, cache, strict_rows=num_rows)
    cache.truncate(_CONTEXT_LENGTH)
    return rows


def follows_stock(adapter: ModelAdapter, vocab_size: int) -> bool:
    """Whether several rows give tokens the bits of one row, and that of the library's own step."""
    token_ids = _probe_ids(vocab_size, _MIN_COMPARED_TOKENS)
    cache = _probe_cache(adapter, vocab_size)
    several = _logits_by_token(adapter, cache, token_ids, _FEWEST_ROWS)
    if several is None:
        return False
    stock = _stock_logits(adapter, vocab_size, token_ids[0])
    return torch.equal(several[token_ids[0]], stock) and all(
        torch.equal(_strict_rows(adapter, cache, [token_id])[0], row)  # to the first difference
        for token_id, row in several.items()
    )


def tree_error(adapter: ModelAdapter, vocab_size: int) -> float:
    """Largest difference between a tree's logits and those of its branches run one by one.

    Relative to the largest logit. Small (rounding) where the family's masks, positions and cache
    are handled right; near 1 where they are not.
    """
    token_ids, parents = _probe_ids(vocab_size, len(_TREE)), _TREE
    tree = adapter.verify(token_ids, parents, _probe_cache(adapter, vocab_size)).float()
    stock = {-1: _stock_cache(adapter, vocab_size)}  # behind each node
    positions = {-1: _CONTEXT_LENGTH - 1}
    worst, scale = 0.0, 1.0
    for node, parent in enumerate(parents):
        stock[node] = copy.deepcopy(stock[parent])
        positions[node] = positions[parent] + 1
        row = adapter.prefill([token_ids[node]], stock[node], positions[node]).float()
        worst = max(worst, float((tree[node] - row).abs().max()))
        scale = max(scale, float(row.abs().max()))
    return worst / scale


def strict_tree_error(adapter: ModelAdapter, vocab_size: int, rows: int) -> float:
    """Largest difference between a tree's logits in strict and in flexible mode, as `tree_error`.

    Bits that are equal whatever is drafted could all be wrong alike.
    """
    parents = _TREE[:rows]
    token_ids = _probe_ids(vocab_size, len(parents))
    strict, flexible = (
        adapter.verify(
            token_ids, parents, _probe_cache(adapter, vocab_size), strict_rows=strict_rows
        ).float()
        for strict_rows in (rows, None)
    )
    return float((strict - flexible).abs().max() / flexible.abs().max().clamp(min=1.0))


def max_tree_error(dtype: torch.dtype) -> float:
    """Above it a mask is wrong: rounding stays far below (0.02 in bf16, 2e-6 in fp32 for the
    embedded model), another mask is far above (docs/lab-log.md).
    """
    return {torch.float64: 1e-5, torch.float32: 1e-3}.get(dtype, 0.1)


def row_cost_ratio(adapter: ModelAdapter, vocab_size: int, num_rows: int) -> float:
    """What a forward over `num_rows` rows costs, in forwards over one row. For a CPU."""
    cache = _probe_cache(adapter, vocab_size)

    def forward(rows: int) -> torch.Tensor:
        return adapter.verify(_probe_ids(vocab_size, rows), range(-1, rows - 1), cache)

    seconds = _processor_seconds(cache, (1, num_rows), forward)
    return seconds[num_rows] / seconds[1]


def cheapest_row_count(adapter: ModelAdapter, vocab_size: int, row_class: Sequence[int]) -> int:
    """The row count of a class that a strict step over one node is padded to at least cost.

    Some kernels take four rows in less time than two. The fewest rows that cost next to no more
    than the cheapest. It changes no bit, so the clock may decide. For a CPU.
    """
    cache = _probe_cache(adapter, vocab_size)

    def forward(rows: int) -> torch.Tensor:
        return adapter.verify(_probe_ids(vocab_size, 1), [-1], cache, strict_rows=rows)

    counts = [rows for rows in row_class if rows <= _MOST_PADDED_ROWS] or row_class[:1]
    seconds = _processor_seconds(cache, counts, forward)
    limit = _NEXT_TO_NOTHING * min(seconds.values())
    return next(rows for rows in counts if seconds[rows] <= limit)


def _processor_seconds(
    cache: KVCache, counts: Sequence[int], forward: Callable[[int], torch.Tensor]
) -> dict[int, float]:
    """What forwards over these row counts take: processor time of all threads.

    In turns, from the cheapest of each: another program that takes the processors away doubles the
    time on the clock and hardly touches this.
    """
    cheapest = dict.fromkeys(counts, math.inf)
    for _ in range(_TIMED_ROUNDS):
        for rows in counts:
            started = time.process_time()
            forward(rows)[-1, 0].item()
            cheapest[rows] = min(cheapest[rows], time.process_time() - started)
            cache.truncate(_CONTEXT_LENGTH)
    return cheapest


def _probe_ids(vocab_size: int, count: int) -> list[int]:
    """`count` tokens spread over the vocabulary, the same on every run, distinct where possible."""
    return [(7 + index * 7919) % vocab_size for index in range(count)]


def _probe_cache(adapter: ModelAdapter, vocab_size: int) -> KVCache:
    cache = KVCache(adapter.num_layers, _CONTEXT_LENGTH + MAX_PROBED_ROWS)
    adapter.prefill(_probe_ids(vocab_size, _CONTEXT_LENGTH), cache, 0)
    return cache


def _stock_cache(adapter: ModelAdapter, vocab_size: int) -> Cache:
    cache = new_stock_cache(adapter.hf_model.config)
    adapter.prefill(_probe_ids(vocab_size, _CONTEXT_LENGTH), cache, 0)
    return cache


def _stock_logits(adapter: ModelAdapter, vocab_size: int, token_id: int) -> torch.Tensor:
    return adapter.prefill([token_id], _stock_cache(adapter, vocab_size), _CONTEXT_LENGTH)
