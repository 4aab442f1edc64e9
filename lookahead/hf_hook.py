"""Lookahead decoding inside the library's own `generate()`.

    hf_model.generate(**inputs, max_new_tokens=64, custom_generate=lookahead.generate_hf, trie=trie)

The library prepares inputs, logits processors and stopping criteria; our loop asks them as its own
loop does, once per token along the true path. Processors are asked for a whole accepted branch
before the criteria are: where these end the answer inside it, those have seen a few tokens more.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteriaList
from transformers.generation.utils import GenerateDecoderOnlyOutput

from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.decoding import generate
from lookahead.errors import InvalidRequestError
from lookahead.events import Finished
from lookahead.learned import Learned
from lookahead.loaded_model import LoadedModel
from lookahead.loader import wrap_model
from lookahead.trie import Trie

__all__ = ["generate_hf"]

# What each model in memory can do, so that it is tested once. Holds no model alive.
_known_modes: WeakKeyDictionary[PreTrainedModel, str] = WeakKeyDictionary()


_NOT_RETURNED = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")


def generate_hf(
    model: PreTrainedModel,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    trie: Trie | None = None,
    seed: int | None = None,
    on_tokens: Callable[[Sequence[int]], None] | None = None,
    learned: Learned | None = None,
    **model_kwargs: Any,
) -> torch.Tensor | GenerateDecoderOnlyOutput:
    """Continue one prompt `[1, length]`; returns `[1, length + new]`, as `generate()` does.

    Runs in flexible mode: greedy text equals the library's up to numerical ties. Sampled text
    depends on the seed alone, drafting or not, and differs from the library's, which draws its
    noise another way. `streamer=` and `stop_strings=` cannot reach it, since the library keeps them
    from a custom generate: use `on_tokens`, and stopping criteria of your own.

    Args:
        trie: drafts from it and adds the sequence to it; None: a Trie of this call's own.
        seed: of the sampling noise; None: one is drawn.
        on_tokens: told of the tokens of every forward as they come.
        learned: what drafting learns, to be kept from call to call; None: this call's own.

    Raises:
        InvalidRequestError: several prompts, padding, beams, outputs beside the ids, a cache that
            holds tokens.
    """
    _check(input_ids, generation_config, model_kwargs)
    loaded = _wrap(model)
    prompt_ids = input_ids[0].tolist()
    sampling = SamplingConfig()
    if generation_config.do_sample:
        # The library's own temperature is among the processors.
        sampling = SamplingConfig(temperature=1.0, seed=seed)

    def process_logits(prefix: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        ids = torch.tensor([list(prefix)], device=logits.device)
        scores: torch.Tensor = logits_processor(ids, logits[None].float().clone())[0]  # type: ignore[arg-type]
        return scores

    def stop(token_ids: Sequence[int]) -> int | None:
        ids = torch.tensor([[*prompt_ids, *token_ids]], device=input_ids.device)
        return len(token_ids) if bool(stopping_criteria(ids, None).any()) else None

    new_ids: tuple[int, ...] = ()
    for event in generate(
        loaded,
        prompt_ids,
        trie=Trie() if trie is None else trie,
        decoding=DecodingConfig(max_new_tokens=generation_config.max_length - len(prompt_ids)),
        sampling=sampling,
        learned=learned,
        process_logits=process_logits if len(logits_processor) else None,
        stop=stop,
    ):
        if isinstance(event, Finished):
            new_ids = event.token_ids
        elif on_tokens is not None:
            on_tokens(event.token_ids)
    new = torch.tensor([new_ids], dtype=input_ids.dtype, device=input_ids.device)
    sequences = torch.cat([input_ids, new], dim=1)
    if generation_config.return_dict_in_generate:
        return GenerateDecoderOnlyOutput(sequences=sequences)  # type: ignore[arg-type]
    return sequences


def _wrap(model: PreTrainedModel) -> LoadedModel:
    """The model, tested once; without end tokens of its own: the stopping criteria know them."""
    wrapped = wrap_model(model, mode=_known_modes.get(model))
    _known_modes[model] = wrapped.mode
    return replace(wrapped, end_token_ids=frozenset())


def _check(
    input_ids: torch.Tensor, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
) -> None:
    if input_ids.shape[0] != 1:
        raise InvalidRequestError("Lookahead decoding takes one prompt at a time, not a batch.")
    if (generation_config.num_beams or 1) > 1:
        raise InvalidRequestError("Lookahead decoding has no beam search: leave num_beams at 1.")
    wanted = [name for name in _NOT_RETURNED if getattr(generation_config, name, False)]
    if wanted:
        raise InvalidRequestError(f"Lookahead decoding returns no {wanted[0][len('output_') :]}.")
    mask = model_kwargs.get("attention_mask")
    if mask is not None and not bool(mask.bool().all()):
        raise InvalidRequestError("The prompt holds padding: pass it without.")
    cache = model_kwargs.get("cache", model_kwargs.get("past_key_values"))
    if cache is not None and cache.get_seq_length():
        raise InvalidRequestError(
            "The cache holds tokens already: pass the whole prompt, no cache."
        )
