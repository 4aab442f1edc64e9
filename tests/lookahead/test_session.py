"""A session keeps KV between turns: what is reused, what is run, and that it changes no token."""

import pytest

import lookahead
from lookahead import DecodingConfig, SamplingConfig, Session, Trie
from lookahead.draft import TokenSource
from lookahead.loaded_model import LoadedModel
from tests.lookahead.test_decoding import counted_forwards, run
from tests.lookahead.tiny_models import tiny_model

pytestmark = pytest.mark.tiny

FIRST = [7, 3, 9, 3, 9]
CHOICES = {
    "decoding": DecodingConfig(max_new_tokens=24, adaptive=False),
    "sampling": SamplingConfig(temperature=1.0, seed=5),
}


@pytest.fixture
def model() -> LoadedModel:
    return tiny_model("llama")


def test_a_second_turn_prefills_only_what_is_new(model: LoadedModel) -> None:
    session = Session(model)
    first = run(model, FIRST, session=session, trie=Trie(), **CHOICES)[-1]
    second = [*FIRST, *first.token_ids, 11, 12, 13]
    with counted_forwards(model) as forwards:
        prefill, *_, finished = run(model, second, session=session, trie=Trie(), **CHOICES)
    # The last emitted token was never run; it is new, too.
    assert forwards[0] == prefill.prefilled_length == 4
    assert prefill.reused_length == len(second) - 4
    assert finished.token_ids == run(model, second, **CHOICES)[-1].token_ids


def test_what_is_kept_does_not_depend_on_drafting(model: LoadedModel) -> None:
    for seed in range(20):
        sampling = SamplingConfig(temperature=1.0, seed=seed)
        plain, drafted = Session(model), Session(model)
        run(model, FIRST, session=plain, **{**CHOICES, "sampling": sampling})
        run(model, FIRST, session=drafted, trie=Trie(), **{**CHOICES, "sampling": sampling})
        assert plain.token_ids == drafted.token_ids
        assert plain.cached_length == drafted.cached_length


def test_an_edited_turn_crops_to_the_common_prefix(model: LoadedModel) -> None:
    session = Session(model)
    run(model, [1, 2, 3, 4, 5, 6], session=session, **CHOICES)
    edited = [1, 2, 3, 9, 5, 6]
    events = run(model, edited, session=session, **CHOICES)
    assert events[0].reused_length == 3
    assert events[-1].token_ids == run(model, edited, **CHOICES)[-1].token_ids


def test_the_same_prompt_again_costs_no_prefill_and_says_the_same(model: LoadedModel) -> None:
    session = Session(model)
    first = run(model, FIRST, session=session, **CHOICES)
    with counted_forwards(model) as forwards:
        again = run(model, FIRST, session=session, trie=Trie(), **CHOICES)
    assert (again[0].reused_length, again[0].num_chunks) == (len(FIRST), 0)
    assert len(forwards) == len(again) - 2
    assert again[-1].token_ids == first[-1].token_ids


def test_a_prompt_that_was_an_answers_prefix_runs_its_last_token(model: LoadedModel) -> None:
    session = Session(model)
    first = run(model, FIRST, session=session, **CHOICES)[-1]
    shorter = [*FIRST, *first.token_ids[:6]]
    prefill, *_, finished = run(model, shorter, session=session, **CHOICES)
    assert prefill.prefilled_length == 1
    assert finished.token_ids == run(model, shorter, **CHOICES)[-1].token_ids


def test_a_closed_session_starts_anew(model: LoadedModel) -> None:
    session = Session(model)
    run(model, FIRST, session=session, **CHOICES)
    session.close()
    assert (session.token_ids, session.cached_length) == ([], 0)
    assert run(model, FIRST, session=session, **CHOICES)[0].reused_length == 0


def test_own_tokens_are_told_apart_as_prompt_and_output(model: LoadedModel) -> None:
    session = Session(model)
    first = run(model, FIRST, session=session, **CHOICES)[-1]
    sources = [session.request.source_at(at) for at in range(len(session.token_ids))]
    assert sources == [lookahead.TokenSource.PROMPT] * len(FIRST) + [
        lookahead.TokenSource.OUTPUT
    ] * len(first.token_ids)


def test_accepted_tokens_of_a_quoted_passage_count_as_document_in_every_turn(
    model: LoadedModel,
) -> None:
    session = Session(model)
    answer = run(model, FIRST, **CHOICES)[-1].token_ids
    quoting = [*FIRST, *answer, *FIRST]  # so that the model has what it says in its prompt
    ranges = [(0, len(quoting))]
    for _ in range(2):  # the second time, all of it is in the cache
        events = run(
            model, quoting, session=session, trie=Trie(), document_ranges=ranges, **CHOICES
        )
        sources = {
            (step.draft.sources[node], step.draft.positions[node] < -1)
            for step in events[1:-1]
            for node in range(1, step.width)
            if step.draft.positions[node] != -1
        }
        assert (TokenSource.DOCUMENT, True) in sources
        assert not any(source is TokenSource.PROMPT for source, _ in sources)
    assert events[0].prefilled_length == 0
