"""The controller in the decode loop: from copying to noise and back, on a model that is scripted.

What the model says is forced, and a step takes what a clock of the test's own says it takes.
"""

import random
from collections.abc import Iterator, Sequence

import pytest
import torch

import lookahead
from lookahead import DecodingConfig, StepDone, Trie
from lookahead.drafter import TrieDrafter
from lookahead.learned import Learned
from lookahead.loaded_model import LoadedModel
from tests.lookahead.tiny_models import END_TOKEN_ID, VOCAB_SIZE, tiny_model

pytestmark = pytest.mark.tiny

PASSAGE_LENGTH = 40
_WORDS = [token_id for token_id in range(VOCAB_SIZE) if token_id != END_TOKEN_ID]
_draw = random.Random(8)
PASSAGE = _draw.choices(_WORDS, k=PASSAGE_LENGTH)
NOISE = _draw.choices(_WORDS, k=60)
COPIED = slice(0, PASSAGE_LENGTH)
NOISY = slice(PASSAGE_LENGTH, PASSAGE_LENGTH + len(NOISE))
SCRIPT = [*PASSAGE, *NOISE, *PASSAGE]


class Clock:
    """Seconds that pass where a forward runs, by its rows, and where a draft is looked for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("lookahead.decoding.time.perf_counter", clock)
    verify, draft = lookahead.Session.verify, TrieDrafter.draft

    def slow_verify(session: object, tree: lookahead.DraftTree, rows: int | None) -> torch.Tensor:
        clock.now += 0.050 + 0.004 * (tree.width - 1)
        return verify(session, tree, rows)

    def slow_draft(drafter: object, *given: object) -> lookahead.DraftTree:
        clock.now += 0.0005
        return draft(drafter, *given)

    monkeypatch.setattr(lookahead.Session, "verify", slow_verify)
    monkeypatch.setattr(TrieDrafter, "draft", slow_draft)
    return clock


@pytest.fixture
def model() -> LoadedModel:
    return tiny_model("llama")


def say(script: Sequence[int], prompt_length: int) -> object:
    def force(prefix: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(logits, -torch.inf)
        at = len(prefix) - prompt_length
        forced[script[at] if at < len(script) else END_TOKEN_ID] = 0.0
        return forced

    return force


def steps_of(model: LoadedModel, prompt: Sequence[int], script: Sequence[int]) -> list[StepDone]:
    events: Iterator[object] = lookahead.generate(
        model,
        prompt,
        trie=Trie(),
        learned=Learned.empty(VOCAB_SIZE),
        decoding=DecodingConfig(max_new_tokens=len(script) + 1),
        process_logits=say(script, len(prompt)),
    )
    *steps, finished = [event for event in events if not isinstance(event, lookahead.PrefillDone)]
    assert list(finished.token_ids) == list(script), "the script was said"
    return steps


def positions(steps: Sequence[StepDone]) -> list[int]:
    """Where in the script each step's first token stands; the prefill gave the first one."""
    found, at = [], 1
    for step in steps:
        found.append(at)
        at += len(step.token_ids)
    return found


def test_from_copying_to_noise_and_back_drafting_pauses_and_resumes_within_twenty_steps(
    model: LoadedModel, clock: Clock
) -> None:
    steps = steps_of(model, [*PASSAGE, 7, 7], SCRIPT)
    at = positions(steps)
    copying = [step for step, p in zip(steps, at, strict=True) if p < COPIED.stop]
    noise = [step for step, p in zip(steps, at, strict=True) if NOISY.start <= p < NOISY.stop]
    back = [step for step, p in zip(steps, at, strict=True) if p >= NOISY.stop]
    assert not any(step.paused for step in copying[1:4])
    assert sum(step.accepted_length for step in copying) > PASSAGE_LENGTH / 2
    assert any(step.paused for step in noise[:20])
    assert sum(step.paused for step in noise[20:]) >= 0.7 * len(noise[20:])
    resumed = next(i for i, step in enumerate(back) if step.accepted_length >= 2)
    assert resumed < 20
    assert back[resumed + 1].accepted_length >= 8, "and goes on"


def test_a_paused_step_is_a_plain_one(model: LoadedModel, clock: Clock) -> None:
    steps = steps_of(model, [*PASSAGE, 7, 7], SCRIPT)
    paused = [step for step in steps if step.paused]
    assert paused
    assert {(step.width, step.accepted_length, len(step.token_ids)) for step in paused} == {
        (1, 0, 1)
    }


def test_noise_from_the_first_token_on_costs_next_to_nothing(
    model: LoadedModel, clock: Clock
) -> None:
    """At 97 % of the plain loop's speed and more, by the clock that the controller sees."""
    script = _draw.choices(_WORDS, k=150)
    began = clock.now
    steps = steps_of(model, PASSAGE, script)
    plain_seconds = 0.050 * (len(script) - 1)
    assert clock.now - began < plain_seconds / 0.97
    assert any(step.draft_seconds == 0.0 for step in steps), "looking rests, too"


def test_rows_are_read_only_where_a_draft_was_looked_for(
    model: LoadedModel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    observe = TrieDrafter.observe

    def watched(drafter: TrieDrafter, tree: lookahead.DraftTree, *given: object) -> None:
        seen.append(given[-1] is not None)
        observe(drafter, tree, *given)

    monkeypatch.setattr(TrieDrafter, "observe", watched)
    steps = steps_of(model, PASSAGE, _draw.choices(_WORDS, k=150))
    seen.pop()  # the last step has room for no draft
    assert seen == [step.draft_seconds > 0.0 for step in steps[:-1]]
    assert True in seen[-20:]
    assert False in seen[-20:]


def test_what_is_not_adaptive_verifies_all_that_is_drafted(
    model: LoadedModel, clock: Clock
) -> None:
    events = lookahead.generate(
        model,
        PASSAGE,
        trie=Trie(),
        decoding=DecodingConfig(max_new_tokens=60, adaptive=False),
        process_logits=say(NOISE, len(PASSAGE)),
    )
    steps = [event for event in events if isinstance(event, StepDone)]
    assert not any(step.paused for step in steps)
    assert max(step.width for step in steps) > 8
