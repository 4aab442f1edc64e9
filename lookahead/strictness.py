"""Whether and how a model decodes strictly here: one row class and one attention, for good.

Both are chosen once per loaded model, since its text depends on them. Called by the loaded model
the first time strict mode is asked for.
"""

import contextlib
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

from lookahead.adapter import ModelAdapter
from lookahead.self_test import RowClasses, find_row_classes, fold_is_exact

__all__ = ["Strictness", "find_strictness"]


@dataclass(frozen=True, slots=True)
class Strictness:
    """How strict mode is kept.

    Args:
        row_class: row counts to decode with, ascending; empty: strict mode is not possible.
        is_stock: whether the greedy text is that of the library's own `generate()`.
        problem: why it is not possible, in a sentence; empty where it is.
    """

    row_class: tuple[int, ...] = ()
    is_stock: bool = False
    problem: str = ""


def find_strictness(
    adapter: ModelAdapter,
    vocab_size: int,
    max_rows: int,
    *,
    fingerprint: str = "",
    facts: MutableMapping[str, str] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Strictness:
    """Measure the row classes, or take them from `facts`, and set the adapter's attention to suit.

    Args:
        adapter: of the loaded model.
        max_rows: rows of one forward that are wanted at most.
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
    classes = _row_classes(adapter, vocab_size, fingerprint, {} if facts is None else facts, report)
    members = classes.best(max_rows)
    if not members:
        return Strictness(problem="No two row counts give the same bits on this machine.")
    is_stock = members[0] == 1 and classes.matches_stock
    # Folding changes a bit now and then, so it is used where equality with the library's own
    # generate() is out of reach anyway, and with it where it was seen to change none.
    adapter.fold_query_group = not is_stock or fold_is_exact(adapter)
    return Strictness(members, is_stock)


def _row_classes(
    adapter: ModelAdapter,
    vocab_size: int,
    fingerprint: str,
    facts: MutableMapping[str, str],
    report: Callable[[str], None],
) -> RowClasses:
    key = f"row_classes:{fingerprint}"
    with contextlib.suppress(KeyError, TypeError, ValueError):  # unknown, or damaged
        return RowClasses.from_json(facts[key])
    classes = find_row_classes(adapter, vocab_size, report)
    facts[key] = classes.to_json()
    return classes
