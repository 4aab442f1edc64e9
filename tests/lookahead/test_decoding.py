"""The decode loop's accounting: what it emits, where it ends, what it counts, what it keeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

import lookahead
from lookahead import DecodingConfig, FinishReason, SamplingConfig, Session, StepDone, Trie
from lookahead.draft import DraftTree
from lookahead.draft_policy import DraftPolicy
from lookahead.drafter import MIN_PROBABILITY, DraftLimits
from lookahead.errors import ContextFullError, InvalidRequestError, UnsupportedModeError
from lookahead.loaded_model import LoadedModel
from lookahead.request_view import RequestView
from lookahead.strictness import Strictness
from tests.lookahead.oracle_drafter import OracleDrafter
from tests.lookahead.tiny_models import END_TOKEN_ID, VOCAB_SIZE, tiny_model

pytestmark = pytest.mark.tiny

PROMPT = [7, 3, 9, 3, 9]


@pytest.fixture
def model() -> LoadedModel:
    return tiny_model("llama")


@contextmanager
def counted_forwards(model: LoadedModel) -> Iterator[list[int]]:
    """The row counts of every forward that the model itself runs."""
    forwards: list[int] = []

    def count(module: object, args: object, kwargs: dict, output: object) -> None:
        forwards.append(kwargs["input_ids"].shape[1])

    hook = model.hf_model.register_forward_hook(count, with_kwargs=True)
    try:
        yield forwards
    finally:
        hook.remove()


def run(model: LoadedModel, prompt: list[int], **choices: object) -> list[lookahead.events.Event]:
    return list(lookahead.generate(model, prompt, **choices))  # type: ignore[arg-type]


def sampled(seed: int, max_new_tokens: int = 40) -> dict[str, object]:
    return {
        "decoding": DecodingConfig(max_new_tokens=max_new_tokens, adaptive=False),
        "sampling": SamplingConfig(temperature=1.2, seed=seed),
    }


@pytest.mark.parametrize("seed", range(12))
def test_steps_account_for_every_token_and_every_forward(model: LoadedModel, seed: int) -> None:
    plain = run(model, PROMPT, **sampled(seed))[-1]
    drafter = OracleDrafter([*PROMPT, *plain.token_ids], VOCAB_SIZE, seed)
    cut_at = {17, 30}

    def stop(token_ids: list[int]) -> int | None:
        return len(token_ids) - 1 if token_ids[-1] in cut_at else None

    with counted_forwards(model) as forwards:
        prefill, *steps, finished = run(model, PROMPT, drafter=drafter, stop=stop, **sampled(seed))
    stats = finished.stats
    accepted = sum(step.accepted_length for step in steps)
    assert accepted + len(steps) + 1 == (
        len(finished.token_ids) + stats.num_end_tokens + stats.num_cut_tokens
    )
    assert len(steps) + prefill.num_chunks == len(forwards) == stats.num_forwards
    assert forwards[1:] == [step.rows for step in steps]
    assert stats.num_accepted_tokens == accepted == sum(stats.accepted_by_source.values())
    assert stats.num_drafted_tokens == sum(step.width - 1 for step in steps)


def test_a_drafter_that_ignores_its_limits_is_found_out(model: LoadedModel) -> None:
    class Greedy(OracleDrafter):
        def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
            return super().draft(request, replace(limits, max_depth=limits.max_depth + 9))

    with pytest.raises(AssertionError, match="depth"):
        run(model, PROMPT, drafter=Greedy([], VOCAB_SIZE, 3), **sampled(3, 3))


@pytest.mark.parametrize("is_adaptive", [True, False])
def test_a_trie_may_hold_tokens_that_the_model_has_not(
    model: LoadedModel, is_adaptive: bool
) -> None:
    """They reached its embedding, and the answer ended with an IndexError."""
    plain = run(model, PROMPT, **sampled(3))[-1].token_ids
    trie = Trie()
    for at in range(len(plain)):
        trie.add([*PROMPT, *plain[:at], VOCAB_SIZE + 5, 1])
    decoding = DecodingConfig(max_new_tokens=40, adaptive=is_adaptive)
    choices = {**sampled(3), "decoding": decoding}
    assert run(model, PROMPT, trie=trie, **choices)[-1].token_ids == plain


class Noting(OracleDrafter):
    """Keeps what it was asked: the request's length and the limits."""

    def __init__(self) -> None:
        super().__init__([], VOCAB_SIZE, 3)
        self.asked: list[tuple[int, DraftLimits]] = []

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        self.asked.append((len(request), limits))
        return super().draft(request, limits)


def test_a_drafter_is_told_the_noise_of_the_very_next_position(model: LoadedModel) -> None:
    drafter = Noting()
    run(model, PROMPT, drafter=drafter, **sampled(3, 10))
    assert [limits.foresight.position for _, limits in drafter.asked] == [
        length for length, _ in drafter.asked
    ]
    assert {limits.foresight.seed for _, limits in drafter.asked} == {3}
    greedy = Noting()
    run(model, PROMPT, drafter=greedy, decoding=DecodingConfig(max_new_tokens=10))
    assert {limits.foresight for _, limits in greedy.asked} == {None}


def test_a_drafter_is_told_what_a_node_must_be_worth(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter = Noting()
    run(model, PROMPT, drafter=drafter, **sampled(3, 10))
    assert {limits.min_probability for _, limits in drafter.asked} == {MIN_PROBABILITY}
    monkeypatch.setattr(DraftPolicy, "min_probability", 0.25)
    drafter = Noting()
    run(model, PROMPT, drafter=drafter, decoding=DecodingConfig(max_new_tokens=10))
    assert {limits.min_probability for _, limits in drafter.asked} == {0.25}


@pytest.mark.parametrize(
    ("max_rows", "max_draft_depth", "depth"), [(6, 31, 5), (6, 3, 3), (2, 31, 1), (32, 31, 31)]
)
def test_a_draft_is_no_deeper_than_what_is_verified_of_it(
    model: LoadedModel, max_rows: int, max_draft_depth: int, depth: int
) -> None:
    """Places were followed 31 tokens deep for trees of which five could be verified."""
    drafter = Noting()
    decoding = DecodingConfig(
        max_new_tokens=40,
        max_rows=max_rows,
        max_draft_depth=max_draft_depth,
        strict=False,
        adaptive=False,
    )
    run(model, PROMPT, drafter=drafter, decoding=decoding)
    _, limits = drafter.asked[0]
    assert (limits.max_width, limits.max_depth) == (max_rows, depth)
    assert all(limits.max_depth < limits.max_width for _, limits in drafter.asked)


@pytest.mark.parametrize("reads_rows", [False, True])
def test_a_drafter_gets_the_rows_only_if_it_reads_them(
    model: LoadedModel, reads_rows: bool
) -> None:
    """Every drafter paid for the likeliest eight, of which most read none."""
    got: list[bool] = []

    class Reader(OracleDrafter):
        def observe(self, draft: DraftTree, accepted_nodes: object, top_ids: object) -> None:
            got.append(top_ids is not None)

    Reader.reads_rows = reads_rows
    run(model, PROMPT, drafter=Reader([], VOCAB_SIZE, 3), **sampled(3, 6))
    assert got == [reads_rows] * len(got) != []


def test_drafting_is_looking_for_drafts_and_learning_from_rows(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learning was left out of drafting's share of a step."""
    clock = {"now": 0.0}
    monkeypatch.setattr("lookahead.decoding.time.perf_counter", lambda: clock["now"])

    class Slow(OracleDrafter):
        def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
            clock["now"] += 2.0
            return super().draft(request, limits)

        def observe(self, draft: DraftTree, accepted_nodes: object, top_ids: object) -> None:
            clock["now"] += 3.0

    step = run(model, PROMPT, drafter=Slow([], VOCAB_SIZE, 3), **sampled(3, 6))[1]
    assert (step.draft_seconds, step.seconds) == (5.0, 5.0)


def test_a_failing_forward_leaves_a_session_that_goes_on(model: LoadedModel) -> None:
    """Some layers had the new rows and some had not, and the next forward died of it."""
    session = Session(model)
    first = run(model, PROMPT, session=session, **sampled(1))[-1]
    longer = [*PROMPT, *first.token_ids, *range(30)]

    def fail(module: object, args: object) -> None:
        raise MemoryError("out of memory")

    hook = model.hf_model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(MemoryError):
        run(model, longer, session=session, **sampled(1))
    hook.remove()
    again = run(model, longer, session=session, **sampled(1))[-1]
    assert again.token_ids == run(model, longer, **sampled(1))[-1].token_ids


def test_what_a_stop_rule_raises_is_told_and_the_session_goes_on(model: LoadedModel) -> None:
    """It was told as "Cannot truncate 7 tokens to 8", and the session kept a token too many."""
    session = Session(model)

    def fail(token_ids: object) -> int | None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run(model, PROMPT, session=session, stop=fail, **sampled(1))
    assert session.cached_length >= len(session.token_ids) - 1
    again = run(model, PROMPT, session=session, **sampled(1))[-1]
    assert again.token_ids == run(model, PROMPT, **sampled(1))[-1].token_ids


def test_events_joined_are_the_answer(model: LoadedModel) -> None:
    *events, finished = run(model, PROMPT, trie=Trie(), **sampled(4))
    assert sum((event.token_ids for event in events), ()) == finished.token_ids


def test_end_of_sequence_inside_a_step_ends_the_answer_and_is_left_out(model: LoadedModel) -> None:
    reasons = set()
    for seed in range(30):
        plain = run(model, PROMPT, **sampled(seed, 60))[-1]
        reasons.add(plain.reason)
        assert END_TOKEN_ID not in plain.token_ids
        assert (plain.reason is FinishReason.END) == (plain.stats.num_end_tokens == 1)
        drafter = OracleDrafter([*PROMPT, *plain.token_ids, END_TOKEN_ID], VOCAB_SIZE, seed)
        drafted = run(model, PROMPT, drafter=drafter, **sampled(seed, 60))[-1]
        assert (drafted.token_ids, drafted.reason) == (plain.token_ids, plain.reason)
    assert reasons == {FinishReason.END, FinishReason.LENGTH}


def test_a_stop_rule_cuts_where_plain_decoding_would(model: LoadedModel) -> None:
    whole = run(model, PROMPT, **sampled(1))[-1].token_ids
    for at in range(1, len(whole)):

        def stop(token_ids: list[int], at: int = at) -> int | None:
            return at - 1 if len(token_ids) == at else None

        drafter = OracleDrafter([*PROMPT, *whole], VOCAB_SIZE, at)
        finished = run(model, PROMPT, drafter=drafter, stop=stop, **sampled(1))[-1]
        assert finished.token_ids == whole[: at - 1]
        assert finished.reason is FinishReason.STOP


@pytest.mark.parametrize("max_new_tokens", [1, 2, 3])
def test_no_token_too_many(model: LoadedModel, max_new_tokens: int) -> None:
    whole = run(model, PROMPT, **sampled(1))[-1].token_ids
    drafter = OracleDrafter([*PROMPT, *whole], VOCAB_SIZE, 0)
    finished = run(model, PROMPT, drafter=drafter, **sampled(1, max_new_tokens))[-1]
    assert finished.token_ids == whole[:max_new_tokens]
    assert finished.reason is FinishReason.LENGTH
    assert finished.stats.num_cut_tokens == 0


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_context_is_filled_to_the_last_token_and_no_further(family: str) -> None:
    """GPT-2's learned positions raise where one is missing."""
    model = tiny_model(family)
    prompt = [1 + at % 3 for at in range(model.context_length - 20)]
    choices = {
        "decoding": DecodingConfig(max_new_tokens=500, adaptive=False),
        "sampling": SamplingConfig(temperature=0.3, seed=2),
    }
    plain = run(model, prompt, **choices)[-1]
    drafter = OracleDrafter([*prompt, *plain.token_ids], VOCAB_SIZE, 3)
    drafted = run(model, prompt, drafter=drafter, **choices)[-1]
    assert drafted.token_ids == plain.token_ids
    assert plain.reason is FinishReason.CONTEXT
    assert len(plain.token_ids) == 20
    with pytest.raises(ContextFullError, match="256"):
        run(model, [1] * 256)


def test_stop_takes_effect_before_the_next_forward(model: LoadedModel) -> None:
    asked: list[None] = []
    with counted_forwards(model) as forwards:
        finished = run(model, PROMPT, is_cancelled=lambda: asked.append(None) or len(asked) > 3)[-1]
    assert finished.reason is FinishReason.CANCELLED
    assert len(forwards) == 3
    assert len(finished.token_ids) == 3


def test_a_long_prompt_is_prefilled_in_chunks_with_a_stop_check_between(model: LoadedModel) -> None:
    prompt = [at % VOCAB_SIZE for at in range(100)]
    chunked = DecodingConfig(max_new_tokens=8, prefill_chunk_length=32)
    whole = DecodingConfig(max_new_tokens=8)
    with counted_forwards(model) as forwards:
        events = run(model, prompt, decoding=chunked)
    assert forwards[:4] == [32, 32, 32, 4]
    assert events[0].num_chunks == 4
    assert events[-1].token_ids == run(model, prompt, decoding=whole)[-1].token_ids
    asked: list[None] = []
    with counted_forwards(model) as forwards:
        (finished,) = run(
            model,
            prompt,
            decoding=chunked,
            is_cancelled=lambda: asked.append(None) or len(asked) > 2,
        )
    assert (finished.reason, finished.token_ids) == (FinishReason.CANCELLED, ())
    assert len(forwards) == 2


def test_an_answer_becomes_history_unless_told_not_to(model: LoadedModel) -> None:
    trie = Trie()
    first = run(model, PROMPT, trie=trie, **sampled(1))[-1]
    assert trie.statistics().num_tokens == len(PROMPT) + len(first.token_ids)
    run(model, PROMPT, trie=trie, observe=False, **sampled(1))
    assert trie.statistics().num_sequences == 1


def test_the_second_time_an_answer_comes_from_history(model: LoadedModel) -> None:
    trie = Trie()
    cold = run(model, PROMPT, trie=trie, **sampled(1))[-1]
    warm = run(model, PROMPT, trie=trie, **sampled(1))[-1]
    assert warm.token_ids == cold.token_ids
    assert warm.stats.tokens_per_step > 3
    assert warm.stats.accepted_by_source[lookahead.TokenSource.HISTORY] > 20


def test_the_conversation_itself_is_masked_out_of_history(model: LoadedModel) -> None:
    trie = Trie()
    run(model, PROMPT, trie=trie, **sampled(1))
    masked = run(model, PROMPT, trie=trie, masked_sequence_ids={0, 1}, observe=False, **sampled(1))
    assert masked[-1].stats.accepted_by_source[lookahead.TokenSource.HISTORY] == 0


def test_bad_requests_are_told_apart(model: LoadedModel) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        run(model, [])
    for odd in (torch.tensor([[1, 2]]), "text", [1.5], [[1], [2]], {"input_ids": [1]}):
        with pytest.raises(InvalidRequestError, match="list of token ids"):
            run(model, odd)  # type: ignore[arg-type]
    for outside in (-1, VOCAB_SIZE):
        with pytest.raises(InvalidRequestError, match=str(outside)):
            run(model, [1, outside])
    with pytest.raises(UnsupportedModeError, match="eager"):
        run(tiny_model("llama", "eager"), PROMPT, decoding=DecodingConfig(strict=True))


def test_strict_mode_can_be_asked_for_one_answer(model: LoadedModel) -> None:
    """The model was loaded for flexible mode; its row classes are measured at the first request."""
    assert model.mode == "flexible"
    choices = {
        "decoding": DecodingConfig(max_new_tokens=40, strict=True, adaptive=False),
        "sampling": SamplingConfig(temperature=1.2, seed=3),
    }
    *steps, plain = run(model, PROMPT, **choices)
    assert plain.stats.mode == "strict"
    assert {step.rows for step in steps[1:]} == {model.strictness.fewest_rows}
    drafter = OracleDrafter([*PROMPT, *plain.token_ids], VOCAB_SIZE, 3)
    *steps, drafted = run(model, PROMPT, drafter=drafter, **choices)
    assert drafted.token_ids == plain.token_ids
    assert {step.rows for step in steps[1:]} <= set(model.strictness.row_class)


@pytest.mark.parametrize(("max_rows", "expected"), [(1, {1}), (2, {1, 2}), (4, {4}), (16, {4})])
def test_strict_steps_are_padded_to_what_costs_least_within_what_is_allowed(
    model: LoadedModel, max_rows: int, expected: set[int]
) -> None:
    strictness = Strictness(row_class=(1, 2, 4, 8), fewest_rows=4, attention="path")
    model = replace(model, find_strictness=lambda *_: strictness)
    decoding = DecodingConfig(max_new_tokens=8, strict=True, max_rows=max_rows)
    steps = [
        event for event in run(model, PROMPT, decoding=decoding) if isinstance(event, StepDone)
    ]
    assert {step.rows for step in steps} <= expected


def test_a_processor_may_write_into_the_logits_it_is_given(model: LoadedModel) -> None:
    first = run(model, PROMPT)[-1].token_ids[0]

    def without_first(_: list[int], logits: torch.Tensor) -> torch.Tensor:
        logits[first] = -torch.inf
        return logits

    assert first not in run(model, PROMPT, process_logits=without_first)[-1].token_ids


def test_a_session_survives_a_caller_who_walks_away(model: LoadedModel) -> None:
    session = Session(model)
    events = lookahead.generate(model, PROMPT, session=session, **sampled(1))
    next(events)
    next(events)
    events.close()
    assert session.cached_length == len(session.token_ids) - 1
    again = run(model, PROMPT, session=session, **sampled(1))[-1]
    assert again.token_ids == run(model, PROMPT, **sampled(1))[-1].token_ids
