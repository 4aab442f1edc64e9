"""Random models small enough for hundreds of generations, in float64, where no ties occur."""

from functools import cache

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from lookahead.loaded_model import LoadedModel
from lookahead.loader import wrap_model

VOCAB_SIZE = 48
END_TOKEN_ID = 5
FAMILIES = ("llama", "qwen2", "gpt2")

_SHARED = {"vocab_size": VOCAB_SIZE, "bos_token_id": 1, "eos_token_id": END_TOKEN_ID}
_ROTARY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.4,  # large enough for text that does not repeat one token
    "pad_token_id": 2,
    **_SHARED,
}


@cache
def tiny_model(family: str, attention: str = "sdpa", dtype: str = "float64") -> LoadedModel:
    """A wrapped random model; the same weights for the same arguments."""
    return wrap_model(tiny_hf_model(family, attention, dtype))


def tiny_hf_model(family: str, attention: str, dtype: str) -> PreTrainedModel:
    """A fresh stock model with the weights of `tiny_model`."""
    torch.manual_seed(7)
    if family == "llama":
        model = LlamaForCausalLM._from_config(LlamaConfig(**_ROTARY), attn_implementation=attention)
    elif family == "qwen2":
        model = Qwen2ForCausalLM._from_config(Qwen2Config(**_ROTARY), attn_implementation=attention)
    else:
        config = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=256, **_SHARED)
        config.initializer_range = 0.4
        model = GPT2LMHeadModel._from_config(config, attn_implementation=attention)
    return model.to(getattr(torch, dtype)).eval()
