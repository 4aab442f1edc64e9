"""The suite `replay`: every drafter over the recorded answers of the prompts, and what it is worth.

Records what is missing, which takes the model; all else takes none. Called by `app.bench`.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import paths
from app.bench.charts import draw_reliability_chart, draw_replay_chart
from app.bench.cost_curves import (
    FLAT,
    RECORDED_CURVES,
    CostCurve,
    known_curve,
    measure_curve,
)
from app.bench.errors import BenchError
from app.bench.options import BenchOptions
from app.bench.prompt_sets import OWN_PROMPTS, PromptSet, read_prompts
from app.bench.recordings import Recording, RecordingKey, RecordingStore, prompt_digest
from app.bench.replay import RecordedPrompt, ReplayResult, ReplaySetting, replay
from app.bench.replay_report import replay_figures, replay_rows, replay_tables
from app.bench.reports import SuiteReport
from app.bench.statistics import loop_length
from app.bench.workload import chat_requests, describe_prompts
from app.prompting import PromptBuilder
from lookahead import drafters
from lookahead.config import DecodingConfig
from lookahead.drafters.protocol import Learner
from lookahead.embedded_model import EMBEDDED_MODEL_NAME
from lookahead.known_facts import KnownFacts
from lookahead.learned import Learned
from lookahead.successors import SuccessorFormatError, SuccessorTable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from lookahead import LoadedModel

__all__ = ["replay_all", "run_replay_suite"]

WIDTHS = (4, 8, 16, 32, 64)
_DTYPE = "float32"  # of the recordings: where rounding decides least
# `specbench-dev.jsonl`, its answers of 256 tokens: what tokens per step were promised for.
_PROMISED_PROMPTS = "c08848d9ff460c99ecd3a29ee88e47dcdd2e3d8ed3e8ce827f5e129ba11684ee"
_PROMISED_LENGTH = 256
_NOT_SIMULATED = (
    "A replay knows nothing of what the model thought behind rejected tokens, so drafters that "
    "recycle verified rows get fewer tokens a step than live (see docs/lab-log.md)."
)

Report = Callable[[str], None]


def run_replay_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Record, replay, report; of an interrupted run what was finished.

    Raises:
        PromptSetError: the file of prompts cannot be used.
        BenchError: the model cannot be recorded, or the recordings cannot be kept.
        LookaheadError: the model cannot be loaded.
        KeyboardInterrupt: nothing was replayed yet.
    """
    prompt_set = read_prompts(options.prompts or OWN_PROMPTS).of(options.categories)
    prompt_set = prompt_set.limited(options.num_prompts)
    recorder = _PromptRecorder(options, report)
    prompts, notes = _recorded_prompts(recorder, prompt_set)
    needs_table = not options.drafters or "trie" in options.drafters
    primed = recorder.primed_successors() if needs_table else None
    curves, titles_without = _curves(options, report)
    notes += [
        f"{title}: not known for this model, --measure-costs measures it."
        for title in titles_without
    ]
    names = options.drafters or tuple(drafters.names())
    results: list[ReplayResult] = []
    is_interrupted = False
    try:
        for result in replay_all(names, prompts, options.answer_length, WIDTHS, primed):
            results.append(result)
            report(f"Replayed {result.drafter} at width {result.setting.width}")
    except KeyboardInterrupt:
        if not results:
            raise
        is_interrupted = True
        notes.append("The run was interrupted: some drafters and widths are missing.")
    num_tokens = sum(prompt.num_tokens for prompt in results[0].prompts)
    return SuiteReport(
        suite="replay",
        options=_describe(options, prompt_set, len(prompts), num_tokens),
        tables=replay_tables(results, curves),
        figures=replay_figures(results, curves, is_promised=_is_promised(options, prompt_set)),
        rows=replay_rows(results),
        notes=[*notes, _NOT_SIMULATED, *(f"{c.title}: {c.source}" for c in curves)],
        extra={
            "prompts": [{"id": prompt.id, "category": prompt.category} for prompt in prompts],
            "curves": [
                {"name": curve.name, "source": curve.source, "milliseconds": curve.milliseconds}
                for curve in curves
            ],
        },
        is_complete=not is_interrupted,
        is_interrupted=is_interrupted,
        draw=lambda folder: [
            *draw_replay_chart(results, folder),
            *draw_reliability_chart(results, folder),
        ],
    )


def replay_all(
    names: Sequence[str],
    prompts: Sequence[RecordedPrompt],
    max_new_tokens: int,
    widths: Sequence[int],
    primed: SuccessorTable | None = None,
) -> Iterator[ReplayResult]:
    """Every drafter at every width, cold and with history; those that read rows also with the
    prompt's, ours also with a primed table.
    """
    vocab_size = prompts[0].recording.model.vocab_size
    for name in names:
        make = partial(drafters.make, name, vocab_size=vocab_size)
        kinds = [(False, False)]  # with prompt rows, primed
        if make().reads_rows:
            kinds.append((True, False))
        if name == "trie" and primed is not None:
            kinds.append((False, True))
        # Published drafters run as published, ours as the product runs it.
        depth = DecodingConfig().max_draft_depth if name in drafters.OURS else None
        for width, is_cold, (with_rows, is_primed) in product(widths, (True, False), kinds):
            setting = ReplaySetting(width, is_cold, with_rows, max_new_tokens, depth, is_primed)
            make_one = make
            if is_primed and primed is not None:
                make_one = partial(_make_primed, make, primed)
            yield replay(name, prompts, make_one, setting)


def _make_primed(make: Callable[..., Learner], primed: SuccessorTable) -> Learner:
    learned = Learned.empty(primed.vocab_size)
    learned.successors = copy.deepcopy(primed)
    return make(learned=learned)


def _is_promised(options: BenchOptions, prompt_set: PromptSet) -> bool:
    """Whether tokens per step were promised for this run: all the prompts, the embedded model."""
    return (
        prompt_set.sha256 == _PROMISED_PROMPTS
        and options.num_prompts is None
        and options.answer_length == _PROMISED_LENGTH
        and _is_embedded(options.settings.model)
    )


def _is_embedded(model: str | Path) -> bool:
    """By its name or its folder's, which is the same."""
    return Path(model).name == EMBEDDED_MODEL_NAME


def _recorded_prompts(
    recorder: "_PromptRecorder", prompt_set: PromptSet
) -> tuple[list[RecordedPrompt], list[str]]:
    """The prompts in the order of the set, with their recordings, and notes on them."""
    notes: list[str] = []
    requests = chat_requests(recorder.builder, prompt_set, notes)
    recordings = recorder.recordings([request.prompt_ids for request in requests])
    prompts = []
    for request in requests:
        recording = recordings[prompt_digest(request.prompt_ids)]
        ends = recording.model.end_token_ids
        is_looping = loop_length([i for i in recording.answer_ids if i not in ends]) > 0
        prompt = request.prompt
        prompts.append(RecordedPrompt(prompt.id, prompt.category, recording, is_looping))
    num_looping = sum(prompt.is_looping for prompt in prompts)
    notes.append(f"{num_looping} of {len(prompts)} answers end in an exact loop.")
    return prompts, notes


class _PromptRecorder:
    """Prompts as the model sees them, and their recordings; the weights are loaded if need be."""

    def __init__(self, options: BenchOptions, report: Report) -> None:
        import torch
        import transformers
        from transformers import AutoConfig, AutoTokenizer

        from lookahead.fingerprints import weights_fingerprint
        from lookahead.loader import choose_device, longest_context
        from lookahead.model_source import prepare_model

        path = prepare_model(options.settings.model, report)
        config = AutoConfig.from_pretrained(path).get_text_config(decoder=True)
        tokenizer = AutoTokenizer.from_pretrained(path)
        self.builder = PromptBuilder(tokenizer, longest_context(config))
        self._options = options
        self._report = report
        key = RecordingKey(
            weights_fingerprint(path),
            _DTYPE,
            options.answer_length,
            device=choose_device(options.settings.device).type,
            torch_version=str(torch.__version__),
            transformers_version=transformers.__version__,
            end_token_ids=_end_token_ids(path, tokenizer),
        )
        self._store = RecordingStore(paths.cache_dir() / "bench" / "recordings", key)

    def recordings(self, prompts: Sequence[tuple[int, ...]]) -> dict[str, Recording]:
        """Those kept, and what is missing recorded now. Raises BenchError where that fails."""
        found = self._store.load(self._report)
        if all(prompt_digest(ids) in found for ids in prompts):
            return found
        from app.bench.recording import record_missing

        model = _load(self._options, _DTYPE, strict=False, report=self._report)
        if not model.can_roll_back:
            raise BenchError(f"There is nothing to replay with this model. {model.mode_reason}")
        try:
            return record_missing(
                model,
                prompts,
                self._store,
                max_new_tokens=self._options.answer_length,
                report=self._report,
            )
        except OSError as error:
            raise BenchError(
                f"The recordings cannot be kept: {error}. Make room in the cache folder, or name "
                "another with LOOKAHEAD_CHAT_CACHE_DIR."
            ) from error

    def primed_successors(self) -> SuccessorTable:
        """The table primed as the app does it, kept beside the recordings."""
        path = self._store.folder / "primed.successors"
        try:
            return SuccessorTable.from_bytes(path.read_bytes())
        except (OSError, SuccessorFormatError):
            self._report("Priming the table of successors, which takes minutes without a GPU")
        from lookahead.priming import prime

        model = _load(self._options, _DTYPE, strict=False, report=self._report)
        table = SuccessorTable(model.vocab_size)
        for _ in prime(model, table, self.builder.answer_header_ids()):
            pass
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(table.to_bytes())
        except OSError as error:
            raise BenchError(f"The primed table cannot be kept: {error}.") from error
        return table


def _end_token_ids(path: Path, tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """As loading the weights would find them."""
    from transformers import AutoConfig, GenerationConfig

    from lookahead.loader import end_token_ids_of

    if (path / "generation_config.json").is_file():
        generation_config = GenerationConfig.from_pretrained(path)
    else:
        generation_config = GenerationConfig.from_model_config(AutoConfig.from_pretrained(path))
    return tuple(sorted(end_token_ids_of(generation_config, tokenizer)))


def _load(
    options: BenchOptions, dtype: str, *, strict: bool | None, report: Report
) -> "LoadedModel":
    """With the whole context, whatever the settings say: a recording is of the model alone."""
    import lookahead

    settings = options.settings
    return lookahead.load_model(
        settings.model, device=settings.device, dtype=dtype, strict=strict, report=report
    )


def _curves(options: BenchOptions, report: Report) -> tuple[list[CostCurve], list[str]]:
    """The curves of both modes on a CPU, measured where that was asked for, and the flat one; with
    the titles of those that are not known for this model.
    """
    import torch

    from lookahead.fingerprints import runtime_fingerprint, weights_fingerprint
    from lookahead.model_source import prepare_model
    from lookahead.packed_weights import Packing

    facts = KnownFacts()
    curves: list[CostCurve] = []
    titles_without = []
    weights = weights_fingerprint(prepare_model(options.settings.model, report))
    modes = (("float32", torch.float32, False), ("bfloat16", torch.bfloat16, True))
    for recorded, (name, dtype, strict) in zip(RECORDED_CURVES, modes, strict=True):
        fingerprints = [
            runtime_fingerprint(weights, dtype, torch.device("cpu"), packing)
            for packing in reversed(Packing)
        ]
        is_embedded = _is_embedded(options.settings.model)
        curve = known_curve(recorded, facts, fingerprints, is_embedded=is_embedded)
        if options.measure_costs:
            model = _load(_on_cpu(options), name, strict=None, report=report)
            if strict and model.mode != "strict":
                report(f"{recorded.title} is not measured. {model.mode_reason}")
            else:
                report(f"Measuring {recorded.title}")
                curve = measure_curve(model, recorded, facts, strict=strict)
        if curve is None:
            titles_without.append(recorded.title)
        else:
            curves.append(curve)
    return [*curves, FLAT], titles_without


def _on_cpu(options: BenchOptions) -> BenchOptions:
    return replace(options, settings=replace(options.settings, device="cpu"))


def _describe(
    options: BenchOptions, prompt_set: PromptSet, num_prompts: int, num_tokens: int
) -> dict[str, Any]:
    """What the report says about the run, without paths."""
    return {
        "model": Path(options.settings.model).name,
        "recorded_in": _DTYPE,
        **describe_prompts("prompts", prompt_set),
        "num_prompts": num_prompts,
        "num_tokens": num_tokens,
        "max_new_tokens": options.answer_length,
    }
