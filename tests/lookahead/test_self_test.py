"""What the self-tests find, and how a row class is chosen from it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import lookahead.path_attention
import lookahead.self_test as module
import lookahead.strictness as strictness_module
from lookahead.adapter import ModelAdapter
from lookahead.self_test import (
    RowClasses,
    cheapest_row_count,
    find_row_classes,
    row_cost_ratio,
    strict_tree_error,
    tree_error,
)
from lookahead.strictness import Strictness, find_strictness
from tests.lookahead.tiny_models import VOCAB_SIZE, tiny_model

pytestmark = pytest.mark.tiny


@pytest.mark.parametrize(
    ("classes", "max_rows", "best"),
    [
        (((1,), (2, 3), (4, 8, 16)), 16, (4, 8, 16)),
        (((1,), (2, 3), (4, 8, 16)), 3, (4, 8, 16)),
        (((1, 2, 4, 8), (3, 5, 32)), 32, (1, 2, 4, 8)),
        (((1, 2), (3, 4, 5)), 16, (3, 4, 5)),
        (((1,), (16, 32)), 8, (16, 32)),
        (((1,), (2,)), 16, (2,)),
        (((1,),), 16, ()),
        ((), 16, ()),
    ],
)
def test_the_class_is_that_of_one_row_or_the_widest(
    classes: tuple[tuple[int, ...], ...], max_rows: int, best: tuple[int, ...]
) -> None:
    assert RowClasses(classes, matches_stock=False).best(max_rows) == best


def test_classes_are_disjoint_and_survive_being_written_down() -> None:
    adapter = tiny_model("llama").adapter
    found = find_row_classes(adapter, VOCAB_SIZE)
    members = [rows for group in found.classes for rows in group]
    assert len(members) == len(set(members))
    assert set(members) <= set(range(1, 33))
    assert 1 in members
    assert found.matches_stock, "one row through strict attention is one row of the library"
    assert RowClasses.from_json(found.to_json()) == found


def bits_of(batch: Sequence[int], index: int) -> float:
    """What a made-up machine gives the row at `index`, by count, index, neighbours and token."""
    num_rows, token_id = len(batch), batch[index]
    if num_rows == 5:
        return index
    if num_rows == 6:
        return batch[index - 1]
    if num_rows == 20 and token_id == (7 + 19 * 7919) % VOCAB_SIZE:  # the last of twenty
        return 1.0
    return -float(num_rows > 1) - float(num_rows > 3)


def test_a_class_has_the_counts_that_alone_decide_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = tiny_model("llama").adapter
    forwards: Counter[int] = Counter()

    def verify(batch: Sequence[int], *_: Any, strict_rows: int) -> torch.Tensor:
        assert strict_rows == len(batch)
        forwards[len(batch)] += 1
        rows = [[float(token_id), bits_of(batch, row)] for row, token_id in enumerate(batch)]
        return torch.tensor(rows)

    monkeypatch.setattr(adapter, "verify", verify)
    found = find_row_classes(adapter, VOCAB_SIZE)
    others = tuple(rows for rows in range(4, 33) if rows not in (5, 6, 20))
    assert found.classes == ((1,), (2, 3), others, (20,))
    assert not found.matches_stock
    assert forwards[1] == 32, "one row has no neighbours and one index: each token once"
    assert forwards[2] == 32, "others in both orders"


@pytest.mark.parametrize(
    ("is_stock", "folds", "cascades", "kind", "folded"),
    [
        (True, True, True, "path", True),
        (True, False, True, "path", False),
        (False, False, True, "cascade", None),
        (False, False, False, "path", True),
    ],
)
def test_attention_is_the_librarys_where_that_can_be_else_the_cheapest_that_is_exact(
    monkeypatch: pytest.MonkeyPatch,
    is_stock: bool,
    folds: bool,
    cascades: bool,
    kind: str,
    folded: bool | None,
) -> None:
    found = {"follows_stock": is_stock, "fold_is_exact": folds, "cascade_is_exact": cascades}
    for name, answer in found.items():
        monkeypatch.setattr(f"lookahead.strictness.{name}", lambda *_, answer=answer: answer)
    adapter = ModelAdapter(tiny_model("llama").hf_model)
    strictness = find_strictness(adapter, VOCAB_SIZE, 16)
    assert strictness.attention == adapter.strict_attention.kind == kind
    assert getattr(adapter.strict_attention, "fold_query_group", None) == folded
    assert not (kind == "cascade" and strictness.is_stock)


@pytest.mark.parametrize("has_stock_weights", [True, False])
def test_weights_laid_out_with_other_bits_are_never_taken_for_the_librarys(
    monkeypatch: pytest.MonkeyPatch, has_stock_weights: bool
) -> None:
    classes = RowClasses(((1, 2, 3, 4),), matches_stock=True)
    found = {"follows_stock": True, "cascade_is_exact": False, "find_row_classes": classes}
    for name, answer in found.items():
        monkeypatch.setattr(f"lookahead.strictness.{name}", lambda *_, answer=answer: answer)
    adapter = ModelAdapter(tiny_model("llama").hf_model)
    strictness = find_strictness(adapter, VOCAB_SIZE, 16, has_stock_weights=has_stock_weights)
    assert strictness.is_stock is has_stock_weights


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({2: 36.0, 3: 34.0, 4: 32.0, 8: 39.0}, 4),
        ({2: 32.9, 3: 34.0, 4: 32.0, 8: 39.0}, 2),  # next to no more
        ({2: 20.0, 3: 34.0, 4: 32.0, 8: 39.0}, 2),
    ],
)
def test_a_step_is_padded_to_the_rows_that_cost_least(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], expected: int
) -> None:
    row_class = (2, 3, 4, 8, 16, 32)
    monkeypatch.setattr(module, "_processor_seconds", lambda *_: seconds)
    assert cheapest_row_count(tiny_model("llama").adapter, VOCAB_SIZE, row_class) == expected
    monkeypatch.setattr(module, "_processor_seconds", lambda cache, counts, _: {16: 1.0})
    assert cheapest_row_count(tiny_model("llama").adapter, VOCAB_SIZE, (16, 32)) == 16


@pytest.mark.parametrize("known", [None, "4", "7", "many"])
def test_the_rows_that_cost_least_are_measured_once(
    monkeypatch: pytest.MonkeyPatch, known: str | None
) -> None:
    found = {"follows_stock": True, "cascade_is_exact": False, "cheapest_row_count": 4}
    found["find_row_classes"] = RowClasses(((1, 2, 4, 8),), matches_stock=True)
    for name, answer in found.items():
        monkeypatch.setattr(f"lookahead.strictness.{name}", lambda *_, answer=answer: answer)
    key = f"fewest_rows:path:{strictness_module._VERSION}:here"
    facts = {} if known is None else {key: known}
    adapter = ModelAdapter(tiny_model("llama").hf_model)
    strictness = find_strictness(adapter, VOCAB_SIZE, 8, fingerprint="here", facts=facts)
    assert (strictness.row_class, strictness.fewest_rows) == ((1, 2, 4, 8), 4)
    assert strictness.is_stock, "four rows have the bits of one"
    assert facts[key] == "4"


def test_attention_that_is_wrong_alike_in_every_tree_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adapter = ModelAdapter(tiny_model("llama").hf_model)
    assert strict_tree_error(adapter, VOCAB_SIZE, 8) < 1e-9
    assert strict_tree_error(adapter, VOCAB_SIZE, 2) < 1e-9
    right = lookahead.path_attention._one_query
    monkeypatch.setattr(
        "lookahead.path_attention._one_query", lambda *args, **kwargs: 2 * right(*args, **kwargs)
    )
    monkeypatch.setattr("lookahead.strictness.cascade_is_exact", lambda _: False)
    assert "off by" in find_strictness(adapter, VOCAB_SIZE, 16).problem


def ignore_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lookahead.strictness.cheapest_row_count", lambda _, __, row_class: row_class[0])


@pytest.fixture(scope="module")
def measured() -> tuple[Strictness, dict[str, str]]:
    facts: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        ignore_clock(patch)
        sound = find_strictness(
            tiny_model("llama").adapter, VOCAB_SIZE, 16, fingerprint="here", facts=facts
        )
    assert sound.row_class
    return sound, facts


@pytest.mark.parametrize(
    "damaged",
    [
        *("", "{", "[]", "{}", '{"classes": 3}', "null"),
        *(
            '{"classes": [[]], "matches_stock": true}',
            '{"classes": [["1"]], "matches_stock": true}',
        ),
        '{"classes": [[4, 2], [64]], "matches_stock": true}',
    ],
)
def test_a_damaged_fact_is_measured_anew(
    measured: tuple[Strictness, dict[str, str]], damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore_clock(monkeypatch)
    adapter, (sound, facts) = tiny_model("llama").adapter, measured
    for key, value in facts.items():
        read = {**facts, key: damaged}
        assert find_strictness(adapter, VOCAB_SIZE, 16, fingerprint="here", facts=read) == sound
        assert read[key] == value


def test_a_wrong_mask_is_seen_in_the_tree_error(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = tiny_model("llama").adapter
    assert tree_error(adapter, VOCAB_SIZE) < 1e-6
    monkeypatch.setattr(adapter, "_windows", {"full_attention": 8})
    assert tree_error(adapter, VOCAB_SIZE) > 1e-3


def test_the_cost_of_rows_is_the_processor_time_of_the_least_disturbed_forwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock on the wall, which other programs stretch, made one machine choose two dtypes."""
    adapter = tiny_model("llama").adapter
    verify, clock, forwards = adapter.verify, [0.0], [0]

    def timed(token_ids: Sequence[int], *args: Any) -> torch.Tensor:
        forwards[0] += 1
        disturbance = 0.0 if forwards[0] % 5 in (0, 1) else 1.0
        clock[0] += 1.0 + 0.25 * (len(token_ids) > 1) + disturbance
        return verify(token_ids, *args)

    monkeypatch.setattr(adapter, "verify", timed)
    monkeypatch.setattr("lookahead.self_test.time.process_time", lambda: clock[0])
    assert row_cost_ratio(adapter, VOCAB_SIZE, 16) == pytest.approx(1.25)
