"""Deeper reading: what the model would say at each place of a text, in batches of a moment."""

from itertools import pairwise

import pytest
import torch

from lookahead.deeper_reading import read
from lookahead.pace import Pace
from lookahead.successors import NUM_SUCCESSORS, SuccessorTable
from tests.lookahead.lookups import pair_successors
from tests.lookahead.tiny_models import VOCAB_SIZE, tiny_model

TEXT = [(at * 7) % 41 + 3 for at in range(30)]  # no token twice
OTHER = [44, 45, 46, 47]


@pytest.mark.parametrize(("family", "attention"), [("llama", "sdpa"), ("gemma2", "eager")])
def test_every_token_gets_what_the_model_says_at_its_place(family: str, attention: str) -> None:
    model, table = tiny_model(family, attention), SuccessorTable(VOCAB_SIZE)
    assert list(read(model, table, [TEXT, OTHER])) == [16, 30, 4]
    with torch.no_grad():
        for text in (TEXT, OTHER):
            expected = model.hf_model(input_ids=torch.tensor([text])).logits[0]
            rows = expected.topk(NUM_SUCCESSORS).indices.tolist()
            assert [table.successors(token_id) for token_id in text] == rows
            pairs = [pair_successors(table, *pair) for pair in pairwise(text)]
            assert pairs == rows[1:], "across batches, too"
    assert table.known_share == (len(TEXT) + len(OTHER)) / VOCAB_SIZE


def test_a_text_is_asked_for_when_the_one_before_was_read() -> None:
    asked = []

    def windows() -> object:
        for text in (TEXT[:3], OTHER):
            asked.append(text)
            yield text

    batches = read(tiny_model("llama"), SuccessorTable(VOCAB_SIZE), windows())  # type: ignore[arg-type]
    next(batches)
    assert asked == [TEXT[:3]]
    next(batches)
    assert asked == [TEXT[:3], OTHER]


def test_a_text_is_read_up_to_what_the_model_cannot_say() -> None:
    """A tokenizer may have tokens that the model has no embedding of."""
    table = SuccessorTable(VOCAB_SIZE)
    windows = [[*OTHER[:2], VOCAB_SIZE, OTHER[2]], [VOCAB_SIZE], OTHER[3:]]
    assert list(read(tiny_model("llama"), table, windows)) == [2, 1]
    known = [token_id for token_id in OTHER if table.successors(token_id)]
    assert known == [OTHER[0], OTHER[1], OTHER[3]]


def test_the_pace_is_what_fits_into_a_moment() -> None:
    pace = Pace(max_rows=100)
    sizes = []
    for seconds_per_row in (0.0, 0.0, 0.005, 0.004, 1.0, 1.0):
        pace.observe(seconds_per_row * pace.num_rows)
        sizes.append(pace.num_rows)
    assert sizes == [32, 64, 50, 62, 16, 16]
    assert Pace(max_rows=3).num_rows == 3
