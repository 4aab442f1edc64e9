"""The engine as the services use it, so that tests can put a scripted one in its place.

Imports the engine, and with it torch, only when a model is loaded. Called in the worker's thread.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from app.services.views import ServiceConfig
from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.events import Event
from lookahead.known_facts import KnownFacts
from lookahead.learned import Learned
from lookahead.successors import SuccessorTable
from lookahead.trie import Trie

if TYPE_CHECKING:
    from lookahead import LoadedModel, Session
    from lookahead.divergence import Divergence
    from lookahead.sampling import LogitsProcessor

__all__ = ["Engine", "GenerationRequest", "LookaheadEngine"]


@dataclass(frozen=True, slots=True)
class TokenizerAlone:
    """Stands where a loaded model is while documents are imported, and answers nothing."""

    tokenizer: Any
    tokenizer_fingerprint: str
    fingerprint: str = ""
    model_fingerprint: str = ""
    vocab_size: int = 0
    context_length: int = 0
    device: str = "cpu"
    dtype: str = "the tokenizer alone"
    mode: str = "import"
    mode_reason: str = ""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation. `trie` and `learned` None: plain decoding.

    Args:
        document_ranges: start and end of each passage of a document in the prompt.
        take_digest: given a digest of the logits behind each token chosen, in order; None: not
            wanted, which saves its cost.
    """

    prompt_ids: Sequence[int]
    decoding: DecodingConfig
    sampling: SamplingConfig
    session: "Session"
    trie: Trie | None
    learned: Learned | None
    masked_sequence_ids: frozenset[int]
    stop: Callable[[Sequence[int]], int | None] | None
    is_cancelled: Callable[[], bool]
    document_ranges: Sequence[tuple[int, int]] = ()
    take_digest: Callable[[bytes], None] | None = None


class Engine(Protocol):
    """Loads models and generates."""

    def load(self, config: ServiceConfig, report: Callable[[str], None]) -> "LoadedModel":
        """Load the model; `report` is told in sentences what takes long."""
        ...

    def new_session(self, model: "LoadedModel") -> "Session":
        """KV and token ids of one conversation; has `close()`."""
        ...

    def generate(self, model: "LoadedModel", request: GenerationRequest) -> Iterator[Event]:
        """The events of one generation, `Finished` last."""
        ...

    def find_divergence(
        self,
        model: "LoadedModel",
        prompt_ids: Sequence[int],
        plain: Sequence[int],
        drafted: Sequence[int],
        *,
        repetition_penalty: float,
    ) -> "Divergence | None":
        """Where two greedy answers part, and whether rounding explains it."""
        ...

    def prime(
        self, model: "LoadedModel", successors: SuccessorTable, prefix_ids: Sequence[int]
    ) -> Iterator[float]:
        """Fill the successors still unknown, a batch at a time; see `lookahead.priming`."""
        ...

    def read(
        self, model: "LoadedModel", successors: SuccessorTable, windows: Iterable[Sequence[int]]
    ) -> Iterator[int]:
        """Feed the successors from texts, a batch at a time; see `lookahead.deeper_reading`."""
        ...


class LookaheadEngine:
    """The real engine."""

    def load(self, config: ServiceConfig, report: Callable[[str], None]) -> "LoadedModel":
        """See `Engine`. Measurements are those of the cache folder."""
        import lookahead
        from lookahead import top_ids

        if not config.can_answer:
            return cast("LoadedModel", _tokenizer_alone(config, report))
        model = lookahead.load_model(
            config.model,
            device=config.device,
            dtype=config.dtype,
            strict=config.strict,
            context_length=config.context_length,
            report=report,
            facts=KnownFacts(config.cache_dir),
        )
        report("Compiling the drafter …")  # seconds, once a machine
        from lookahead.drafter import TrieDrafter

        TrieDrafter.prepare()
        top_ids.prepare(model.dtype)
        return model

    def new_session(self, model: "LoadedModel") -> "Session":
        """See `Engine`."""
        import lookahead

        return lookahead.Session(model)

    def generate(self, model: "LoadedModel", request: GenerationRequest) -> Iterator[Event]:
        """See `Engine`. The services add sequences to the Trie themselves: `observe=False`."""
        import lookahead

        return lookahead.generate(
            model,
            request.prompt_ids,
            trie=request.trie,
            decoding=request.decoding,
            sampling=request.sampling,
            session=request.session,
            learned=request.learned,
            masked_sequence_ids=request.masked_sequence_ids,
            document_ranges=request.document_ranges,
            stop=request.stop,
            is_cancelled=request.is_cancelled,
            process_logits=_digest_hook(request.take_digest) if request.take_digest else None,
            observe=False,
        )

    def find_divergence(
        self,
        model: "LoadedModel",
        prompt_ids: Sequence[int],
        plain: Sequence[int],
        drafted: Sequence[int],
        *,
        repetition_penalty: float,
    ) -> "Divergence | None":
        """See `Engine`."""
        from lookahead.divergence import find_divergence

        return find_divergence(
            *(model, prompt_ids, plain, drafted), repetition_penalty=repetition_penalty
        )

    def prime(
        self, model: "LoadedModel", successors: SuccessorTable, prefix_ids: Sequence[int]
    ) -> Iterator[float]:
        """See `Engine`."""
        from lookahead.priming import prime

        return prime(model, successors, prefix_ids)

    def read(
        self, model: "LoadedModel", successors: SuccessorTable, windows: Iterable[Sequence[int]]
    ) -> Iterator[int]:
        """See `Engine`."""
        from lookahead.deeper_reading import read

        return read(model, successors, windows)


def _digest_hook(take_digest: Callable[[bytes], None]) -> "LogitsProcessor":
    """Looks at the logits `[vocab_size]` and leaves them as they are."""
    import torch

    def look(token_ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        row = logits.contiguous().view(torch.uint8).numpy(force=True)
        take_digest(hashlib.sha256(row.data).digest())
        return logits

    return look


def _tokenizer_alone(config: ServiceConfig, report: Callable[[str], None]) -> TokenizerAlone:
    from lookahead.fingerprints import tokenizer_fingerprint
    from lookahead.loader import load_tokenizer

    tokenizer = load_tokenizer(config.model, report)
    return TokenizerAlone(tokenizer, tokenizer_fingerprint(tokenizer))
