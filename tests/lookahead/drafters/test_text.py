"""Whatever is drafted, by whichever method, the text is that of the plain loop."""

import pytest

import lookahead
from lookahead import DecodingConfig
from lookahead.drafters import make, names
from tests.lookahead.tiny_models import VOCAB_SIZE, tiny_model

pytestmark = pytest.mark.tiny

PROMPTS = ([7, 3, 9, 3, 9], [0, 1, 0, 1, 7, 3], [11, 12, 13, 11, 12])


@pytest.mark.parametrize("name", names())
def test_the_text_is_that_of_the_plain_loop(name: str) -> None:
    model = tiny_model("llama")
    decoding = DecodingConfig(max_new_tokens=60, strict=False, adaptive=False)
    drafter = make(name, vocab_size=VOCAB_SIZE)
    for prompt in PROMPTS * 2:
        *_, plain = lookahead.generate(model, prompt, decoding=decoding)
        *_, ours = lookahead.generate(model, prompt, decoding=decoding, drafter=drafter)
        assert ours.token_ids == plain.token_ids
        drafter.remember([*prompt, *ours.token_ids])
    assert (ours.stats.num_steps < plain.stats.num_steps) == (name != "none"), "it drafts"
