"""An engine that answers from a script, a tokenizer of bytes: services without torch."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import jinja2

from app.services.engine import GenerationRequest
from app.services.views import ServiceConfig
from lookahead.draft import DraftTree, TokenSource
from lookahead.events import Event, Finished, FinishReason, GenerationStats, PrefillDone, StepDone

START, END, THINK = 256, 257, 258
CONTROLS = {"<|im_start|>": START, "<|im_end|>": END, "<think>": THINK}
CHAT_TEMPLATE = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class ByteTokenizer:
    """One id per byte of UTF-8, and three control tokens, of which `<think>` is not "special"."""

    bos_token = None
    bos_token_id = None

    def __init__(self, chat_template: str | None = CHAT_TEMPLATE) -> None:
        self.chat_template = chat_template
        self.num_decoded = 0
        self.added_tokens_decoder = {
            token_id: SimpleNamespace(content=content, special=token_id != THINK)
            for content, token_id in CONTROLS.items()
        }

    def __call__(
        self,
        text: str | list[str],
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        verbose: bool = True,
    ) -> dict[str, list[Any]]:
        if isinstance(text, list):
            whole = (self(piece, split_special_tokens=split_special_tokens) for piece in text)
            return {"input_ids": [encoded["input_ids"] for encoded in whole]}
        known = [c for c, i in CONTROLS.items() if i == THINK or not split_special_tokens]
        ids: list[int] = []
        for piece in re.split(f"({'|'.join(map(re.escape, known))})", text):
            ids += [CONTROLS[piece]] if piece in known else piece.encode()
        return {"input_ids": ids}

    def __len__(self) -> int:
        return 256 + len(CONTROLS)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        self.num_decoded += len(token_ids)
        return bytes(i for i in token_ids if i < START).decode(errors="replace")

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return next(content for content, known in CONTROLS.items() if known == token_id)

    def apply_chat_template(
        self,
        conversation: list[dict[str, str]],
        tokenize: bool = True,
        add_generation_prompt: bool = False,
    ) -> Any:
        assert self.chat_template is not None
        rendered = _compile(self.chat_template).render(
            messages=conversation, add_generation_prompt=add_generation_prompt
        )
        return self(rendered)["input_ids"] if tokenize else rendered


@cache
def _compile(chat_template: str) -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    environment.globals["raise_exception"] = _raise_exception
    return environment.from_string(chat_template)


def _raise_exception(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


@dataclass
class ScriptedModel:
    """As much of a loaded model as the services look at."""

    tokenizer: ByteTokenizer = field(default_factory=ByteTokenizer)
    context_length: int = 4096
    hf_model: Any = None
    device: str = "cpu"
    dtype: str = "torch.float64"
    mode: str = "strict"
    mode_reason: str = "scripted"
    fingerprint: str = "scripted-machine"
    model_fingerprint: str = "scripted-model"
    tokenizer_fingerprint: str = "bytes"
    vocab_size: int = 259


class ScriptedSession:
    """Remembers the ids, as keys and values would be kept."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@dataclass
class ScriptedEngine:
    """Answers with `answer` (a text, ids, or an error to raise), `step_length` ids a step.

    Args:
        gate: each step waits for a permit of it; None: runs through.
        loading: set when the model may finish loading.
        error_after_steps: the forward after so many steps fails; None: none does.
    """

    answer: Any = "It is Paris."
    model: ScriptedModel = field(default_factory=ScriptedModel)
    load_error: Exception | None = None
    gate: threading.Semaphore | None = None
    loading: threading.Event | None = None
    requests: list[GenerationRequest] = field(default_factory=list)
    configs: list[ServiceConfig] = field(default_factory=list)
    num_steps: int = 0
    step_length: int = 2
    error_after_steps: int | None = None
    read_windows: list[list[int]] = field(default_factory=list)

    def load(self, config: ServiceConfig, report: Callable[[str], None]) -> Any:
        self.configs.append(config)
        report("Reading the script")
        if self.loading is not None:
            self.loading.wait(30)
        if self.load_error is not None:
            raise self.load_error
        return self.model

    def new_session(self, model: Any) -> Any:
        return ScriptedSession()

    def go_on(self, num_steps: int = 1) -> None:
        """Let so many steps through the gate."""
        assert self.gate is not None, "nothing keeps it"
        self.gate.release(num_steps)

    def generate(self, model: Any, request: GenerationRequest) -> Iterator[Event]:
        self.requests.append(request)
        prompt = list(request.prompt_ids)
        session: Any = request.session
        reused = _shared_length(session.token_ids, prompt)
        answer = self.answer(prompt) if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        ids = list(answer.encode()) if isinstance(answer, str) else list(answer)
        ids = ids[: request.decoding.max_new_tokens]
        stats = GenerationStats(
            mode=model.mode,
            prompt_length=len(prompt),
            reused_length=reused,
            seed=request.sampling.seed,
            **request.sampling.settings,
        )
        stats.prefilled_length = len(prompt) - reused
        stats.num_prefill_chunks = 1
        stats.prefill_seconds = 0.25
        emitted = ids[:1]
        yield PrefillDone(tuple(emitted), reused, len(prompt) - reused, 1, 0.25)
        reason = FinishReason.END
        while len(emitted) < len(ids):
            if self.gate is not None:
                self.gate.acquire(timeout=30)
            if request.is_cancelled():
                reason = FinishReason.CANCELLED
                break
            if stats.num_steps == self.error_after_steps:
                raise RuntimeError("the forward failed")
            fresh = ids[len(emitted) : len(emitted) + self.length_of_step(stats.num_steps)]
            self.num_steps += 1
            before, kept = list(emitted), None
            for token_id in fresh:
                emitted.append(token_id)
                kept = request.stop(emitted) if request.stop else None
                if kept is not None:
                    del emitted[kept:]
                    break
            yield self._step(before[-1], emitted[len(before) :], request, stats)
            if kept is not None:
                reason = FinishReason.STOP
                break
        stats.num_tokens = len(emitted)
        session.token_ids = [*prompt, *emitted]
        yield Finished(tuple(emitted), reason, stats)

    def prime(self, model: Any, successors: Any, prefix_ids: Sequence[int]) -> Iterator[float]:
        return iter(())

    def read(self, model: Any, successors: Any, windows: Iterable[Sequence[int]]) -> Iterator[int]:
        for token_ids in windows:
            self.read_windows.append(list(token_ids))
            yield len(token_ids)

    def length_of_step(self, index: int) -> int:
        """Ids of a step of an answer."""
        return self.step_length

    def _step(
        self, root: int, fresh: list[int], request: GenerationRequest, stats: GenerationStats
    ) -> StepDone:
        accepted = fresh[:-1] if request.trie is not None else []
        draft = self.draft(root, accepted) if accepted else DraftTree.root_only(root)
        step = StepDone(
            token_ids=tuple(fresh),
            accepted_length=len(accepted),
            accepted_nodes=tuple(range(1, len(accepted) + 1)),
            width=draft.width,
            rows=16,
            draft=draft,
            match_length=2,
            seconds=0.5,
            draft_seconds=0.1,
        )
        stats.count_step(step)
        return step

    def draft(self, root: int, accepted: list[int]) -> DraftTree:
        """The accepted tokens as one branch from the prompt, and a rejected one from history."""
        num_accepted = len(accepted)
        return DraftTree(
            token_ids=(root, *accepted, 9),
            parents=(-1, *range(num_accepted), 0),
            sources=(
                TokenSource.MODEL,
                *[TokenSource.PROMPT] * num_accepted,
                TokenSource.HISTORY,
            ),
            probabilities=(1.0, *[0.5] * num_accepted, 0.25),
            positions=(-1, *range(3, 3 + num_accepted), 0),
            match_length=2,
        )


def _shared_length(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
