"""The likeliest ids of rows of logits: as good as a full sort's, in every type of a model."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookahead.candidates import IntArray
from lookahead.top_ids import likeliest_ids

pytestmark = pytest.mark.tiny

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def check(found: IntArray, logits: torch.Tensor) -> None:
    """They are distinct, and their logits those that a sort puts first; of equal ones any."""
    for token_ids, row in zip(found.tolist(), logits.double().tolist(), strict=True):
        assert [row[token_id] for token_id in token_ids] == sorted(row, reverse=True)[:8]
        assert len(set(token_ids)) == 8


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab_size", [9, 511, 512, 513, 5_000])
def test_the_eight_likeliest_are_as_good_as_those_of_a_full_sort(
    dtype: torch.dtype, vocab_size: int
) -> None:
    torch.manual_seed(vocab_size)
    logits = (torch.randn(5, vocab_size) * 10 - 3).to(dtype)
    logits[1] = -logits[1].abs()  # below zero throughout
    logits[2, ::3] = -torch.inf  # as processors leave them
    logits[3] = logits[3].round()  # many are equal
    logits[4] = torch.arange(vocab_size).to(dtype)
    found = likeliest_ids(logits)
    assert (found.shape, found.dtype) == ((5, 8), np.int32)
    check(found, logits)


def test_a_small_vocabulary_leaves_the_rest_of_a_row_open() -> None:
    assert likeliest_ids(torch.tensor([[0.5, 2.0, -1.0]])).tolist() == [[1, 0, 2, *[-1] * 5]]


def test_rows_need_not_lie_side_by_side_and_stay_as_they_are() -> None:
    whole = torch.randn(4, 700).to(torch.bfloat16)
    rows = whole[::2, 50:650]
    before = whole.clone()
    check(likeliest_ids(rows), rows)
    assert torch.equal(whole, before)


@given(st.lists(st.floats(width=16, allow_nan=False), min_size=1, max_size=40))
def test_half_precision_is_ordered_by_its_bits(row: list[float]) -> None:
    """Zeros of both signs alone are told apart."""
    logits = torch.tensor([row], dtype=torch.float16)
    found = [token_id for token_id in likeliest_ids(logits)[0].tolist() if token_id >= 0]
    assert [row[at] for at in found] == sorted(row, reverse=True)[:8]


@pytest.mark.parametrize("dtype", DTYPES)
def test_whatever_the_logits_are_the_ids_are_of_the_vocabulary(dtype: torch.dtype) -> None:
    """They are indexes of tables in compiled code, which checks none."""
    logits = torch.randn(4, 600, requires_grad=True).to(dtype)
    is_broken = torch.zeros(4, 600, dtype=torch.bool)
    is_broken[1], is_broken[2, ::2] = True, True
    logits = logits.masked_fill(is_broken, torch.nan)
    for token_ids in likeliest_ids(logits).tolist():
        assert len(set(token_ids)) == 8
        assert 0 <= min(token_ids) <= max(token_ids) < 600
    assert likeliest_ids(logits[:0]).shape == (0, 8)
