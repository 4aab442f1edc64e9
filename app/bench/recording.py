"""The recorder: greedy answers of a model to many prompts at once, with what it thought likely.

Batches of left-padded prompts through the stock model, nothing of our decode loop in it, so that
what is recorded is the model's own text. Knows token ids and tensors; the store keeps the results.
Called by the replay suite where recordings are missing.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from app.bench.recordings import (
    NUM_TOP_IDS,
    RecordedModel,
    Recording,
    RecordingStore,
    prompt_digest,
)
from lookahead.loaded_model import LoadedModel

__all__ = ["Recorder", "record_missing"]

BATCH_SIZE = 16
_PREFILL_ROWS = 1024  # of one forward; bounds the memory of its logits


def record_missing(
    model: LoadedModel,
    prompts: Sequence[Sequence[int]],
    store: RecordingStore,
    *,
    max_new_tokens: int,
    report: Callable[[str], None],
) -> dict[str, Recording]:
    """Recordings of all `prompts` by digest; those that the store lacks are made, batch by batch.

    Raises:
        OSError: a batch cannot be saved.
    """
    found = store.load(report)
    missing = {prompt_digest(ids): tuple(ids) for ids in prompts if prompt_digest(ids) not in found}
    by_length = sorted(missing.values(), key=len)
    recorder = Recorder(model, max_new_tokens)
    for start in range(0, len(by_length), BATCH_SIZE):
        report(f"Recording answers: {start} of {len(by_length)} done")
        batch = recorder.record(by_length[start : start + BATCH_SIZE])
        store.save(batch)
        found.update({prompt_digest(recording.prompt_ids): recording for recording in batch})
    return found


class Recorder:
    """Records greedy answers with one model.

    Args:
        model: loaded in the dtype to record in.
        max_new_tokens: tokens of an answer at most, its end included.
    """

    def __init__(self, model: LoadedModel, max_new_tokens: int) -> None:
        self._model = model
        self._max_new_tokens = max_new_tokens

    @torch.inference_mode()
    def record(self, prompts: Sequence[Sequence[int]]) -> list[Recording]:
        """Answer a batch of prompts; the longer they differ in length, the more is padding."""
        with _grouped_attention(self._model.device):
            return _Batch(self._model, prompts, self._max_new_tokens).run()


@contextmanager
def _grouped_attention(device: torch.device) -> Iterator[None]:
    """On a CPU the library copies keys and values for every query head of a masked call.

    Its own switch lets the kernel share them: the same bits, and at 1,000 tokens an eighteenth of
    the time (docs/lab-log.md).
    """
    name = "TRANSFORMERS_SDPA_FORCE_GQA"
    before = os.environ.get(name)
    if device.type == "cpu":
        os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


class _Batch:
    """One batch in the making. A finished row leaves it."""

    def __init__(
        self, model: LoadedModel, prompts: Sequence[Sequence[int]], max_new_tokens: int
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._longest = max(map(len, prompts))
        self._room = [min(max_new_tokens, model.context_length - len(ids)) for ids in prompts]
        self._answers: list[list[int]] = [[] for _ in prompts]
        num_columns = self._longest + max(self._room)
        self._top_ids = np.full((len(prompts), num_columns, NUM_TOP_IDS), -1, np.int32)
        self._rows = list(range(len(prompts)))  # those still in the batch
        self._cache = _BatchCache(model.adapter.num_layers, num_columns)
        mask = [[0] * (self._longest - len(ids)) + [1] * len(ids) for ids in prompts]
        self._mask = torch.tensor(mask, device=model.device)  # [rows, columns so far]

    def run(self) -> list[Recording]:
        """Prefill, then a forward a token until every row is finished."""
        for column, token_ids in self._columns():
            chosen = self._forward(token_ids, column)
        while True:
            self._commit(chosen)
            if not self._rows:
                return [self._recording(row) for row in range(len(self._prompts))]
            last = [[self._answers[row][-1]] for row in self._rows]
            column = self._mask.shape[1]
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(last), 1)], dim=1)
            chosen = self._forward(torch.tensor(last, device=self._model.device), column)

    def _columns(self) -> Iterator[tuple[int, torch.Tensor]]:
        """The padded prompts `[rows, columns]`, some columns at a time, with their first column."""
        padded = [[0] * (self._longest - len(ids)) + list(ids) for ids in self._prompts]
        token_ids = torch.tensor(padded, device=self._model.device)
        num_columns = max(1, _PREFILL_ROWS // len(padded))
        for column in range(0, self._longest, num_columns):
            yield column, token_ids[:, column : column + num_columns]

    def _forward(self, token_ids: torch.Tensor, column: int) -> list[int]:
        """Run `[rows, columns]` of tokens, note the likeliest next ones; the choice of each row."""
        end = column + token_ids.shape[1]
        mask = self._mask[:, :end]
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, column:]
        logits = self._model.hf_model(
            input_ids=token_ids,
            attention_mask=mask,
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
        ).logits  # [rows, columns, vocab]
        top_ids = logits.topk(NUM_TOP_IDS).indices
        self._top_ids[self._rows, column:end] = top_ids.cpu().numpy()
        chosen: list[int] = logits[:, -1].argmax(dim=-1).tolist()
        return chosen

    def _commit(self, chosen: Sequence[int]) -> None:
        """Append a token to every row's answer and let those leave that it finishes."""
        going_on = []
        for index, (row, token_id) in enumerate(zip(self._rows, chosen, strict=True)):
            self._answers[row].append(token_id)
            is_end = token_id in self._model.end_token_ids
            if not is_end and len(self._answers[row]) < self._room[row]:
                going_on.append(index)
        if len(going_on) < len(self._rows):
            self._rows = [self._rows[index] for index in going_on]
            kept = torch.tensor(going_on, dtype=torch.long, device=self._mask.device)
            self._mask = self._mask[kept]
            self._cache.keep_rows(kept)

    def _recording(self, row: int) -> Recording:
        prompt_ids, answer_ids = tuple(self._prompts[row]), tuple(self._answers[row])
        first = self._longest - len(prompt_ids)
        last = first + len(prompt_ids) + len(answer_ids) - 1
        return Recording(
            RecordedModel(
                self._model.vocab_size,
                self._model.context_length,
                tuple(sorted(self._model.end_token_ids)),
            ),
            prompt_ids,
            answer_ids,
            self._top_ids[row, first:last].copy(),
        )


class _BatchLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one layer in a buffer of known size: nothing is copied at every token."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = 0
        self.buffers = torch.empty(0)  # [2, rows, kv_heads, capacity, head_dim]
        self._capacity = capacity

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        rows, heads, _, dim = key_states.shape
        self.buffers = key_states.new_zeros(2, rows, heads, self._capacity, dim)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `[rows, kv_heads, n, head_dim]` behind what is there; all of it so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        self.buffers[0, :, :, self.length : end] = key_states
        self.buffers[1, :, :, self.length : end] = value_states
        self.length = end
        return self.buffers[0, :, :, :end], self.buffers[1, :, :, :end]

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


class _BatchCache(Cache):
    """The cache of a batch whose rows leave when they are finished."""

    def __init__(self, num_layers: int, capacity: int) -> None:
        self._batch_layers = [_BatchLayer(capacity) for _ in range(num_layers)]
        super().__init__(layers=list(self._batch_layers))

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Drop all rows but these."""
        for layer in self._batch_layers:
            layer.buffers = layer.buffers[:, rows]
