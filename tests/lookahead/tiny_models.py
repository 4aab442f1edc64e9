"""Random models small enough for hundreds of generations, in float64, where no ties occur."""

from dataclasses import replace
from functools import cache

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lookahead.learned import Learned
from lookahead.loaded_model import LoadedModel
from lookahead.loader import wrap_model

VOCAB_SIZE = 48
END_TOKEN_ID = 5
FAMILIES = ("llama", "qwen2", "gpt2")
WINDOWED_FAMILIES = (("mistral", "sdpa"), ("gemma2", "eager"), ("gemma3_text", "sdpa"))
FAMILIES_WITHOUT_TREES = ("bloom", "mamba", "llama4_text")

_SHARED = {"vocab_size": VOCAB_SIZE, "bos_token_id": 1, "eos_token_id": END_TOKEN_ID}
_SMALL = {"initializer_range": 0.4, **_SHARED}  # large: text that does not repeat one token
_ROTARY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 2,
    **_SMALL,
}
_WINDOW = {"sliding_window": 8, "head_dim": 8, "query_pre_attn_scalar": 8}
_SHAPES = {
    "llama": _ROTARY,
    "qwen2": _ROTARY,
    "qwen3": {**_ROTARY, "head_dim": 8},
    "mistral": {**_ROTARY, "sliding_window": 8},
    "gemma2": {**_ROTARY, **_WINDOW},
    "gemma3_text": {**_ROTARY, **_WINDOW},
    "phi3": {
        **_ROTARY,
        "original_max_position_embeddings": 32,
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1.0] * 4,
            "long_factor": [4.0] * 4,
            "rope_theta": 10_000.0,
            "factor": 8.0,
        },
    },
    "llama4_text": {
        **_ROTARY,
        "head_dim": 8,
        "attention_chunk_size": 32,
        "intermediate_size_mlp": 48,
        "num_local_experts": 2,
        "interleave_moe_layer_step": 10,
        "no_rope_layers": [1, 0],
    },
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, **_SMALL},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, **_SMALL},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, **_SMALL},
}


def tiny_model(family: str, attention: str = "sdpa", dtype: str = "float64") -> LoadedModel:
    """A wrapped random model; the same weights for the same arguments, nothing learned yet.

    What one test's answers taught would decide what is drafted in the next.
    """
    model = _wrapped(family, attention, dtype)
    return replace(
        model,
        learned=Learned.empty(model.vocab_size),
        find_strictness=lambda *_: model.strictness,  # measured once
    )


@cache
def _wrapped(family: str, attention: str, dtype: str) -> LoadedModel:
    return wrap_model(tiny_hf_model(family, attention, dtype))


def tiny_hf_model(family: str, attention: str, dtype: str) -> PreTrainedModel:
    """A fresh stock model with the weights of `tiny_model`."""
    torch.manual_seed(7)
    config = AutoConfig.for_model(family, **_SHAPES[family])
    choice = {} if family in FAMILIES_WITHOUT_TREES else {"attn_implementation": attention}
    model = AutoModelForCausalLM.from_config(config, **choice)
    return model.to(getattr(torch, dtype)).eval()
