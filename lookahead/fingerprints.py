"""Short names for what measurements and Tries depend on: weights, tokenizer, machine.

Two models share a Trie when their tokenizer fingerprints agree; what was learned of a model's words
is used again when the model fingerprint does, a measurement when the run-time fingerprint does.
Called by the loader.
"""

import hashlib
import json
from pathlib import Path

import torch
import transformers
from transformers import PreTrainedTokenizerBase

from lookahead.packed_weights import Packing

__all__ = [
    "model_fingerprint",
    "runtime_fingerprint",
    "tokenizer_fingerprint",
    "weights_fingerprint",
]

_SAMPLE_BYTES = 1 << 20
_WEIGHT_SUFFIXES = {".safetensors", ".bin", ".gguf"}


def weights_fingerprint(folder: Path) -> str:
    """Configuration and weight files of a model folder: sizes, and the first and last mebibyte."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name != "config.json" and path.suffix not in _WEIGHT_SUFFIXES:
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, size - _SAMPLE_BYTES))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Vocabulary, merges, added tokens and normaliser: what decides which ids a text becomes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # Truncation and padding are settings of the last call, not of the tokenizer.
        parts = json.loads(backend.to_str())
        described = {key: parts[key] for key in sorted(parts) if key not in _CALL_SETTINGS}
    else:
        described = {"vocabulary": sorted(tokenizer.get_vocab().items())}
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


_CALL_SETTINGS = ("truncation", "padding")


def model_fingerprint(weights: str, dtype: torch.dtype) -> str:
    """What decides a forward up to rounding: the same on every machine and in every version."""
    return hashlib.sha256(f"{weights} | {dtype}".encode()).hexdigest()[:16]


def runtime_fingerprint(
    weights: str, dtype: torch.dtype, device: torch.device, packing: Packing = Packing.NONE
) -> str:
    """What decides bits and speed of a forward besides its input."""
    processor = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"{torch.backends.cpu.get_cpu_capability()} {_cpu_name()}"
    )
    parts = (
        weights,
        dtype,
        device.type,
        processor,
        torch.get_num_threads(),
        torch.__version__,
        transformers.__version__,
        *(() if packing is Packing.NONE else (packing.value,)),
    )
    return hashlib.sha256(" | ".join(map(str, parts)).encode()).hexdigest()[:16]


def _cpu_name() -> str:
    return str(torch.cpu.get_capabilities().get("cpu_name", ""))
