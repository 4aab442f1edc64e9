"""What live suites start from: the loaded model, its mode, and prompts as token ids.

Knows the engine and the prompt builder; measures nothing. Called by the suites.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.bench.arms import BenchRequest
from app.bench.engine_arms import EngineRunner
from app.bench.errors import BenchError
from app.bench.interleaving import Verdict
from app.bench.options import BenchOptions
from app.bench.prompt_sets import OWN_PROMPTS, OWN_WARMUP, PromptSet, overlap_share, read_prompts
from app.prompting import MessageTooLongError, PromptBuilder, Turn

if TYPE_CHECKING:
    from lookahead import LoadedModel, Session

__all__ = [
    "Workload",
    "chat_requests",
    "describe_prompts",
    "judge_for",
    "load_workload",
    "read_prompt_sets",
    "tie_or_bug",
]

Report = Callable[[str], None]


@dataclass(slots=True)
class Workload:
    """A model ready to answer, and what it is asked.

    Args:
        strict: whether the mode measured is strict.
        notes: sentences about what was left out.
    """

    model: "LoadedModel"
    builder: PromptBuilder
    strict: bool
    prompts: PromptSet
    warmup: PromptSet
    notes: list[str] = field(default_factory=list)

    @property
    def dtype_name(self) -> str:
        """`bfloat16`."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def mode(self) -> str:
        """`strict` or `flexible`."""
        return self.model.mode_name(strict=self.strict)

    def runner(self, max_new_tokens: int, temperature: float = 0.0) -> EngineRunner:
        """Starts generations in the mode measured."""
        return EngineRunner(self.model, max_new_tokens, self.strict, temperature)

    def new_session(self) -> "Session":
        """A session to be kept from turn to turn."""
        from lookahead import Session

        return Session(self.model)

    def requests(self, prompts: PromptSet) -> list[BenchRequest]:
        """First turns as token ids; what the model cannot read is left out, and noted.

        Raises:
            BenchError: it can read none.
        """
        return chat_requests(self.builder, prompts, self.notes)

    def describe(self) -> dict[str, Any]:
        """What the report says about the run, without paths."""
        import torch

        model = self.model
        return {
            "model": Path(model.name).name,
            "dtype": self.dtype_name,
            "device": str(model.device),
            "mode": self.mode,
            "row_counts": " ".join(map(str, model.row_class(self.strict))) or None,
            "threads": torch.get_num_threads(),
            **describe_prompts("prompts", self.prompts),
        }

    def rehearsal(self) -> BenchRequest:
        """A request that is not measured, if there is one among those to warm with."""
        asked = {prompt.turns for prompt in self.prompts.prompts}
        warmup = self.requests(self.warmup)
        return next((r for r in warmup if r.prompt.turns not in asked), warmup[0])

    def describe_warmup(self) -> dict[str, Any]:
        """The same for the warm-up prompts, with what they share with those asked."""
        share = overlap_share(self.prompts.prompts, self.warmup.prompts)
        return {**describe_prompts("warmup", self.warmup), "overlap_8_words": round(share, 4)}


def chat_requests(
    builder: PromptBuilder, prompts: PromptSet, notes: list[str]
) -> list[BenchRequest]:
    """First turns as token ids, in the order of the set; what is left out is noted in `notes`.

    Raises:
        BenchError: the model can read none of them.
    """
    requests = []
    for seed, prompt in enumerate(prompts.prompts):
        try:
            ids = builder.build_chat([Turn(prompt.turns[0])]).token_ids
        except MessageTooLongError as error:
            notes.append(f"Prompt {prompt.id} was left out: {error}")
            continue
        requests.append(BenchRequest(prompt, ids, seed))
    if not requests:
        raise BenchError(f"The model can read none of the prompts of {prompts.name}.")
    return requests


def describe_prompts(name: str, prompts: PromptSet) -> dict[str, Any]:
    """What the report says about a set of prompts."""
    return {
        name: prompts.name,
        f"{name}_sha256": prompts.sha256[:16],
        f"num_{name}": len(prompts.prompts),
    }


def read_prompt_sets(options: BenchOptions) -> tuple[PromptSet, PromptSet]:
    """The prompts to ask and those to warm with. Raises PromptSetError for a bad file."""
    prompts = read_prompts(options.prompts or OWN_PROMPTS).of(options.categories)
    if options.suite == "turns":
        prompts = prompts.of_several_turns()
        if not prompts.prompts:
            raise BenchError(f"{prompts.name} holds no conversation of two turns or more.")
    prompts = prompts.limited(options.num_prompts)
    warmup = read_prompts(options.warmup or OWN_WARMUP)
    return prompts, warmup.limited(options.warmup_limit or len(prompts.prompts))


def load_workload(options: BenchOptions, report: Report) -> Workload:
    """Read the prompts, then load the model.

    Raises:
        PromptSetError: a file of prompts cannot be used.
        BenchError: the model can only be decoded plainly.
        LookaheadError: the model cannot be loaded as asked.
    """
    prompts, warmup = read_prompt_sets(options)
    import lookahead

    settings = options.settings
    model = lookahead.load_model(
        settings.model,
        device=settings.device,
        dtype=settings.dtype,
        strict=settings.strict,
        context_length=settings.context_length,
        report=report,
    )
    if not model.can_roll_back:
        raise BenchError(f"There is nothing to measure with this model. {model.mode_reason}")
    strict = model.mode == "strict"
    builder = PromptBuilder(model.tokenizer, model.context_length)
    return Workload(model, builder, strict, prompts, warmup)


def judge_for(workload: Workload) -> Verdict:
    """What a difference in greedy text means: in strict mode never allowed, else tie or bug."""
    return (lambda *_: "difference") if workload.strict else tie_or_bug(workload)


def tie_or_bug(workload: Workload) -> Verdict:
    """Whether rounding explains a difference in greedy text."""
    from lookahead.divergence import find_divergence

    def judge(request: BenchRequest, expected: Sequence[int], found: Sequence[int]) -> str:
        divergence = find_divergence(workload.model, request.prompt_ids, expected, found)
        return "tie" if divergence is not None and divergence.is_tie else "bug"

    return judge
