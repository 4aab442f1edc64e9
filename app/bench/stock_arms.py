"""The arms that are not ours: the library's own `generate()`, its prompt lookup, llama.cpp.

The library's arms run a model loaded apart, with nothing of ours in it but the weights' values.
"""

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.bench.arms import ArmResult, BenchRequest, Clock, TokenWatch
from app.bench.errors import BenchError

if TYPE_CHECKING:
    from lookahead import LoadedModel

__all__ = ["LlamaArm", "StockArm", "has_llama", "load_stock_model"]

_LOOKUP_LENGTH = 10  # prompt_lookup_num_tokens, the library's documented example


def load_stock_model(model: "LoadedModel") -> Any:
    """A stock model beside ours: same files, dtype, device, attention, and the very same weights.

    Those that ours has laid out otherwise are copied out of it.

    Raises:
        BenchError: its weights are not ours: it would be another model that is measured.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as library_logging

    library_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    stock: Any = AutoModelForCausalLM.from_pretrained(
        model.path, dtype=model.dtype, attn_implementation=model.adapter.attention
    )
    torch.nn.Module.to(stock, model.device)
    stock.eval()
    for name, parameter in stock.named_parameters():
        path, _, kind = name.rpartition(".")
        own = getattr(model.hf_model.get_submodule(path), kind)
        if not torch.equal(parameter, own):
            raise BenchError(
                f"The library loads other weights than ours ({name}), so there is nothing to "
                "compare. Use a folder of a model whose files hold all of its weights."
            )
        parameter.data = own.data
    return stock


class _Streamer:
    """Tells a watch of every token the library streams; the prompt comes first and is no token."""

    def __init__(self, watch: TokenWatch) -> None:
        self._watch = watch
        self._has_prompt = False

    def put(self, value: Any) -> None:
        """Called by the library with the prompt, then with the tokens of each forward."""
        if self._has_prompt:
            self._watch.take(value.reshape(-1).tolist())
        self._has_prompt = True

    def end(self) -> None:
        """Called by the library behind the last token."""


class StockArm:
    """The library's `generate()`, greedy, with or without its prompt lookup.

    Nothing of the model's own generation settings (penalties, suppressed tokens) is left in it: our
    loop has none of them.
    """

    def __init__(
        self,
        stock: Any,
        *,
        max_new_tokens: int,
        end_token_ids: Sequence[int],
        uses_lookup: bool = False,
        clock: Clock = time.perf_counter,
    ) -> None:
        import transformers

        make_config: Any = transformers.GenerationConfig  # it has no types
        stock.generation_config = make_config()  # what is not set is taken from there
        self.name = "hf-prompt-lookup" if uses_lookup else "hf-generate"
        self.title = "HF prompt lookup" if uses_lookup else "HF generate"
        self._stock = stock
        self._ends = list(end_token_ids)
        self._clock = clock
        self._config = make_config(
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=self._ends or None,
            pad_token_id=self._ends[0] if self._ends else 0,
            prompt_lookup_num_tokens=_LOOKUP_LENGTH if uses_lookup else None,
        )

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`. How wide the library verifies is not known from outside."""
        import torch

        ids = torch.tensor([request.prompt_ids], device=self._stock.device)
        watch = TokenWatch(self._clock)
        self._stock.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=self._config,
            streamer=_Streamer(watch),
        )
        result = watch.result(self._ends)
        result.prefilled_length = len(request.prompt_ids)
        return result


def has_llama() -> bool:
    """Whether llama.cpp's Python package can be imported."""
    return find_spec("llama_cpp") is not None


class LlamaArm:
    """llama.cpp on a GGUF file of the same model, greedy, same threads.

    Raises:
        BenchError: the file's vocabulary has another size: it is another model.
    """

    name = "llama-cpp"
    title = "llama.cpp"

    def __init__(
        self,
        gguf_path: Path,
        *,
        max_new_tokens: int,
        context_length: int,
        end_token_ids: Sequence[int],
        vocab_size: int,
        num_threads: int,
        clock: Clock = time.perf_counter,
    ) -> None:
        from llama_cpp import Llama  # type: ignore[import-not-found,unused-ignore]

        self._llama = Llama(
            model_path=str(gguf_path),
            n_ctx=context_length,
            n_threads=num_threads,
            n_threads_batch=num_threads,
            n_gpu_layers=0,
            verbose=False,
        )
        if self._llama.n_vocab() != vocab_size:
            raise BenchError(
                f"{gguf_path.name} has a vocabulary of {self._llama.n_vocab()} tokens and the "
                f"model one of {vocab_size}: give the GGUF file of the same model to --gguf."
            )
        self._max_new_tokens = max_new_tokens
        self._ends = frozenset(end_token_ids)
        self._clock = clock

    def run(self, request: BenchRequest) -> ArmResult:
        """See `Arm`. Its text may differ: it computes with the quantized weights."""
        watch = TokenWatch(self._clock)
        self._llama.reset()
        stream = self._llama.generate(
            list(request.prompt_ids), top_k=1, temp=0.0, repeat_penalty=1.0, reset=True
        )
        for count, token_id in enumerate(stream, start=1):
            watch.take([token_id])
            if token_id in self._ends or count >= self._max_new_tokens:
                break
        result = watch.result(self._ends)
        result.prefilled_length = len(request.prompt_ids)
        return result
