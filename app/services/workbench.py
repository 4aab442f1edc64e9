"""What the worker's thread works with once a model is loaded: model, prompts, Trie, sessions.

Knows the engine and the database; knows no jobs. Made, used and closed in the worker's thread,
except `keeper` and `import_tokenizer`, which others may use.
"""

import copy
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.prompting import Prompt, PromptBuilder
from app.retrieval import Retrieval
from app.services import forgetting
from app.services.document_indexing import DocumentIndexing
from app.services.engine import Engine, GenerationRequest
from app.services.idle_learning import IdleLearning
from app.services.learned_keeper import LearnedKeeper
from app.services.stop_strings import StopStrings
from app.services.transcript import Transcript
from app.services.trie_keeper import TrieKeeper
from app.services.views import AnswerOptions, EngineState, ServiceConfig
from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.events import Event, GenerationStats
from lookahead.learned import Learned
from storage import Database, SegmentCache

if TYPE_CHECKING:
    from lookahead import Session
    from lookahead.divergence import Divergence

__all__ = ["SessionKey", "Workbench"]

SessionKey = int | str  # a conversation's id, or a name

_PURGE_SECONDS = 0.2  # of it in one go, since somebody may wait for an answer
_GIVE_BACK_SECONDS = 0.1
_MAX_SESSIONS = 4  # conversations whose keys and values are kept in memory


class Workbench:
    """A loaded model with all that answers need.

    Attributes:
        model: the loaded model. `prompts`: its PromptBuilder.
        keeper: the Trie of its tokenizer.
        retrieval: finds passages of documents, and quotes them.
        import_tokenizer: a tokenizer of its own for the import thread.
    """

    def __init__(
        self,
        engine: Engine,
        config: ServiceConfig,
        database: Database,
        cache: SegmentCache,
        show: Callable[[EngineState], None],
    ) -> None:
        state = EngineState("loading", f"Loading {config.model} …", config.model)
        show(state)
        self._engine = engine
        self._config = config
        self._database = database
        self._cache = cache
        self.model = engine.load(config, lambda sentence: show(replace(state, detail=sentence)))
        tokenizer = self.model.tokenizer
        self.prompts = PromptBuilder(tokenizer, self.model.context_length)
        self.import_tokenizer = copy.deepcopy(tokenizer)
        show(replace(state, detail="Opening the Trie …"))
        name = Path(config.model).name or config.model
        self.tokenizer_id = database.tokenizers.ensure(self.model.tokenizer_fingerprint, name)
        self.keeper = TrieKeeper(database, cache, self.tokenizer_id, config.trie_budget_bytes)
        self._indexing = DocumentIndexing(database, self.keeper, tokenizer)
        self.retrieval = Retrieval(database, tokenizer, self.tokenizer_id)
        self._kept = LearnedKeeper(
            *(database, self.model.model_fingerprint, self.model.vocab_size),
            runtime_fingerprint=self.model.fingerprint,
        )
        self._idle_learning = IdleLearning(
            *(engine, self.model, self._kept, database),
            tokenizer_id=self.tokenizer_id,
            find_prefix_ids=self.prompts.answer_header_ids,
            is_allowed=config.idle_learning and config.can_answer,
        )
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self._purge_at = 0.0  # not before, by the monotonic clock

    def begin(self) -> None:
        """What was deleted while this was being made was told to nobody: look once more."""
        self.keeper.reconcile()

    @property
    def ready_state(self) -> EngineState:
        """What is shown from now on."""
        model = self.model
        return EngineState(
            "ready",
            f"{self._config.model} is ready: {_plain(model.dtype)} on {_plain(model.device)}, "
            f"{model.mode} mode.",
            self._config.model,
            mode=model.mode,
            mode_reason=model.mode_reason,
            background=self._idle_learning.progress,
        )

    def sampling(self, options: AnswerOptions) -> SamplingConfig:
        """What was asked for; for the rest the model's own defaults, greedy where it has none."""
        return options.sampling(getattr(self.model.hf_model, "generation_config", None))

    def transcript(self, prompt: Prompt, options: AnswerOptions) -> Transcript:
        """An empty one for an answer, with the rule that ends it."""
        strings = (*prompt.stop_strings, *options.stop)
        tokenizer = self.model.tokenizer
        return Transcript(
            tokenizer,
            GenerationStats(mode=self.model.mode, **self.sampling(options).settings),
            StopStrings(tokenizer, strings) if strings else None,
        )

    def generate(
        self,
        prompt: Prompt,
        options: AnswerOptions,
        *,
        session_key: SessionKey,
        masked_sequence_ids: frozenset[int] = frozenset(),
        stop: StopStrings | None = None,
        is_remembered: bool = True,
        is_cancelled: Callable[[], bool],
    ) -> Iterator[Event]:
        """The events of one answer. A session whose generation fails is thrown away.

        Args:
            stop: that of the transcript.
            is_remembered: whether its words are learned; else the successors work on a copy.
        """
        request = self._request(
            prompt,
            options,
            session=self._session(session_key),
            masked_sequence_ids=masked_sequence_ids,
            stop=stop,
            lend=(lambda kept: kept) if is_remembered else Learned.with_own_successors,
            is_cancelled=is_cancelled,
        )
        self._kept.has_news |= options.lookahead
        is_done = False
        try:
            yield from self._engine.generate(self.model, request)
            is_done = True
        finally:
            if not is_done:
                self.drop_session(session_key)

    def generate_apart(
        self,
        prompt: Prompt,
        options: AnswerOptions,
        *,
        stop: StopStrings | None,
        take_digest: Callable[[bytes], None],
        is_cancelled: Callable[[], bool],
    ) -> Generator[Event, None, None]:
        """The events of one answer that leaves nothing behind, in a session of its own.

        Args:
            stop: that of the transcript. `take_digest`: see `GenerationRequest`.
        """
        session = self._engine.new_session(self.model)
        try:
            request = self._request(
                *(prompt, options),
                session=session,
                stop=stop,
                lend=Learned.copy,
                is_cancelled=is_cancelled,
            )
            yield from self._engine.generate(self.model, replace(request, take_digest=take_digest))
        finally:
            session.close()

    def find_divergence(
        self,
        prompt: Prompt,
        plain: Sequence[int],
        drafted: Sequence[int],
        *,
        repetition_penalty: float,
    ) -> "Divergence | None":
        """Where two greedy answers part, and whether rounding explains it."""
        return self._engine.find_divergence(
            *(self.model, prompt.token_ids, plain, drafted), repetition_penalty=repetition_penalty
        )

    def _request(
        self,
        prompt: Prompt,
        options: AnswerOptions,
        *,
        session: "Session",
        masked_sequence_ids: frozenset[int] = frozenset(),
        stop: StopStrings | None,
        lend: Callable[[Learned], Learned],
        is_cancelled: Callable[[], bool],
    ) -> GenerationRequest:
        """The request; `lend` gives of what is kept what to draft by, and only where drafted."""
        if options.lookahead:
            self.keeper.catch_up()
        return GenerationRequest(
            prompt_ids=prompt.token_ids,
            document_ranges=prompt.document_ranges,
            decoding=DecodingConfig(max_new_tokens=options.max_new_tokens),
            sampling=self.sampling(options),
            session=session,
            trie=self.keeper.trie if options.lookahead else None,
            learned=lend(self._kept.learned) if options.lookahead else None,
            masked_sequence_ids=masked_sequence_ids,
            stop=stop,
            is_cancelled=is_cancelled,
        )

    def _session(self, key: SessionKey) -> "Session":
        """The session of a conversation; the one unused for longest makes room for a new one."""
        if key not in self._sessions:
            while len(self._sessions) >= _MAX_SESSIONS:
                self._sessions.popitem(last=False)[1].close()
            self._sessions[key] = self._engine.new_session(self.model)
        self._sessions.move_to_end(key)
        return self._sessions[key]

    def drop_session(self, key: SessionKey) -> None:
        """Give back the memory of a conversation's keys and values."""
        session = self._sessions.pop(key, None)
        if session is not None:
            session.close()

    def do_idle_work(self) -> bool:
        """One piece of housekeeping; whether there is more."""
        if self._purge() or self._database.give_back(_GIVE_BACK_SECONDS):
            return True
        self._kept.save_if_due()  # not after what follows, which may go on for hours
        if self._indexing.work():
            return True
        if self.keeper.tidy():
            return True
        return self._idle_learning.work()

    def _purge(self) -> bool:
        """A piece of purging; whether there is more at once. What is not possible yet waits."""
        start = time.monotonic()
        if start < self._purge_at:
            return False
        if forgetting.purge_deleted(
            self._database, self._cache, self.keeper, max_seconds=_PURGE_SECONDS
        ):
            return True
        if self._database.erasures.are_pending:  # a little sooner than it is asked for again
            self._purge_at = start + 0.9 * forgetting.RETRY_SECONDS
        return False

    def look_for_documents(self) -> None:
        """Some were brought back: look at all of them again, once nothing is asked. Any thread."""
        self._indexing.look_again()

    def close(self) -> None:
        """Save what was learned and give the memory back."""
        for key in list(self._sessions):
            self.drop_session(key)
        try:
            self._kept.save()
        finally:
            self.keeper.close()


def _plain(name: object) -> str:
    """`torch.bfloat16` → `bfloat16`."""
    return str(name).removeprefix("torch.")
