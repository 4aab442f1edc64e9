"""The replay: decode steps over recorded answers, so that a drafter is judged without a model.

At every step the drafter drafts, the recorded ids say what the model would have accepted, and the
drafter is told. Limits and endings are those of `lookahead.decoding`. What the model thought behind
rejected tokens was not recorded: those rows are reported as unknown, so that a drafter that
recycles rows does better live. Knows no model, no text and no clock but its own thread's.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.bench.recordings import NUM_TOP_IDS, IntArray, Recording
from app.bench.reliability import Reliability
from lookahead.draft import DraftTree, TokenSource
from lookahead.drafter import DraftLimits
from lookahead.drafters.protocol import Learner
from lookahead.request_view import RequestView
from lookahead.verify import Acceptance, accept

__all__ = [
    "PromptReplay",
    "RecordedPrompt",
    "ReplayResult",
    "ReplaySetting",
    "replay",
    "replay_prompt",
]


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """A prompt of the benchmark with what was recorded for it.

    Args:
        is_looping: whether the answer ends in an exact loop, which is easy to draft.
    """

    id: str
    category: str
    recording: Recording
    is_looping: bool = False


@dataclass(frozen=True, slots=True)
class ReplaySetting:
    """How drafting is tried.

    Args:
        width: nodes of a draft at most, root included.
        is_cold: a fresh drafter for every prompt; otherwise one for all of them, in order, which
            remembers what is finished.
        with_prompt_rows: tell the drafter what the model thought behind every prompt token, which
            the decode loop does not do today.
        max_new_tokens: tokens of an answer at most; no more than were recorded.
        max_draft_depth: tokens on one branch at most; None: as many as the width has room for.
        is_primed: the drafter begins with a table primed from the model, as the product has it.
    """

    width: int
    is_cold: bool = True
    with_prompt_rows: bool = False
    max_new_tokens: int = 256
    max_draft_depth: int | None = None
    is_primed: bool = False

    @property
    def name(self) -> str:
        """`cold` or `history`; `-primed`, and `-with-prompt-rows` where they are told."""
        name = ("cold" if self.is_cold else "history") + "-primed" * self.is_primed
        return f"{name}-with-prompt-rows" if self.with_prompt_rows else name


@dataclass(slots=True)
class PromptReplay:
    """What drafting came to over one answer; times are the thread's own CPU seconds.

    Args:
        num_tokens: emitted, end of sequence excluded.
        accepted_lengths: of each decode step, the drafted tokens accepted.
        widths: of each decode step, the nodes verified, root included.
        prefill_seconds: what the drafter begins with at the prompt.
        drafting_seconds: drafting and learning from rows, which belong to the decode steps.
        remember_seconds: making history of the finished answer, sealing with it.
    """

    id: str
    category: str
    is_looping: bool = False
    num_tokens: int = 0
    accepted_lengths: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    accepted_by_source: Counter[TokenSource] = field(default_factory=Counter)
    reliability: Reliability = field(default_factory=Reliability)
    prefill_seconds: float = 0.0
    drafting_seconds: float = 0.0
    remember_seconds: float = 0.0

    @property
    def num_steps(self) -> int:
        """Decode steps: forwards behind the prefill."""
        return len(self.accepted_lengths)

    @property
    def num_accepted(self) -> int:
        """Drafted tokens accepted."""
        return sum(self.accepted_lengths)

    @property
    def num_drafted(self) -> int:
        """Drafted tokens."""
        return sum(self.widths) - self.num_steps


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One drafter in one setting over all prompts."""

    drafter: str
    setting: ReplaySetting
    prompts: tuple[PromptReplay, ...]

    @property
    def categories(self) -> tuple[str, ...]:
        """In the order of their first prompt."""
        return tuple(dict.fromkeys(prompt.category for prompt in self.prompts))

    def of_category(self, category: str) -> "ReplayResult":
        """The prompts of one category alone."""
        kept = tuple(prompt for prompt in self.prompts if prompt.category == category)
        return ReplayResult(self.drafter, self.setting, kept)

    @property
    def not_looping(self) -> "ReplayResult":
        """The prompts whose answers do not end in an exact loop."""
        kept = tuple(prompt for prompt in self.prompts if not prompt.is_looping)
        return ReplayResult(self.drafter, self.setting, kept)

    @property
    def untuned(self) -> "ReplayResult":
        """Every second prompt of each category: the drafter was tuned on the others alone."""
        seen: Counter[str] = Counter()
        kept = []
        for prompt in self.prompts:
            if seen[prompt.category] % 2:
                kept.append(prompt)
            seen[prompt.category] += 1
        return ReplayResult(self.drafter, self.setting, tuple(kept))

    @property
    def reliability(self) -> Reliability:
        """What was said of drafted tokens against what came."""
        return sum((prompt.reliability for prompt in self.prompts), Reliability())

    @property
    def num_steps(self) -> int:
        """Decode steps of all prompts."""
        return sum(prompt.num_steps for prompt in self.prompts)

    @property
    def num_plain_steps(self) -> int:
        """Decode steps that plain decoding takes for the same answers."""
        return self.num_steps + sum(prompt.num_accepted for prompt in self.prompts)

    @property
    def tokens_per_step(self) -> float:
        """Mean accepted length + 1 over all decode steps (MAT); 1.0 is no gain."""
        return self.num_plain_steps / self.num_steps if self.num_steps else 1.0

    @property
    def widths(self) -> Counter[int]:
        """Decode steps by width."""
        return Counter(width for prompt in self.prompts for width in prompt.widths)

    @property
    def mean_width(self) -> float:
        """Nodes verified in a step, root included."""
        nodes = sum(sum(prompt.widths) for prompt in self.prompts)
        return nodes / self.num_steps if self.num_steps else 1.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted drafted tokens / drafted tokens; 0 where nothing was drafted."""
        drafted = sum(prompt.num_drafted for prompt in self.prompts)
        return (self.num_plain_steps - self.num_steps) / drafted if drafted else 0.0

    @property
    def accepted_by_source(self) -> Counter[TokenSource]:
        """Accepted drafted tokens by where they came from."""
        return sum((prompt.accepted_by_source for prompt in self.prompts), Counter())

    @property
    def drafting_milliseconds(self) -> float:
        """CPU time of a step's drafting and learning from rows."""
        seconds = sum(prompt.drafting_seconds for prompt in self.prompts)
        return 1000 * seconds / self.num_steps if self.num_steps else 0.0


def replay(
    name: str,
    prompts: Sequence[RecordedPrompt],
    make_drafter: Callable[[], Learner],
    setting: ReplaySetting,
) -> ReplayResult:
    """Draft over every recorded answer, in order.

    Args:
        name: the drafter's name, for the result.
        make_drafter: gives a drafter that has learned nothing.

    Raises:
        ValueError: the setting asks for more tokens than were recorded.
    """
    shared = None if setting.is_cold else make_drafter()
    results = []
    for prompt in prompts:
        drafter = make_drafter() if shared is None else shared
        results.append(replay_prompt(prompt, drafter, setting))
    return ReplayResult(name, setting, tuple(results))


def replay_prompt(prompt: RecordedPrompt, drafter: Learner, setting: ReplaySetting) -> PromptReplay:
    """Draft over one recorded answer with a drafter as it is; it remembers the answer at the end.

    Raises:
        ValueError: the setting asks for more tokens than were recorded.
    """
    return _Replayed(prompt, drafter, setting).run()


class _Replayed:
    """One recorded answer in the replaying: the parts of a decode step without a model."""

    def __init__(self, prompt: RecordedPrompt, drafter: Learner, setting: ReplaySetting) -> None:
        recording = prompt.recording
        model = recording.model
        self._recording = recording
        self._drafter = drafter
        self._setting = setting
        self._prompt_length = len(recording.prompt_ids)
        self._room = min(setting.max_new_tokens, model.context_length - self._prompt_length)
        self._excluded_ids = frozenset(model.end_token_ids)
        self._answer_ids = recording.answer_ids[: self._room]
        self._has_ended = self._answer_ids[-1] in self._excluded_ids
        if not self._has_ended and len(self._answer_ids) < self._room:
            raise ValueError(
                f"Of the answer to {prompt.id} {len(self._answer_ids)} tokens were recorded; "
                f"{self._room} are asked for."
            )
        self._request = RequestView()
        self._result = PromptReplay(prompt.id, prompt.category, prompt.is_looping)

    def run(self) -> PromptReplay:
        """Prefill, then steps until the recorded answer is spent."""
        emitted_ids = self._answer_ids[:-1] if self._has_ended else self._answer_ids
        self._result.num_tokens = len(emitted_ids)
        self._prefill()
        num_chosen = 1
        while num_chosen < len(self._answer_ids):
            num_chosen += self._step(num_chosen)
        whole = [*self._recording.prompt_ids, *emitted_ids]
        started = time.thread_time()
        self._drafter.remember(whole)
        self._result.remember_seconds = time.thread_time() - started
        return self._result

    def _prefill(self) -> None:
        prompt_ids = self._recording.prompt_ids
        self._request.append(prompt_ids, TokenSource.PROMPT)
        self._request.append(self._answer_ids[:1], TokenSource.OUTPUT)
        started = time.thread_time()
        self._drafter.begin(prompt_ids)
        rows = self._recording.prompt_top_ids if self._setting.with_prompt_rows else None
        self._drafter.observe_prompt(prompt_ids, rows if self._drafter.reads_rows else None)
        self._result.prefill_seconds = time.thread_time() - started

    def _step(self, num_chosen: int) -> int:
        """One decode step behind the first `num_chosen` tokens; returns how many it emits."""
        started = time.thread_time()
        draft = self._draft(num_chosen)
        drafted = time.thread_time()
        acceptance = accept(draft, lambda _, path: self._answer_ids[num_chosen + len(path)])
        emitted = [token for token in acceptance.token_ids if token not in self._excluded_ids]
        self._request.append(emitted, TokenSource.OUTPUT)
        top_ids = None
        if self._drafter.reads_rows:
            top_ids = self._top_ids(draft, acceptance, self._prompt_length + num_chosen - 1)
        before = time.thread_time()
        self._drafter.observe(draft, acceptance.nodes, top_ids)
        result = self._result
        result.drafting_seconds += time.thread_time() - before + drafted - started
        result.accepted_lengths.append(acceptance.accepted_length)
        result.widths.append(draft.width)
        result.reliability.observe(draft, acceptance.nodes)
        result.accepted_by_source.update(draft.sources[node] for node in acceptance.nodes)
        return len(acceptance.token_ids)

    def _draft(self, num_chosen: int) -> DraftTree:
        """As in the decode loop: the bonus token takes one of those left."""
        width, depth = self._setting.width, self._setting.max_draft_depth
        depth = min(width - 1 if depth is None else depth, self._room - num_chosen - 1)
        if depth < 1:
            return DraftTree.root_only(self._answer_ids[num_chosen - 1])
        limits = DraftLimits(width, depth, self._excluded_ids)
        draft = self._drafter.draft(self._request, limits)
        assert draft.width <= limits.max_width, "a drafter keeps to the width it is given"
        assert max(draft.depths) <= limits.max_depth, "a drafter keeps to the depth it is given"
        return draft

    def _top_ids(self, draft: DraftTree, acceptance: Acceptance, root: int) -> IntArray:
        """[width, 8] what was recorded behind root and accepted nodes; -1 behind the others."""
        top_ids = np.full((draft.width, NUM_TOP_IDS), -1, np.int32)
        nodes = [0, *acceptance.nodes]
        top_ids[nodes] = self._recording.top_ids[root : root + len(nodes)]
        return top_ids
