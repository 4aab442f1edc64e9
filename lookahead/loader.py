"""Loading a model and finding out how it can be decoded here.

Gives the decode loop a `LoadedModel`: the stock library model, its tokenizer carried along, and
what the self-tests found. Measurements are kept in the `facts` that the caller lends.
"""

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.utils import logging as library_logging

from lookahead.adapter import ModelAdapter
from lookahead.embedded_model import EMBEDDED_MODEL_NAME
from lookahead.errors import InvalidRequestError, UnsupportedModeError
from lookahead.fingerprints import (
    model_fingerprint,
    runtime_fingerprint,
    tokenizer_fingerprint,
    weights_fingerprint,
)
from lookahead.known_facts import KnownFacts
from lookahead.learned import Learned
from lookahead.loaded_model import LoadedModel
from lookahead.model_source import Report, prepare_model
from lookahead.packed_weights import Packing, pack_weights
from lookahead.self_test import max_tree_error, row_cost_ratio, tree_error
from lookahead.strictness import find_strictness

__all__ = [
    "choose_device",
    "end_token_ids_of",
    "load_model",
    "load_tokenizer",
    "longest_context",
    "wrap_model",
]

_logger = logging.getLogger(__name__)

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_DTYPES["float64"] = torch.float64
# bf16 on a CPU pays while 16 rows cost at most twice one: in fp32 one row costs that already, and
# 16 of packed bf16 cost 1.4 (1.46 on a busy machine), so that the load does not choose the dtype.
_MAX_ROW_COST_RATIO = 2.0


def load_model(
    name: str | Path = EMBEDDED_MODEL_NAME,
    *,
    device: str = "auto",
    dtype: str = "auto",
    strict: bool | None = None,
    context_length: int | None = None,
    attention: str | None = None,
    packed: bool = True,
    report: Report | None = None,
    facts: MutableMapping[str, str] | None = None,
) -> LoadedModel:
    """Load a model and test what it can do here.

    Args:
        name: a folder, a name on a model hub, or "smollm2-135m", the embedded model.
        device: "auto", "cuda", "mps" or "cpu".
        dtype: "auto", "float32", "bfloat16", "float16" or "float64".
        strict: True: bit for bit plain decoding's text; False: any width; None: strict where rows
            are nearly free (bf16 and fp16), else flexible.
        context_length: tokens of context at most; None: all the model has.
        attention: the library's attention, "sdpa" or "eager"; None: what it prefers. Strict mode
            needs "sdpa".
        packed: on a CPU, lay the weights out for its kernels where that is possible; `hf_model` is
            for inference there then.
        report: told in sentences what takes long.
        facts: where measurements are found and kept; None: a file in the cache folder.

    Raises:
        ModelNotFoundError: no such folder or model.
        ModelSetupError: the embedded model could not be set up.
        UnsupportedModeError: strict mode was asked for and is not possible; the message says why.
        InvalidRequestError: an unknown device or dtype.
    """
    report = report or _logger.info
    facts = KnownFacts() if facts is None else facts
    path = prepare_model(name, report)
    chosen_device = choose_device(device)
    weights = weights_fingerprint(path)
    report("Loading the tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(path)
    report("Loading the weights")
    hf_model, packing = _load_weights(
        *(path, chosen_device, dtype),
        attention=attention,
        packed=packed and chosen_device.type == "cpu",
        weights=weights,
        facts=facts,
    )
    model = _describe(hf_model, tokenizer, path, str(name), context_length)
    fingerprint = runtime_fingerprint(weights, model.dtype, chosen_device, packing)
    model = replace(
        model,
        fingerprint=fingerprint,
        is_packed=packing is not Packing.NONE,
        model_fingerprint=model_fingerprint(weights, model.dtype),
        find_strictness=partial(
            find_strictness,
            has_stock_weights=packing is not Packing.OTHER_BITS,
            fingerprint=fingerprint,
            facts=facts,
            report=report,
        ),
    )
    return _choose_mode(model, strict, report)


def load_tokenizer(
    name: str | Path, report: Report | None = None, *, may_download: bool = True
) -> Tokenizer:
    """The tokenizer of a model, without its weights. Raises as `load_model` does for its name."""
    path = prepare_model(
        name, report or _logger.info, may_download=may_download, with_weights=False
    )
    return AutoTokenizer.from_pretrained(path)


def wrap_model(
    hf_model: PreTrainedModel, *, strict: bool | None = False, mode: str | None = None
) -> LoadedModel:
    """A model that the caller has loaded, ready to decode.

    Args:
        hf_model: a stock causal language model.
        strict: as in `load_model`.
        mode: what an earlier call found out about it; None: it is tested.

    Raises:
        UnsupportedModeError: strict mode was asked for and is not possible.
    """
    hf_model.eval()  # type: ignore[no-untyped-call]
    path = hf_model.name_or_path or ""
    model = _describe(hf_model, None, Path(path), path, None)
    if mode is not None:
        return replace(model, mode=mode)
    return _choose_mode(model, strict, _logger.info)


def _describe(
    hf_model: PreTrainedModel,
    tokenizer: Tokenizer | None,
    path: Path,
    name: str,
    context_length: int | None,
) -> LoadedModel:
    config = hf_model.config.get_text_config(decoder=True)
    longest = longest_context(config)
    vocab_size = int(config.vocab_size)
    return LoadedModel(
        hf_model=hf_model,
        tokenizer=tokenizer,
        path=path,
        name=name,
        adapter=ModelAdapter(hf_model),
        context_length=min(longest, context_length) if context_length else longest,
        end_token_ids=end_token_ids_of(hf_model.generation_config, tokenizer),
        mode="flexible",
        mode_reason="",
        find_strictness=find_strictness,
        fingerprint="",
        model_fingerprint="",
        tokenizer_fingerprint=tokenizer_fingerprint(tokenizer) if tokenizer else "",
        vocab_size=vocab_size,
        learned=Learned.empty(vocab_size),
    )


def choose_device(device: str) -> torch.device:
    """The device of a name, "auto" included. Raises InvalidRequestError for an unknown one."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise InvalidRequestError(
            f"The device {device!r} cannot be used here ({error}). Use auto or cpu."
        ) from error
    return chosen


def _load_weights(
    path: Path,
    device: torch.device,
    dtype: str,
    *,
    attention: str | None,
    packed: bool,
    weights: str,
    facts: MutableMapping[str, str],
) -> tuple[PreTrainedModel, Packing]:
    """Load in the dtype asked for; "auto" on a CPU tries bf16 and keeps it where rows are cheap."""

    def load(chosen: torch.dtype) -> tuple[PreTrainedModel, Packing]:
        with _no_progress_bar():
            hf_model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                path, dtype=chosen, attn_implementation=attention
            )
        torch.nn.Module.to(hf_model, device)
        if not packed:
            return hf_model, Packing.NONE
        return hf_model, pack(hf_model, f"packing:{runtime_fingerprint(weights, chosen, device)}")

    def pack(hf_model: PreTrainedModel, key: str) -> Packing:
        known = next((known for known in Packing if known.value == facts.get(key)), None)
        found = pack_weights(hf_model, known)
        if known is None:
            facts[key] = found.value
        return found

    if dtype != "auto":
        if dtype not in _DTYPES:
            raise InvalidRequestError(f"The dtype {dtype!r} is none of auto, {', '.join(_DTYPES)}.")
        return load(_DTYPES[dtype])
    if device.type != "cpu":
        can_bf16 = device.type != "cuda" or torch.cuda.is_bf16_supported()
        return load(torch.bfloat16 if can_bf16 else torch.float16)
    if not _cpu_multiplies_bf16():
        return load(torch.float32)
    wanted = Packing.SAME_BITS if packed else Packing.NONE
    fingerprint = runtime_fingerprint(weights, torch.bfloat16, device, wanted)
    key = f"row_cost_ratio_in_processor_time:{fingerprint}"
    known = _number(facts.get(key))
    if known is not None and known > _MAX_ROW_COST_RATIO:
        return load(torch.float32)
    hf_model, packing = load(torch.bfloat16)
    if known is None:
        adapter = ModelAdapter(hf_model)
        vocab_size = int(hf_model.config.get_text_config(decoder=True).vocab_size)
        ratio = row_cost_ratio(adapter, vocab_size, 16)
        facts[key] = f"{ratio:.3f}"
        _logger.info("16 rows cost %.2f times one row in bf16", ratio)
        if ratio > _MAX_ROW_COST_RATIO:
            return load(torch.float32)
    return hf_model, packing


def _number(text: str | None) -> float | None:
    """A measured number; None where it is unknown or damaged."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """The library draws a bar on the terminal; our callers are told in sentences instead."""
    was_on = library_logging.is_progress_bar_enabled()
    library_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if was_on:
            library_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _cpu_multiplies_bf16() -> bool:
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def longest_context(config: PretrainedConfig) -> int:
    """Tokens of prompt and answer together that a model's text configuration allows."""
    return int(getattr(config, "max_position_embeddings", None) or 4096)


def end_token_ids_of(
    generation_config: GenerationConfig | None, tokenizer: Tokenizer | None
) -> frozenset[int]:
    """Tokens that end an answer: those of the generation settings, else the tokenizer's."""
    ends = generation_config.eos_token_id if generation_config else None
    if ends is None and tokenizer is not None:
        ends = tokenizer.eos_token_id
    if ends is None:
        return frozenset()
    return frozenset([ends] if isinstance(ends, int) else ends)


def _choose_mode(model: LoadedModel, strict: bool | None, report: Report) -> LoadedModel:
    """Test trees, then strict rows where they are asked for or nearly free."""
    report("Testing how this model can be decoded here")
    problem = _tree_problem(model)
    if problem:
        return _refuse_or(model, strict, mode="plain", reason=problem)
    wants_strict = model.dtype.itemsize < 4 if strict is None else strict
    if not wants_strict:
        reason = "Flexible mode: equal to plain decoding up to numerical ties."
        return replace(model, mode_reason=reason)
    strictness = model.strictness
    if strictness.problem:
        return _refuse_or(model, strict, mode="flexible", reason=strictness.problem)
    reason = "Strict mode: bit for bit the text of plain decoding" + (
        ", and of the library's own generate()." if strictness.is_stock else "."
    )
    known = replace(model, find_strictness=lambda *_: strictness)  # measured once
    return replace(known, mode="strict", mode_reason=reason)


def _refuse_or(model: LoadedModel, strict: bool | None, mode: str, reason: str) -> LoadedModel:
    if strict:
        raise UnsupportedModeError(f"Strict mode is not possible with this model here: {reason}")
    return replace(model, mode=mode, mode_reason=reason)


def _tree_problem(model: LoadedModel) -> str:
    """Why drafts cannot be verified with this model; empty if they can."""
    unknown = model.adapter.unknown_layer_kinds
    if unknown:
        return f"Plain decoding only: this model has layers of an unknown kind ({unknown[0]})."
    try:
        error = tree_error(model.adapter, model.vocab_size)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as caught:
        _logger.info("the tree test failed", exc_info=True)
        return f"Plain decoding only: this model family takes no token tree ({caught})."
    if error > max_tree_error(model.dtype):
        return f"Plain decoding only: this model's logits over a tree are off by {error:.1e}."
    return ""
