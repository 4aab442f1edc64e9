"""The conversion loses nothing: a small GGUF file, made here, and the embedded model."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lookahead.gguf_conversion import convert_gguf
from lookahead.model_folder import is_whole

HIDDEN, FEED_FORWARD, NUM_HEADS, NUM_LAYERS = 64, 96, 4, 2
TEMPLATE = "{% for message in messages %}{{ message['content'] + '<|end|>' }}{% endfor %}"


def write_gguf(path: Path) -> None:
    """A Llama of two layers, its matrices in Q8_0, with a byte-level vocabulary."""
    generator = np.random.default_rng(0)
    tokens = ["<|start|>", "<|end|>", *bytes_to_unicode(), "th", "Ġth"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(NUM_LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges(["t h", "Ġ th"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)

    def add(name: str, *shape: int) -> None:
        values = generator.normal(0, 0.2, shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, 1 + values)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", len(tokens), HIDDEN)
    add("output_norm.weight", HIDDEN)
    for layer in range(NUM_LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}.weight", HIDDEN)
        for name, rows in {"attn_q": 64, "attn_k": 32, "attn_v": 32, "attn_output": 64}.items():
            add(f"blk.{layer}.{name}.weight", rows, HIDDEN)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}.weight", FEED_FORWARD, HIDDEN)
        add(f"blk.{layer}.ffn_down.weight", HIDDEN, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def bytes_to_unicode() -> list[str]:
    """The visible characters that stand for the 256 bytes in GPT-2's vocabulary."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = (chr(256 + index) for index in range(256 - len(visible)))
    return [chr(byte) if byte in visible else next(shifted) for byte in range(256)]


@pytest.mark.tiny
def test_a_converted_model_is_the_same_model(tmp_path: Path) -> None:
    gguf_path, folder = tmp_path / "tiny.gguf", tmp_path / "converted"
    write_gguf(gguf_path)
    reports: list[str] = []
    convert_gguf(gguf_path, folder, reports.append)
    assert is_whole(folder)
    assert len(reports) == 3

    source: dict[str, Any] = {"gguf_file": gguf_path.name}
    original = AutoModelForCausalLM.from_pretrained(tmp_path, **source)
    converted = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True)
    assert getattr(converted.config, "quantization_config", None) is None
    state, converted_state = original.state_dict(), converted.state_dict()
    assert state.keys() == converted_state.keys()
    assert all(torch.equal(state[name], converted_state[name]) for name in state)
    token_ids = torch.arange(2, 40)[None]
    with torch.inference_mode():
        assert torch.equal(original(token_ids).logits, converted(token_ids).logits)
    assert converted.generation_config.eos_token_id == 1

    tokenizer = AutoTokenizer.from_pretrained(tmp_path, **source)
    converted_tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = "the  thé\n\t<|end|> 漢字 🙂 "
    text_ids = tokenizer.encode(text)
    assert converted_tokenizer.encode(text) == text_ids
    assert converted_tokenizer.decode(text_ids) == tokenizer.decode(text_ids)
    assert converted_tokenizer.chat_template == TEMPLATE
    assert converted_tokenizer.eos_token_id == tokenizer.eos_token_id == 1


def test_the_embedded_model_has_what_chatting_needs(embedded_model_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_path, local_files_only=True)
    messages = [{"role": "user", "content": "Hi"}]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert len(tokenizer) == 49_152
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") == tokenizer.eos_token_id == 2
