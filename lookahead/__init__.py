"""Lookahead decoding: token ids in, several token ids a forward out, the text unchanged.

    model = lookahead.load_model("smollm2-135m")
    trie = lookahead.Trie()
    for event in lookahead.generate(model, prompt_ids, trie=trie): ...

Importing this package imports no torch; the names that need it are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lookahead.config import DecodingConfig, SamplingConfig
from lookahead.draft import DraftTree, TokenSource
from lookahead.events import Finished, FinishReason, GenerationStats, PrefillDone, StepDone
from lookahead.trie import Trie

if TYPE_CHECKING:
    from lookahead.decoding import generate
    from lookahead.hf_hook import generate_hf
    from lookahead.loaded_model import LoadedModel
    from lookahead.loader import load_model
    from lookahead.session import Session

__all__ = [
    "DecodingConfig",
    "DraftTree",
    "FinishReason",
    "Finished",
    "GenerationStats",
    "LoadedModel",
    "PrefillDone",
    "SamplingConfig",
    "Session",
    "StepDone",
    "TokenSource",
    "Trie",
    "generate",
    "generate_hf",
    "load_model",
]

_LOADED_ON_USE = {
    "LoadedModel": "lookahead.loaded_model",
    "Session": "lookahead.session",
    "generate": "lookahead.decoding",
    "generate_hf": "lookahead.hf_hook",
    "load_model": "lookahead.loader",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_ON_USE[name]), name)
