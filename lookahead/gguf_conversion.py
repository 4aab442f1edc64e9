"""Turn a GGUF file into a folder that loads in a second: safetensors, tokenizer, chat template.

Knows nothing of where the file came from. Called by the embedded model's set-up.

transformers de-quantises a GGUF file anew at each load, and refuses to save the result, since its
config says "quantized". So the weights go into a fresh model built from the config without that
entry, and that one is saved, in fp32: no smaller dtype holds every value.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from lookahead.model_folder import new_model_folder

__all__ = ["convert_gguf"]

_logger = logging.getLogger(__name__)


def convert_gguf(gguf_path: Path, folder: Path, report: Callable[[str], None]) -> None:
    """Convert `gguf_path` into `folder`, which appears complete or not at all.

    Args:
        gguf_path: the GGUF file; it is only read.
        folder: where the model goes.
        report: told what is being done, one sentence a time.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    source: dict[str, Any] = {"gguf_file": gguf_path.name}
    with new_model_folder(folder) as temporary:
        report("Converting the model (once): reading the tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(gguf_path.parent, **source)
        tokenizer.save_pretrained(temporary)
        report("Converting the model (once): reading the weights, about half a minute")
        loaded = AutoModelForCausalLM.from_pretrained(
            gguf_path.parent, dtype=torch.float32, **source
        )
        report("Converting the model (once): writing them as safetensors")
        values = loaded.config.to_dict()
        values.pop("quantization_config", None)
        model = type(loaded)(type(loaded.config).from_dict(values))
        model.load_state_dict(loaded.state_dict())
        model.generation_config = loaded.generation_config
        try:
            model.save_pretrained(temporary)
        except SafetensorError as error:
            raise OSError(f"the weights could not be written: {error}") from error
    _logger.info("converted %s to %s", gguf_path.name, folder)
