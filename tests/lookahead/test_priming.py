"""Priming: the whole successor table, as the model itself would fill it, in pieces."""

import numpy as np
import pytest
import torch

from lookahead.kv_cache import KVCache
from lookahead.priming import prime
from lookahead.successors import NUM_SUCCESSORS, SuccessorTable
from tests.lookahead.tiny_models import VOCAB_SIZE, WINDOWED_FAMILIES, tiny_model

PREFIX = [1, 7, 11, 30]
BY_HAND = np.arange(NUM_SUCCESSORS, dtype=np.int32)


def rows_of(table: SuccessorTable) -> list[list[int]]:
    return [table.successors(token_id) for token_id in range(table.vocab_size)]


@pytest.mark.parametrize(
    ("family", "attention"), [("llama", "sdpa"), ("gpt2", "eager"), *WINDOWED_FAMILIES]
)
def test_each_token_gets_what_the_model_says_behind_it(family: str, attention: str) -> None:
    model = tiny_model(family, attention)
    table = SuccessorTable(VOCAB_SIZE)
    assert list(prime(model, table, PREFIX))[-1] == table.known_share == 1.0
    with torch.no_grad():
        for token_id in range(VOCAB_SIZE):
            ids = torch.tensor([[*PREFIX, token_id]])
            logits = model.hf_model(input_ids=ids).logits[0, -1]
            assert table.successors(token_id) == logits.topk(NUM_SUCCESSORS).indices.tolist()


def test_rows_that_an_answer_taught_stay() -> None:
    table = SuccessorTable(VOCAB_SIZE)
    table.update([3], BY_HAND[None])
    priming = prime(tiny_model("llama"), table, PREFIX)
    next(priming)
    table.update([VOCAB_SIZE - 1], BY_HAND[None])  # meanwhile
    for _ in priming:
        pass
    assert table.successors(3) == table.successors(VOCAB_SIZE - 1) == BY_HAND.tolist()
    assert table.known_share == 1.0


def test_broken_off_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    whole, pieces = SuccessorTable(VOCAB_SIZE), SuccessorTable(VOCAB_SIZE)
    assert list(prime(model, whole, PREFIX))
    first_share = next(prime(model, pieces, PREFIX))
    assert 0 < first_share < 1
    again = SuccessorTable.from_bytes(pieces.to_bytes())
    assert next(prime(model, again, PREFIX)) > first_share
    assert list(prime(model, again, PREFIX))
    assert rows_of(again) == rows_of(whole)
    monkeypatch.setattr(model.adapter, "prefill", None)
    assert list(prime(model, again, PREFIX)) == [], "a full table costs nothing"


def test_slow_batches_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = tiny_model("llama"), SuccessorTable(VOCAB_SIZE)
    seconds = 0.0
    sizes: list[int] = []
    verify = model.adapter.verify

    def clock() -> float:
        return seconds

    def slow_verify(token_ids: list[int], parents: list[int], cache: KVCache) -> torch.Tensor:
        nonlocal seconds
        seconds += len(token_ids) * 0.1
        sizes.append(len(token_ids))
        return verify(token_ids, parents, cache)

    monkeypatch.setattr(model.adapter, "verify", slow_verify)
    assert list(prime(model, table, PREFIX, clock))
    assert sizes == [16, 16, 16], "no larger ones where they would take too long"


def test_a_model_that_only_decodes_plainly_is_not_primed() -> None:
    table = SuccessorTable(VOCAB_SIZE)
    assert list(prime(tiny_model("mamba"), table, PREFIX)) == []
    assert table.known_share == 0.0
