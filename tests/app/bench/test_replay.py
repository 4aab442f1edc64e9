"""The replay: what it counts is what the decode loop would have done with the same drafts."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from app.bench.recordings import IntArray, RecordedModel, Recording
from app.bench.replay import RecordedPrompt, ReplaySetting, replay, replay_prompt
from lookahead import TokenSource, drafters
from lookahead.draft import DraftTree
from lookahead.drafter import DraftLimits
from lookahead.drafters import Learner
from lookahead.drafters.protocol import NoHistory
from lookahead.request_view import RequestView

END = 2


def recorded(
    prompt: Sequence[int], answer: Sequence[int], *, context_length: int = 100, name: str = "one"
) -> RecordedPrompt:
    """A hand-made recording; row `n` holds `100 n … 100 n + 7`."""
    num_rows = len(prompt) + len(answer) - 1
    rows = (100 * np.arange(num_rows)[:, None] + np.arange(8)).astype(np.int32)
    model = RecordedModel(10_000, context_length, (END,))
    return RecordedPrompt(name, "any", Recording(model, tuple(prompt), tuple(answer), rows))


class Seer(NoHistory):
    """Drafts the truth as one chain, behind it a wrong sibling of its first token."""

    reads_rows = True

    def __init__(self, whole: Sequence[int]) -> None:
        self._whole = list(whole)
        self.limits: list[DraftLimits] = []
        self.top_ids: list[IntArray] = []
        self.requests: list[list[int]] = []

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        self.limits.append(limits)
        self.requests.append(request.token_ids.tolist())
        length = min(limits.max_width - 2, limits.max_depth)
        chain = self._whole[len(request) : len(request) + length]
        chain = [token_id for token_id in chain if token_id not in limits.excluded_ids]
        nodes = [int(request.token_ids[-1]), *chain, 9_999]
        width = len(nodes)
        return DraftTree(
            token_ids=tuple(nodes),
            parents=(*range(-1, width - 2), 0),
            sources=(TokenSource.MODEL, *[TokenSource.OUTPUT] * (width - 1)),
            probabilities=(1.0,) * width,
            positions=(-1,) * width,
        )

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        assert top_ids is not None
        self.top_ids.append(top_ids)


def test_accepted_lengths_are_those_counted_by_hand() -> None:
    answer = list(range(50, 60))
    prompt = recorded([1, 0, 3], answer)
    seer = Seer([1, 0, 3, *answer])
    setting = ReplaySetting(width=5, max_new_tokens=10, max_draft_depth=15)
    result = replay_prompt(prompt, seer, setting)
    # The prefill gives one; 3 + bonus, 3 + bonus; one is left and nothing can be drafted for it.
    assert result.accepted_lengths == [3, 3, 0]
    assert result.widths == [5, 5, 1]
    assert (result.num_tokens, result.num_steps, result.num_accepted) == (10, 3, 6)
    assert result.num_drafted == 8
    assert result.accepted_by_source == {TokenSource.OUTPUT: 6}
    assert [limits.max_depth for limits in seer.limits] == [8, 4]
    assert seer.requests[1] == [1, 0, 3, *answer[:5]]


def test_a_branch_may_be_as_deep_as_the_width_has_room_for_where_nothing_else_is_said() -> None:
    """Copies of 19 tokens were cut at our own depth of 15, so published drafters lost."""
    answer = list(range(50, 100))
    seer = Seer([1, *answer])
    replay_prompt(recorded([1], answer), seer, ReplaySetting(width=64, max_new_tokens=50))
    assert seer.limits == [DraftLimits(64, 48, frozenset({END}))]
    seer = Seer([1, *answer])
    replay_prompt(recorded([1], answer), seer, ReplaySetting(width=20, max_new_tokens=50))
    assert seer.limits[0] == DraftLimits(20, 19, frozenset({END}))


def test_the_depth_is_limited_as_in_the_loop() -> None:
    answer = list(range(50, 60))
    setting = ReplaySetting(width=32, max_new_tokens=10, max_draft_depth=2)
    result = replay_prompt(recorded([1], answer), Seer([1, *answer]), setting)
    assert result.accepted_lengths == [2, 2, 2]


def test_an_end_of_sequence_is_never_drafted_and_ends_the_answer_as_a_bonus() -> None:
    answer = [50, 51, 52, END]
    seer = Seer([1, *answer])
    result = replay_prompt(recorded([1], answer), seer, ReplaySetting(width=16))
    assert result.accepted_lengths == [2]
    assert result.num_tokens == 3
    assert seer.limits[0].excluded_ids == {END}


def test_an_answer_that_ends_at_once_takes_no_step() -> None:
    result = replay("seer", [recorded([1], [END])], lambda: Seer([]), ReplaySetting(width=4))
    assert (result.num_steps, result.tokens_per_step, result.mean_width) == (0, 1.0, 1.0)
    assert result.prompts[0].num_tokens == 0


def test_a_full_context_limits_the_answer_as_in_the_loop() -> None:
    answer = list(range(50, 56))
    seer = Seer([1, 1, *answer])
    prompt = recorded([1, 1], answer, context_length=8)
    result = replay_prompt(prompt, seer, ReplaySetting(width=32))
    assert [limits.max_depth for limits in seer.limits] == [4]
    assert result.accepted_lengths == [4]


def test_fewer_tokens_than_recorded_can_be_replayed_and_no_more() -> None:
    answer = list(range(50, 60))
    prompt = recorded([1], answer)
    setting = ReplaySetting(width=4, max_new_tokens=4)
    result = replay_prompt(prompt, Seer([1, *answer]), setting)
    assert (result.num_tokens, result.num_accepted + result.num_steps) == (4, 3)
    with pytest.raises(ValueError, match="10 tokens were recorded; 11 are asked for"):
        replay_prompt(prompt, Seer([]), ReplaySetting(width=4, max_new_tokens=11))


def test_a_drafter_is_told_the_rows_of_the_true_path_only() -> None:
    answer = [50, 51, 52, 53, 54]
    seer = Seer([1, 3, *answer])
    replay_prompt(recorded([1, 3], answer), seer, ReplaySetting(width=4, max_new_tokens=5))
    # Root is answer[0], at position 2 of the whole; the last node of the draft is a wrong sibling.
    assert seer.top_ids[0][:, 0].tolist() == [200, 300, 400, -1]
    assert (seer.top_ids[0][3] == -1).all()


class Diary(NoHistory):
    """Writes down what it is told."""

    reads_rows = True

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def begin(self, prompt_ids: Sequence[int]) -> None:
        self.told.append(("begin", list(prompt_ids)))

    def observe_prompt(self, token_ids: Sequence[int], top_ids: IntArray | None) -> None:
        self.told.append(("prompt", None if top_ids is None else top_ids[:, 0].tolist()))

    def remember(self, token_ids: Sequence[int]) -> None:
        self.told.append(("remember", list(token_ids)))

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        return DraftTree.root_only(int(request.token_ids[-1]))

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        pass


def test_a_drafter_is_told_of_beginning_prompt_and_end() -> None:
    diary = Diary()
    prompt = recorded([1, 3], [50, 51, END])
    replay_prompt(prompt, diary, ReplaySetting(width=4))
    assert diary.told == [
        ("begin", [1, 3]),
        ("prompt", None),  # the loop does not compute prompt rows
        ("remember", [1, 3, 50, 51]),
    ]
    diary.told.clear()
    replay_prompt(prompt, diary, ReplaySetting(width=4, with_prompt_rows=True))
    assert diary.told[1] == ("prompt", [0, 100])


def test_making_history_and_beginning_are_no_drafting_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = 0.0

    class Slow(Diary):
        def begin(self, prompt_ids: Sequence[int]) -> None:
            nonlocal seconds
            seconds += 10

        def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
            nonlocal seconds
            seconds += 1
            return super().draft(request, limits)

        def observe(
            self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
        ) -> None:
            nonlocal seconds
            seconds += 2

        def remember(self, token_ids: Sequence[int]) -> None:
            nonlocal seconds
            seconds += 100

    monkeypatch.setattr("app.bench.replay.time.thread_time", lambda: seconds)
    prompt = recorded([1], [50, 51, 52])
    setting = ReplaySetting(4, max_new_tokens=3)
    result = replay("slow", [prompt], Slow, setting)
    (one,) = result.prompts
    assert (one.prefill_seconds, one.drafting_seconds, one.remember_seconds) == (10, 5, 100)
    # Two steps learn; the last token takes one without a draft.
    assert result.drafting_milliseconds == 2500


def test_a_drafter_that_reads_no_rows_is_given_none() -> None:
    class Blind(Diary):
        reads_rows = False

        def observe(
            self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
        ) -> None:
            self.told.append(("step", top_ids))

    blind = Blind()
    replay_prompt(recorded([1], [50, END]), blind, ReplaySetting(width=4))
    assert blind.told == [("begin", [1]), ("prompt", None), ("step", None), ("remember", [1, 50])]


def test_cold_means_a_fresh_drafter_and_history_means_one_for_all() -> None:
    answer = [60 + (7 * at) % 31 for at in range(30)]
    prompts = [recorded([1, 3], answer, name=name) for name in ("first", "again")]

    def run(is_cold: bool) -> list[int]:
        setting = ReplaySetting(8, is_cold=is_cold, max_new_tokens=30)
        make = lambda: drafters.make("trie", vocab_size=10_000)  # noqa: E731
        return [prompt.num_steps for prompt in replay("trie", prompts, make, setting).prompts]

    cold_first, cold_again = run(is_cold=True)
    warm_first, warm_again = run(is_cold=False)
    assert cold_first == cold_again == warm_first
    assert warm_again < cold_again / 3


def test_totals_are_those_of_all_steps() -> None:
    answer = list(range(50, 60))
    prompts = [recorded([1], answer, name="a"), recorded([1], [50, 51, END], name="b")]
    setting = ReplaySetting(5, max_new_tokens=10)
    result = replay("seer", prompts, lambda: Seer([1, *answer]), setting)
    assert result.num_steps == 3 + 1
    assert result.num_plain_steps == 9 + 2
    assert result.tokens_per_step == pytest.approx(11 / 4)
    assert result.widths == Counter({5: 3, 1: 1})
    assert result.mean_width == 4.0
    assert result.acceptance_rate == pytest.approx(7 / 12)
    assert result.of_category("any").num_steps == 4
    assert result.of_category("none such").tokens_per_step == 1.0


class TruePath:
    """Lets a drafter of the live loop see no more than a replay has: the rows of the true path."""

    def __init__(self, drafter: Learner) -> None:
        self._drafter = drafter
        self.reads_rows = drafter.reads_rows

    def draft(self, request: RequestView, limits: DraftLimits) -> DraftTree:
        return self._drafter.draft(request, limits)

    def observe(
        self, draft: DraftTree, accepted_nodes: Sequence[int], top_ids: IntArray | None
    ) -> None:
        known = None
        if top_ids is not None:
            known = np.full_like(top_ids, -1)
            nodes = [0, *accepted_nodes]
            known[nodes] = top_ids[nodes]
        self._drafter.observe(draft, accepted_nodes, known)


@pytest.mark.tiny
@pytest.mark.parametrize("name", drafters.names())
@pytest.mark.parametrize(("family", "width"), [("llama", 8), ("gpt2", 20)])
def test_the_replay_of_a_drafter_is_its_live_run_step_by_step(
    name: str, family: str, width: int
) -> None:
    import lookahead
    from app.bench.recording import Recorder
    from tests.lookahead.tiny_models import VOCAB_SIZE, tiny_model

    model = tiny_model(family)
    draw = random.Random(5)
    prompts = [[draw.randrange(VOCAB_SIZE) for _ in range(30)] * 2 for _ in range(8)]
    recordings = Recorder(model, 40).record(prompts)
    decoding = lookahead.DecodingConfig(max_new_tokens=40, max_rows=width, adaptive=False)
    setting = ReplaySetting(
        width, max_new_tokens=40, max_draft_depth=decoding.max_draft_depth, with_prompt_rows=True
    )
    make: Callable[[], Learner] = lambda: drafters.make(name, vocab_size=VOCAB_SIZE)  # noqa: E731
    live, replayed = make(), make()
    accepted = 0
    for prompt, record in zip(prompts, recordings, strict=True):
        live.begin(prompt)
        live.observe_prompt(prompt, record.prompt_top_ids)
        events = list(lookahead.generate(model, prompt, drafter=TruePath(live), decoding=decoding))
        steps = [event for event in events if isinstance(event, lookahead.StepDone)]
        finished = events[-1]
        assert isinstance(finished, lookahead.Finished)
        live.remember([*prompt, *finished.token_ids])
        result = replay_prompt(RecordedPrompt("any", "any", record), replayed, setting)
        assert result.accepted_lengths == [step.accepted_length for step in steps]
        assert result.widths == [step.width for step in steps]
        assert result.accepted_by_source == finished.stats.accepted_by_source
        assert result.num_tokens == len(finished.token_ids)
        accepted += result.num_accepted
    assert accepted or name == "none", "something was accepted"
