"""One forward of a stock model over a draft tree, whatever the model's family.

The adapter turns token ids and parent indexes into what the library's `forward` takes: ids,
positions, and either an additive tree mask (flexible mode) or a plan for strict attention. It
knows no Trie and no sampling; the decode loop, the self-tests and nobody else call it.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from lookahead.cascade_attention import CascadeAttention
from lookahead.kv_cache import KVCache
from lookahead.path_attention import PathAttention

__all__ = ["ModelAdapter", "StrictAttention"]

StrictAttention = PathAttention | CascadeAttention

_KNOWN_LAYER_KINDS = ("full_attention", "sliding_attention")


class ModelAdapter:
    """Runs `hf_model` for the decode loop; one thread at a time, other callers included.

    Args:
        hf_model: a stock causal language model in evaluation mode.

    Attributes:
        strict_attention: how strict mode attends over a tree.
    """

    strict_attention: StrictAttention

    def __init__(self, hf_model: PreTrainedModel) -> None:
        self.hf_model = hf_model
        self.use(PathAttention())
        config = hf_model.config.get_text_config(decoder=True)
        self._config = config
        self._windows = _attention_windows(config)
        self._rope_switches = _rope_switches(config)

    def use(self, strict_attention: StrictAttention) -> None:
        """Attend so in strict mode: chosen once, before the first answer, since it decides bits."""
        strict_attention.register()
        self.strict_attention = strict_attention

    def max_draft_depth(self, root_position: int) -> float:
        """Tokens that may be drafted behind a root without changing how positions are encoded.

        Dynamic RoPE takes other frequencies once a forward reaches past a threshold, for all its
        rows, and some kinds take others again with every further token.
        """
        depth = math.inf
        for threshold, goes_on_changing in self._rope_switches:
            if root_position < threshold:
                depth = min(depth, threshold - 1 - root_position)
            elif goes_on_changing:
                return 0
        return depth

    @property
    def unknown_layer_kinds(self) -> tuple[str, ...]:
        """Kinds of attention layer whose masks over a tree we do not know how to make."""
        return tuple(kind for kind in self._windows if kind not in _KNOWN_LAYER_KINDS)

    @property
    def attention(self) -> str:
        """The library's name of the attention in use: `sdpa`, `eager`, …"""
        return str(self._config._attn_implementation)

    @property
    def device(self) -> torch.device:
        """Where the input ids go."""
        return next(self.hf_model.get_input_embeddings().parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights and of the KV cache."""
        return self.hf_model.dtype

    @property
    def num_layers(self) -> int:
        """Decoder layers, each with keys and values of its own."""
        return int(self._config.num_hidden_layers)

    @property
    def query_group_length(self) -> int:
        """Query heads that share a key head."""
        query_heads = int(self._config.num_attention_heads)
        return query_heads // (getattr(self._config, "num_key_value_heads", None) or query_heads)

    @property
    def has_sliding_window(self) -> bool:
        """Whether some layer sees a window of the context only."""
        return any(window is not None for window in self._windows.values())

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int], cache: Cache, start: int) -> torch.Tensor:
        """Append `token_ids` to the `start` tokens in `cache` by the library's own call.

        Returns the last row's logits `[vocab]`.
        """
        positions = torch.arange(start, start + len(token_ids), device=self.device)
        output = self.hf_model(
            input_ids=self._ids(token_ids),
            position_ids=positions[None],
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[0, -1]
        return logits

    @torch.inference_mode()
    def verify(
        self,
        token_ids: Sequence[int],
        parents: Sequence[int],
        cache: KVCache,
        *,
        strict_rows: int | None = None,
    ) -> torch.Tensor:
        """Logits `[num_nodes, vocab]` of a tree (or forest) behind the committed context.

        Node `i` lands in slot `cache.length + i`; the caller says afterwards what to keep.

        Args:
            token_ids: token of each node.
            parents: node index of its parent, which precedes it; -1: the context's end.
            strict_rows: rows of the forward, padding included, in strict mode; None: flexible.
        """
        context_length = cache.length
        depths: list[int] = []
        for parent in parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        positions = torch.tensor(depths, device=self.device) + context_length
        if strict_rows is None:
            mask = self._tree_mask(parents, positions, context_length)
            output = self._forward(token_ids, positions, cache, attention_mask=mask)
            return output[0]
        padding = strict_rows - len(token_ids)
        assert padding >= 0, "a strict forward has a row for every node"
        plan = self.strict_attention.plan(parents, context_length)
        with self._strict_attention():
            output = self._forward(
                [*token_ids, *[token_ids[0]] * padding],
                torch.cat([positions, positions[:1].expand(padding)]),
                cache,
                strict_plan=plan,
            )
        return output[0, : len(token_ids)]

    def _forward(
        self,
        token_ids: Sequence[int],
        positions: torch.Tensor,
        cache: KVCache,
        **attention: object,
    ) -> torch.Tensor:
        output = self.hf_model(
            input_ids=self._ids(token_ids),
            position_ids=positions[None],
            cache=cache,
            use_cache=True,
            **attention,
        )
        logits: torch.Tensor = output.logits
        return logits

    def _ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        return torch.tensor([list(token_ids)], device=self.device)

    @contextmanager
    def _strict_attention(self) -> Iterator[None]:
        """Strict attention for our own forward only: other callers of the model stay stock."""
        stock = self._config._attn_implementation
        self._config._attn_implementation = self.strict_attention.name
        try:
            yield
        finally:
            self._config._attn_implementation = stock

    def _tree_mask(
        self, parents: Sequence[int], positions: torch.Tensor, context_length: int
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        """Additive masks `[1, 1, nodes, context + nodes]`: each node sees context and ancestors.

        Additive float, never boolean: the latter is silently wrong under eager attention.
        """
        num_nodes = len(parents)
        visible = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
        for node, parent in enumerate(parents):
            if parent >= 0:
                visible[node] = visible[parent]
            visible[node, node] = True
        context = torch.ones(num_nodes, context_length, dtype=torch.bool)
        visible = torch.cat([context, visible], dim=1).to(self.device)
        key_positions = torch.cat([torch.arange(context_length, device=self.device), positions])
        distances = positions[:, None] - key_positions[None]
        masks = {}
        for kind, window in self._windows.items():
            seen = visible if window is None else visible & (distances < window)
            mask = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
            masks[kind] = mask.masked_fill_(~seen, torch.finfo(self.dtype).min)[None, None]
        return masks if len(masks) > 1 else next(iter(masks.values()))


def _rope_switches(config: object) -> list[tuple[int, bool]]:
    """Context lengths beyond which the model rotates positions otherwise.

    Each with whether it goes on changing beyond: longrope switches once from its short to its long
    factors, "dynamic" scales anew with every length.
    """
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    longest = getattr(config, "max_position_embeddings", None)
    switches = []
    for kind in kinds:
        name = kind.get("rope_type")
        if name in ("longrope", "dynamic"):
            original = getattr(config, "original_max_position_embeddings", longest)
            threshold = kind.get("original_max_position_embeddings", original)
            switches.append((int(threshold or 0), name == "dynamic"))
    return switches


def _attention_windows(config: object) -> dict[str, int | None]:
    """The kinds of attention layer of a model, each with its window in tokens; None: all."""
    window = getattr(config, "sliding_window", None)
    if not getattr(config, "use_sliding_window", True):
        window = None
    kinds = dict.fromkeys(getattr(config, "layer_types", None) or ())
    if not kinds:
        return {"sliding_attention" if window else "full_attention": window}
    return {kind: window if kind == "sliding_attention" else None for kind in kinds}
