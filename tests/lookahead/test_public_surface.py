"""What is promised to callers of the package, used as they would use it."""

from pathlib import Path

import pytest

import lookahead
from lookahead import DecodingConfig, Finished, PrefillDone, SamplingConfig, StepDone, TokenSource
from tests.lookahead.tiny_models import tiny_model

pytestmark = pytest.mark.tiny

PROMPT = [7, 3, 9, 3, 9]


def test_a_trie_is_taught_drafted_from_and_forgets() -> None:
    model = tiny_model("llama")
    trie = lookahead.Trie()
    choices = {
        "decoding": DecodingConfig(max_new_tokens=8, strict=None, adaptive=False),
        "sampling": SamplingConfig(temperature=0.0, seed=0),
    }
    *_, plain = lookahead.generate(model, PROMPT, trie=None, **choices)
    taught = trie.add([*PROMPT, *plain.token_ids], source=TokenSource.DOCUMENT)
    first, *steps, finished = lookahead.generate(model, PROMPT, trie=trie, **choices)
    assert finished.token_ids == plain.token_ids
    assert isinstance(first, PrefillDone)
    assert isinstance(finished, Finished)
    assert finished.stats.num_steps == len(steps)
    assert finished.reason
    drafts = []
    for step in steps:
        assert isinstance(step, StepDone)
        assert len(step.token_ids) == step.accepted_length + 1 or step is steps[-1]
        assert step.rows is not None
        assert step.width == step.draft.width
        assert step.seconds > 0
        assert step.match_length >= 0
        drafts.append(step.draft)
    assert any(TokenSource.DOCUMENT in draft.sources for draft in drafts)
    for draft in drafts:
        columns = (draft.token_ids, draft.parents, draft.sources, draft.probabilities)
        assert {len(column) for column in columns} == {draft.width} == {len(draft.positions)}
    trie.forget(taught)
    assert taught not in trie.sequence_ids
    assert len(trie.sequence_ids) == 1, "prompt and answer are one sequence of history"
    with pytest.raises(KeyError):
        trie.forget(taught)


def test_a_model_has_the_librarys_parts() -> None:
    model = tiny_model("llama")
    assert model.hf_model.config.vocab_size == model.vocab_size
    assert isinstance(model.path, Path)
    assert model.tokenizer is None, "a wrapped model brings none"


def test_every_name_that_is_offered_is_there() -> None:
    for name in lookahead.__all__:
        assert getattr(lookahead, name) is not None
