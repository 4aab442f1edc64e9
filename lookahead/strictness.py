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
from lookahead.self_test import (
    RowClasses,
    cheapest_row_count,
    find_row_classes,
    follows_stock,
    max_tree_error,
    strict_tree_error,
)

__all__ = ["Strictness", "find_strictness"]


# Raised where an attention is computed otherwise or other things are measured: what an earlier
# version found holds no more then.
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Strictness:
    """How strict mode is kept.

    Args:
        row_class: row counts to decode with, ascending; empty: strict mode is not possible.
        fewest_rows: that one of them which a step over one node costs least with.
        attention: kind of the attention over a tree, "path" or "cascade"; empty: not possible.
        is_stock: whether the greedy text is that of the library's own `generate()`.
        problem: why it is not possible, in a sentence; empty where it is.
    """

    row_class: tuple[int, ...] = ()
    fewest_rows: int = 1
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
    measurements = _Measurements(
        adapter, vocab_size, fingerprint, {} if facts is None else facts, report
    )
    attention = measurements.attention(has_stock_weights=has_stock_weights)
    adapter.use(attention)
    classes = measurements.row_classes(attention.kind)
    row_class = classes.best(max_rows)
    if not row_class:
        return Strictness(problem="No two row counts give the same bits on this machine.")
    error = strict_tree_error(adapter, vocab_size, row_class[-1])
    if error > max_tree_error(adapter.dtype):
        return Strictness(problem=f"Strict attention is off by {error:.1e} with this model.")
    is_stock = attention.kind == "path" and row_class[0] == 1 and classes.matches_stock
    return Strictness(
        row_class,
        measurements.fewest_rows(attention.kind, row_class),
        attention.kind,
        is_stock and has_stock_weights,
    )


@dataclass(frozen=True, slots=True)
class _Measurements:
    """What is measured of a model once per machine, or known from an earlier time."""

    adapter: ModelAdapter
    vocab_size: int
    fingerprint: str
    facts: MutableMapping[str, str]
    report: Callable[[str], None]

    def attention(self, *, has_stock_weights: bool) -> StrictAttention:
        """The attention with the bits of the library's decode step; where those are out of reach
        since one row is run by other kernels than many, the cheapest that is exact.

        Folding changes a bit now and then, so path attention folds where it was seen to change
        none, or where the library's bits are out of reach anyway.
        """
        key, adapter = self._key("strict_attention"), self.adapter
        choices: dict[str, StrictAttention] = {
            "cascade": CascadeAttention(adapter.dtype, adapter.query_group_length),
            "path": PathAttention(),
            "path, folded": PathAttention(fold_query_group=True),
        }
        if self.facts.get(key) not in choices:
            self.report("Choosing how strict mode attends here (once per machine)")
            if has_stock_weights and follows_stock(adapter, self.vocab_size):
                self.facts[key] = "path, folded" if fold_is_exact(adapter) else "path"
            else:
                self.facts[key] = "cascade" if cascade_is_exact(adapter) else "path, folded"
        return choices[self.facts[key]]

    def row_classes(self, attention: str) -> RowClasses:
        """Row counts with equal bits, with this kind of attention."""
        key = self._key(f"row_classes:{attention}")
        with contextlib.suppress(KeyError, TypeError, ValueError):  # unknown, or damaged
            return RowClasses.from_json(self.facts[key])
        classes = find_row_classes(self.adapter, self.vocab_size, self.report)
        self.facts[key] = classes.to_json()
        return classes

    def fewest_rows(self, attention: str, row_class: tuple[int, ...]) -> int:
        """Rows that a step is padded to, whatever it verifies; on a GPU rows are nearly free."""
        if self.adapter.device.type != "cpu":
            return row_class[0]
        key = self._key(f"fewest_rows:{attention}")
        if self.facts.get(key, "") not in map(str, row_class):
            self.facts[key] = str(cheapest_row_count(self.adapter, self.vocab_size, row_class))
        return int(self.facts[key])

    def _key(self, what: str) -> str:
        return f"{what}:{_VERSION}:{self.fingerprint}"
