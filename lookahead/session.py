"""A conversation's working state: its KV cache, the exact token ids behind it, its request view.

It outlives a generation, so that the next turn prefills only what is new. Owned by one caller at a
time; knows no text. The decode loop is the only writer while a generation runs.
"""

from collections.abc import Sequence

import torch

from lookahead.draft import DraftTree, TokenSource
from lookahead.kv_cache import Cache, KVCache, new_stock_cache
from lookahead.loaded_model import LoadedModel
from lookahead.request_view import RequestView

__all__ = ["Session"]


class Session:
    """KV and token ids of one conversation on one model.

    Invariant between generations: `token_ids` are the prompt and the answer as emitted, and the
    cache holds the prompt and all of the answer but its last token, drafting on or off; nothing
    where it cannot be rolled back.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.request = RequestView()
        self.cache: Cache = self._new_cache()
        self._stock_length = 0  # of a cache that is not ours, and may not know it
        self._prompt: tuple[int, torch.Tensor] | None = None

    @property
    def token_ids(self) -> list[int]:
        """Every committed token of the conversation."""
        ids: list[int] = self.request.token_ids.tolist()
        return ids

    @property
    def cached_length(self) -> int:
        """Tokens whose keys and values are in the cache."""
        return self.cache.length if isinstance(self.cache, KVCache) else self._stock_length

    @property
    def prompt_logits(self) -> torch.Tensor | None:
        """Logits `[vocab]` behind the whole prompt, if the last prefill ended exactly there."""
        if self._prompt is None or self._prompt[0] != len(self.request):
            return None
        return self._prompt[1]

    def run(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Run the next committed tokens, nothing drafted; the last row's logits `[vocab]`."""
        start = self.cached_length
        logits = self.model.adapter.prefill(token_ids, self.cache, start)
        self._stock_length = start + len(token_ids)
        return logits

    def verify(self, draft: DraftTree, strict_rows: int | None) -> torch.Tensor:
        """Run a draft behind the committed tokens; logits `[width, vocab]`. See `ModelAdapter`."""
        if not isinstance(self.cache, KVCache):
            return self.run(draft.token_ids)[None]
        return self.model.adapter.verify(
            draft.token_ids, draft.parents, self.cache, strict_rows=strict_rows
        )

    def keep(self, nodes: Sequence[int]) -> None:
        """Of the draft just verified, keep the root and the accepted `nodes` in the cache."""
        if isinstance(self.cache, KVCache):
            root_slot = len(self.request) - 1
            self.cache.keep(root_slot, [root_slot + node for node in (0, *nodes)])

    def begin(
        self, prompt_ids: Sequence[int], document_ranges: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Turn to a new prompt; returns how many of its tokens need no prefill.

        The longest common prefix with what the cache was computed from is kept. Where that is the
        whole prompt, the logits behind it are still known or its last token is run again.
        `document_ranges`: start and end of what the prompt quotes from documents.
        """
        shared = self._shared_length(prompt_ids)
        if self._prompt is not None and shared < self._prompt[0]:
            self._prompt = None
        is_whole = shared == len(prompt_ids)
        if is_whole and (self._prompt is None or self._prompt[0] != shared):
            shared -= 1
        shared = self._crop(shared)
        self.request.truncate(shared)
        self.request.append(prompt_ids[shared:], TokenSource.PROMPT)
        for start, end in document_ranges:
            self.request.mark_document(start, end)
        return shared

    def prompt_done(self, logits: torch.Tensor) -> None:
        """The whole prompt is in the cache; `logits` stand behind it."""
        self._prompt = (len(self.request), logits)

    def end(self, length: int) -> None:
        """Settle a finished, stopped or cut generation at `length` committed tokens."""
        self.request.truncate(length)
        prefilled = self._prompt[0] if self._prompt else 0
        self._crop(min(self.cached_length, max(prefilled, length - 1)))

    def close(self) -> None:
        """Give the memory back; the session may be used again and starts empty."""
        self.cache = self._new_cache()
        self._stock_length = 0
        self.request = RequestView()
        self._prompt = None

    def _shared_length(self, prompt_ids: Sequence[int]) -> int:
        known = self.request.token_ids[: self.cached_length].tolist()
        limit = min(len(known), len(prompt_ids))
        return next((at for at in range(limit) if known[at] != prompt_ids[at]), limit)

    def _crop(self, length: int) -> int:
        """Keep the first `length` slots, or nothing of a cache that cannot be rolled back.

        Nothing even where all of it would be kept: recurrent layers take one prompt, in one piece.
        """
        if isinstance(self.cache, KVCache):
            self.cache.truncate(length)
        else:
            self.cache = self._new_cache()
            self._stock_length = 0
            self._prompt = None
        return self.cached_length

    def _new_cache(self) -> Cache:
        adapter = self.model.adapter
        if not self.model.can_roll_back:
            return new_stock_cache(adapter.hf_model.config)
        slack = 64  # nodes and padding of the last draft
        return KVCache(adapter.num_layers, self.model.context_length + slack)
