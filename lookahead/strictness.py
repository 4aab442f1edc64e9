"""Whether and how a model decodes strictly here: one row class and one attention, for good.

Both are chosen once per loaded model, since its text depends on them. Called by the loaded model
the first time strict mode is asked for.
"""

import contextlib
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

from lookahead.adapter import ModelAdapter, StrictAttention
from lookahead.attention_probe import cascade_is_exact, fold_is_exact
from lookahead.cascade_attention import CascadeAttention
from lookahead.path_attention import PathAttention
from lookahead.self_test import RowClasses, cheapest_row_count, find_row_classes, follows_stock

__all__ = ["Strictness", "find_strictness"]


@dataclass(frozen=True, slots=True)
class Strictness:
    """How strict mode is kept.

    Args:
        row_class: row counts to decode with, ascending, without those that cost more than a larger
            one; empty: strict mode is not possible.
        attention: kind of the attention over a tree, "path" or "cascade"; empty: not possible.
        is_stock: whether the greedy text is that of the library's own `generate()`.
        problem: why it is not possible, in a sentence; empty where it is.
    """

    row_class: tuple[int, ...] = ()
    attention: str = ""
    is_stock: bool = False
    problem: str = ""


def find_strictness(
    adapter: ModelAdapter,
    vocab_size: int,
    max_rows: int,
    *,
    has_stock_weights: bool = True,
    fingerprint: str = "",
    facts: MutableMapping[str, str] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Strictness:
    """Measure the row classes, or take them from `facts`, and set the adapter's attention to suit.

    Args:
        adapter: of the loaded model.
        max_rows: rows of one forward that are wanted at most.
        has_stock_weights: whether the weights are laid out so that the library's bits are kept.
        fingerprint: of the model on this machine, the key in `facts`.
        facts: where measurements are kept; None: nowhere.
        report: told in sentences what takes long.
    """
    if adapter.attention != "sdpa":
        return Strictness(
            problem=f"Strict mode needs sdpa attention; this model runs {adapter.attention}."
        )
    if adapter.has_sliding_window:
        return Strictness(
            problem="This model attends through a sliding window, which strict mode cannot place."
        )
    known = {} if facts is None else facts
    key = f"strict_attention:{fingerprint}"
    attention = _attention(
        *(adapter, vocab_size, key, known, report), has_stock_weights=has_stock_weights
    )
    adapter.use(attention)
    key = f"row_classes:{attention.kind}:{fingerprint}"
    classes = _row_classes(adapter, vocab_size, key, known, report)
    members = classes.best(max_rows)
    if not members:
        return Strictness(problem="No two row counts give the same bits on this machine.")
    fewest = _fewest_rows(
        adapter, vocab_size, members, f"fewest_rows:{attention.kind}:{fingerprint}", known
    )
    is_stock = attention.kind == "path" and members[0] == 1 and classes.matches_stock
    worth_running = tuple(rows for rows in members if rows >= fewest)
    return Strictness(worth_running, attention.kind, is_stock and has_stock_weights)


def _attention(
    adapter: ModelAdapter,
    vocab_size: int,
    key: str,
    facts: MutableMapping[str, str],
    report: Callable[[str], None],
    *,
    has_stock_weights: bool,
) -> StrictAttention:
    """The attention with the bits of the library's decode step; where those are out of reach since
    one row is run by other kernels than many, the cheapest that is exact.

    Folding changes a bit now and then, so path attention folds where it was seen to change none, or
    where the library's bits are out of reach anyway.
    """
    choices: dict[str, StrictAttention] = {
        "cascade": CascadeAttention(adapter.dtype, adapter.query_group_length),
        "path": PathAttention(),
        "path, folded": PathAttention(fold_query_group=True),
    }
    if facts.get(key) not in choices:
        report("Choosing how strict mode attends here (once per machine)")
        if has_stock_weights and follows_stock(adapter, vocab_size):
            facts[key] = "path, folded" if fold_is_exact(adapter) else "path"
        else:
            facts[key] = "cascade" if cascade_is_exact(adapter) else "path, folded"
    return choices[facts[key]]


def _row_classes(
    adapter: ModelAdapter,
    vocab_size: int,
    key: str,
    facts: MutableMapping[str, str],
    report: Callable[[str], None],
) -> RowClasses:
    with contextlib.suppress(KeyError, TypeError, ValueError):  # unknown, or damaged
        return RowClasses.from_json(facts[key])
    classes = find_row_classes(adapter, vocab_size, report)
    facts[key] = classes.to_json()
    return classes


def _fewest_rows(
    adapter: ModelAdapter,
    vocab_size: int,
    row_class: tuple[int, ...],
    key: str,
    facts: MutableMapping[str, str],
) -> int:
    """Rows that a step is padded to, whatever it verifies; measured where that is a processor's."""
    if adapter.device.type != "cpu":
        return row_class[0]
    if facts.get(key, "") not in map(str, row_class):
        facts[key] = str(cheapest_row_count(adapter, vocab_size, row_class))
    return int(facts[key])
