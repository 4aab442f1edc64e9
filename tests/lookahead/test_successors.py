"""The successor table: the last word counts, and bytes are believed only when whole."""

import numpy as np
import pytest

from lookahead.blob import pack_arrays
from lookahead.successors import HEADER, NUM_SUCCESSORS, SuccessorFormatError, SuccessorTable
from tests.lookahead.lookups import pair_successors


def rows(*firsts: int) -> np.ndarray:
    return np.array([range(first, first + NUM_SUCCESSORS) for first in firsts])


def test_knows_nothing_at_first_and_nothing_outside_its_vocabulary() -> None:
    table = SuccessorTable(3)
    assert table.successors(0) == []
    assert pair_successors(table, 0, 1) == []
    assert table.successors(3) == []
    assert table.successors(-1) == []


def test_the_last_row_of_a_token_stays() -> None:
    table = SuccessorTable(4)
    table.update([0, 3, 0], rows(10, 20, 30))
    assert table.successors(0) == list(range(30, 38))
    assert table.successors(3) == list(range(20, 28))
    table.update([0], rows(5))
    assert table.successors(0) == list(range(5, 13))


def test_a_row_is_known_for_its_token_and_for_the_two_before_it() -> None:
    table = SuccessorTable(4)
    table.update([2, 2, 3], rows(10, 20, 30), [1, 3, -1])
    assert pair_successors(table, 1, 2) == list(range(10, 18))
    assert pair_successors(table, 3, 2) == list(range(20, 28))
    assert table.successors(2) == list(range(20, 28))
    assert pair_successors(table, 2, 1) == []
    assert pair_successors(table, -1, 3) == []


def test_two_pairs_on_one_slot_are_never_mistaken_for_each_other() -> None:
    table = SuccessorTable(70_000)
    table.update([1], rows(10), [0])
    table.update([1 + 65_536], rows(20), [0])
    assert pair_successors(table, 0, 1) == []
    assert pair_successors(table, 0, 1 + 65_536) == list(range(20, 28))


def test_a_table_saved_before_there_were_pairs_is_read_without_any() -> None:
    earlier = pack_arrays(HEADER, {"top_ids": rows(*range(12)).astype(np.int32) % 12})
    table = SuccessorTable.from_bytes(earlier)
    assert table.successors(1) == list(range(1, 9))
    assert pair_successors(table, 0, 1) == []


def test_stored_bytes_bring_back_the_same_table_which_goes_on_learning() -> None:
    table = SuccessorTable(12)
    table.update([1], rows(0), [0])
    again = SuccessorTable.from_bytes(table.to_bytes())
    assert again.vocab_size == 12
    assert again.successors(1) == pair_successors(again, 0, 1) == list(range(8))
    again.update([1], rows(3))
    assert again.successors(1) == list(range(3, 11))


def test_damaged_or_foreign_bytes_are_refused() -> None:
    whole = SuccessorTable(2).to_bytes()
    damaged = bytearray(whole)
    damaged[-60] ^= 1
    wrong_shape = pack_arrays(HEADER, {"top_ids": np.zeros((2, 3), np.int32)})
    wrong_type = pack_arrays(HEADER, {"top_ids": np.zeros((2, NUM_SUCCESSORS))})
    nameless = pack_arrays(HEADER, {})
    top_ids = np.zeros((2, NUM_SUCCESSORS), np.int32)
    wrong_pairs = pack_arrays(
        HEADER, {"top_ids": top_ids, "pairs": np.zeros(3, np.int64), "pair_top_ids": top_ids}
    )
    for blob in (b"", bytes(damaged), whole[:-1], wrong_shape, wrong_type, nameless, wrong_pairs):
        with pytest.raises(SuccessorFormatError):
            SuccessorTable.from_bytes(blob)


def test_ids_outside_the_vocabulary_are_refused() -> None:
    """They reached the model as tokens, which it has no embedding of."""
    for outside in (-2, 12, 2**31 - 1):
        for is_pair in (False, True):
            table = SuccessorTable(12)
            table.update([1], rows(0), [0])
            rows_of = table._pair_top_ids if is_pair else table._top_ids
            rows_of[3, 7] = outside
            with pytest.raises(SuccessorFormatError):
                SuccessorTable.from_bytes(table.to_bytes())
    table = SuccessorTable(12)
    table._pair_top_ids = table._pair_top_ids.astype(np.int64)  # type: ignore[assignment]
    with pytest.raises(SuccessorFormatError, match="pairs"):
        SuccessorTable.from_bytes(table.to_bytes())


def test_an_unknown_row_wipes_nothing_out() -> None:
    table = SuccessorTable(3)
    table.update([1, 2], rows(10, 20))
    table.update([1, 2, 1], np.concatenate([rows(30), np.full((2, NUM_SUCCESSORS), -1)]))
    assert table.successors(1) == list(range(30, 38))
    assert table.successors(2) == list(range(20, 28))
