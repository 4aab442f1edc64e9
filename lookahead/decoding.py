"""The decode loop: prefill, then draft → verify → accept → commit → observe until the answer ends.

Token ids in, events out. It knows no text (a stop rule reaches it as a function of ids), no page
and no database. Lookahead decoding after arXiv 2312.12728; with nothing drafted the very same
forward is plain decoding, and that is what its text always equals.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index

import torch

from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.draft import DraftTree, TokenSource
from lookahead.draft_policy import DraftPolicy, PolicyStep
from lookahead.drafter import MIN_PROBABILITY, Drafter, DraftLimits, TrieDrafter
from lookahead.errors import ContextFullError, InvalidRequestError
from lookahead.events import (
    Event,
    Finished,
    FinishReason,
    GenerationStats,
    PrefillDone,
    StepDone,
)
from lookahead.learned import Learned
from lookahead.loaded_model import LoadedModel
from lookahead.sampling import LogitsProcessor, TokenSampler
from lookahead.session import Session
from lookahead.step_costs import CostPrior, StepCosts, StepCurve
from lookahead.top_ids import likeliest_ids
from lookahead.trie import Trie
from lookahead.verify import Acceptance, accept

__all__ = ["StopRule", "generate"]

StopRule = Callable[[Sequence[int]], int | None]


def generate(
    model: LoadedModel,
    prompt_ids: Sequence[int],
    *,
    trie: Trie | None = None,
    decoding: DecodingConfig | None = None,
    sampling: SamplingConfig | None = None,
    session: Session | None = None,
    learned: Learned | None = None,
    masked_sequence_ids: Collection[int] = frozenset(),
    document_ranges: Sequence[tuple[int, int]] = (),
    drafter: Drafter | None = None,
    process_logits: LogitsProcessor | None = None,
    stop: StopRule | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    observe: bool = True,
) -> Iterator[Event]:
    """Answer a prompt; yields `PrefillDone`, a `StepDone` per forward, and `Finished`.

    Args:
        model: from `load_model`.
        prompt_ids: the whole prompt, one token at least.
        trie: what to draft from; None: plain decoding, unless a `drafter` is given.
        session: keeps KV and token ids for the next turn; None: one for this call.
        learned: what to draft by and to feed; None: the model's own.
        masked_sequence_ids: sequences of the Trie that are this very conversation.
        sampling: how tokens are chosen; None: the model's own defaults, greedy where it has none.
        document_ranges: start and end of each passage that the prompt quotes from a document.
        drafter: drafts instead of the Trie.
        process_logits: changes the logits before a token is chosen; see `TokenSampler`.
        stop: called with the tokens emitted so far after each of them; returns how many to keep
            when the answer ends here, else None. It is asked when a step is done: the tokens of
            an accepted branch behind the end were chosen by then, and are cut.
        is_cancelled: asked between forwards.
        observe: add prompt and answer to the Trie as one history sequence at the end.

    Raises:
        InvalidRequestError: the prompt is empty, or holds an id outside the vocabulary.
        ContextFullError: the prompt leaves no room for a token.
        UnsupportedModeError: the mode asked for is not possible with this model here.
    """
    prompt_ids = _checked_prompt(model, prompt_ids)
    decoding = decoding or DecodingConfig()
    session = session or Session(model)
    learned = model.learned if learned is None else learned
    if not model.can_roll_back:
        drafter = None
    elif drafter is None and trie is not None:
        drafter = TrieDrafter(trie, learned, masked_sequence_ids)
    sampler = TokenSampler(sampling or model.default_sampling, model.vocab_size, process_logits)
    answer = _Answer(
        *(session, prompt_ids, decoding, sampler),
        drafter=drafter,
        step_costs=learned.step_costs,
        stop=stop,
    )
    try:
        prefill = answer.prefill(is_cancelled, document_ranges)
        if prefill is not None:
            yield prefill
        while answer.reason is None:
            if is_cancelled():
                answer.reason = FinishReason.CANCELLED
                break
            yield answer.step()
    finally:
        # A rule that raised leaves tokens that were chosen but not committed.
        session.end(min(len(prompt_ids) + len(answer.token_ids), len(session.request)))
    if observe and trie is not None:
        trie.add([*prompt_ids, *answer.token_ids], source=TokenSource.HISTORY)
    assert answer.reason is not None, "an answer ends for a reason"
    yield Finished(tuple(answer.token_ids), answer.reason, answer.stats)


@dataclass(slots=True)
class _Mode:
    """How this answer is verified: the row counts of strict mode, or any width."""

    row_class: tuple[int, ...]
    max_width: int

    @classmethod
    def choose(cls, model: LoadedModel, decoding: DecodingConfig) -> "_Mode":
        max_rows = decoding.max_rows or model.default_max_rows
        row_class = model.row_class(decoding.strict)
        allowed = [rows for rows in row_class if rows <= max_rows] or row_class[:1]
        if row_class:
            fewest = model.strictness.fewest_rows
            allowed = [rows for rows in allowed if rows >= fewest] or allowed
        return cls(tuple(allowed), max(allowed, default=max_rows))

    def curve(self, model: LoadedModel, step_costs: StepCosts) -> StepCurve:
        """What steps of this mode cost."""
        attention = model.strictness.attention if self.row_class else ""
        prior = CostPrior.of(
            is_cpu=model.device.type == "cpu",
            is_wide=model.dtype.itemsize >= 4,
            is_packed=model.is_packed,
            attention=attention,
        )
        return step_costs.curve(attention or "flexible", prior)

    def rows(self, width: int) -> int | None:
        """Rows of a strict forward over `width` nodes; None in flexible mode."""
        if not self.row_class:
            return None
        return next(rows for rows in self.row_class if rows >= width)


class _Answer:
    """One answer in the making: the five parts of a decode step over one session."""

    def __init__(
        self,
        session: Session,
        prompt_ids: Sequence[int],
        decoding: DecodingConfig,
        sampler: TokenSampler,
        *,
        drafter: Drafter | None,
        step_costs: StepCosts,
        stop: StopRule | None,
    ) -> None:
        model = session.model
        self.model = model
        self.session = session
        self.token_ids: list[int] = []
        self.reason: FinishReason | None = None
        self._prompt_ids = prompt_ids
        self._decoding = decoding
        self._room = min(decoding.max_new_tokens, model.context_length - len(prompt_ids))
        self._end_ids = model.end_token_ids | decoding.stop_ids
        self._sampler = sampler
        self._drafter = drafter
        self._stop = stop
        self._mode = _Mode.choose(model, decoding)
        self._policy: DraftPolicy | None = None
        if drafter is not None and decoding.adaptive:
            self._policy = DraftPolicy(
                self._mode.curve(model, step_costs),
                self._mode.row_class,
                max_width=self._mode.max_width,
                probe_interval=decoding.probe_interval,
            )
        self.stats = GenerationStats(
            mode=model.mode_name(strict=bool(self._mode.row_class)),
            seed=sampler.seed,
            prompt_length=len(prompt_ids),
            **sampler.settings,
        )

    def prefill(
        self,
        is_cancelled: Callable[[], bool],
        document_ranges: Sequence[tuple[int, int]],
    ) -> PrefillDone | None:
        """Run what is new of the prompt, a chunk a forward; None when cancelled on the way."""
        started = time.perf_counter()
        stats, session = self.stats, self.session
        stats.reused_length = start = session.begin(self._prompt_ids, document_ranges)
        logits = session.prompt_logits
        chunk_length = self._decoding.prefill_chunk_length
        if not self.model.can_roll_back:
            chunk_length = len(self._prompt_ids)
        while start < len(self._prompt_ids):
            if is_cancelled():
                self.reason = FinishReason.CANCELLED
                return None
            chunk = self._prompt_ids[start : start + chunk_length]
            logits = session.run(chunk)
            start += len(chunk)
            stats.num_prefill_chunks += 1
            stats.prefilled_length += len(chunk)
        assert logits is not None, "a prompt has logits behind it"
        session.prompt_done(logits)
        emitted = self._emit([self._sampler.choose(logits, session.request.token_ids)])
        stats.prefill_seconds = time.perf_counter() - started
        return PrefillDone(
            token_ids=emitted,
            reused_length=stats.reused_length,
            prefilled_length=stats.prefilled_length,
            num_chunks=stats.num_prefill_chunks,
            seconds=stats.prefill_seconds,
        )

    def step(self) -> StepDone:
        """One decode step, one forward."""
        started = time.perf_counter()
        draft = self._draft()
        drafted = time.perf_counter()
        rows = self._mode.rows(draft.width)
        logits = self.session.verify(draft, rows)
        acceptance = self._accept(draft, logits)
        emitted = self._commit(acceptance)
        committed = time.perf_counter()
        self._observe(draft, acceptance, logits)
        paused = self._weigh(draft, acceptance, drafted - started, time.perf_counter() - drafted)
        ended = time.perf_counter()
        step = StepDone(
            token_ids=emitted,
            accepted_length=acceptance.accepted_length,
            accepted_nodes=acceptance.nodes,
            width=draft.width,
            rows=rows or draft.width,
            draft=draft,
            match_length=draft.match_length,
            seconds=ended - started,
            draft_seconds=drafted - started + ended - committed,
            paused=paused,
        )
        self.stats.count_step(step)
        return step

    def _draft(self) -> DraftTree:
        """The likeliest tree that fits; the root alone without a drafter or without room."""
        left = self._room - len(self.token_ids)  # the bonus token takes one of them
        root_position = len(self.session.request) - 1
        depth = min(
            self._decoding.max_draft_depth,
            self._mode.max_width - 1,
            left - 1,
            self.model.adapter.max_draft_depth(root_position),
        )
        policy = self._policy
        nothing = DraftTree.root_only(self.token_ids[-1])
        if self._drafter is None or depth < 1:
            return nothing
        if policy is not None and not policy.is_due:
            policy.pause()
            return nothing
        limits = DraftLimits(
            self._mode.max_width,
            int(depth),
            self._end_ids,
            min_probability=MIN_PROBABILITY if policy is None else policy.min_probability,
            foresight=self._sampler.foresight(root_position + 1),
        )
        draft = self._drafter.draft(self.session.request, limits).within(self.model.vocab_size)
        assert draft.width <= limits.max_width, "a drafter keeps to the width it is given"
        assert max(draft.depths) <= limits.max_depth, "a drafter keeps to the depth it is given"
        return draft if policy is None else policy.choose(draft, root_position)

    def _accept(self, draft: DraftTree, logits: torch.Tensor) -> Acceptance:
        """Follow the model's own choices from the root while the draft carries them."""
        committed = self.session.request.token_ids
        return accept(
            draft,
            lambda node, path: self._sampler.choose(logits[node], committed, path),
            self._end_ids,
        )

    def _commit(self, acceptance: Acceptance) -> tuple[int, ...]:
        """Gather the KV of root and accepted nodes; append the accepted tokens and the bonus."""
        self.session.keep(acceptance.nodes)
        return self._emit(acceptance.token_ids)

    def _observe(self, draft: DraftTree, acceptance: Acceptance, logits: torch.Tensor) -> None:
        """Let the drafter learn from every verified row; not while looking for drafts rests."""
        if self._drafter is None:
            return
        is_resting = self._policy is not None and self._policy.is_resting
        reads_rows = self._drafter.reads_rows and not is_resting
        top_ids = likeliest_ids(logits) if reads_rows else None
        self._drafter.observe(draft, acceptance.nodes, top_ids)

    def _weigh(
        self, draft: DraftTree, acceptance: Acceptance, look_seconds: float, seconds: float
    ) -> bool:
        """Let the policy learn what the step took and gave; whether drafting is paused."""
        if self._policy is None:
            return False
        step = PolicyStep(
            rows=self._mode.rows(draft.width) or draft.width,
            width=draft.width,
            context_length=len(self.session.request) - len(acceptance.token_ids),
            token_ids=acceptance.token_ids,
            look_seconds=look_seconds,
            seconds=seconds,
        )
        return self._policy.observe(step)

    def _emit(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Commit tokens one by one up to where plain decoding would end; returns those emitted."""
        before = len(self.token_ids)
        for at, token_id in enumerate(token_ids):
            if token_id in self._end_ids:
                self.stats.num_end_tokens += 1
                is_end = token_id in self.model.end_token_ids
                reason = FinishReason.END if is_end else FinishReason.STOP
                self._end(reason, num_cut=len(token_ids) - at - 1)
                break
            self.token_ids.append(token_id)
            kept = self._stop(self.token_ids) if self._stop else None
            if kept is not None:
                num_cut = len(self.token_ids) - kept + len(token_ids) - at - 1
                del self.token_ids[kept:]
                self._end(FinishReason.STOP, num_cut)
                break
        if self.reason is None and len(self.token_ids) >= self._room:
            is_full = self._room < self._decoding.max_new_tokens
            self.reason = FinishReason.CONTEXT if is_full else FinishReason.LENGTH
        self.stats.num_tokens = len(self.token_ids)
        emitted = tuple(self.token_ids[before:])
        self.session.request.append(emitted, TokenSource.OUTPUT)
        return emitted

    def _end(self, reason: FinishReason, num_cut: int) -> None:
        self.reason = reason
        self.stats.num_cut_tokens = num_cut


def _checked_prompt(model: LoadedModel, prompt_ids: Iterable[int]) -> list[int]:
    try:
        ids = [index(token_id) for token_id in prompt_ids]
    except TypeError as error:
        raise InvalidRequestError(
            f"The prompt must be one list of token ids, whole numbers; it is a "
            f"{type(prompt_ids).__name__} ({error})."
        ) from error
    if not ids:
        raise InvalidRequestError("The prompt is empty: give at least one token.")
    outside = next((token_id for token_id in ids if not 0 <= token_id < model.vocab_size), None)
    if outside is not None:
        raise InvalidRequestError(
            f"Token {outside} is outside the model's vocabulary of {model.vocab_size}."
        )
    if len(ids) >= model.context_length:
        raise ContextFullError(
            f"The prompt has {len(ids)} tokens and the model's context holds "
            f"{model.context_length}: shorten it to leave room for an answer."
        )
    return ids
