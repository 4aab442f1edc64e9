"""The KV cache of one session: one preallocated buffer for all layers, with rollback and gather.

It hands stock model code views of its slots through the library's cache protocol. It knows slots
and tensors, no tokens and no trees; the session says what to keep.
"""

import torch
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

__all__ = ["Cache", "KVCache", "new_stock_cache"]

_FIRST_CAPACITY = 256  # slots; the buffer doubles from there


class _BufferLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's window on the shared buffer."""

    is_sliding = False
    is_croppable = True

    def __init__(self, owner: "KVCache", layer_index: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.owner = owner
        self.layer_index = layer_index
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write `[1, kv_heads, n, head_dim]` behind the committed slots; all slots so far."""
        end = self.length + key_states.shape[-2]
        buffer = self.owner.reserve(end, key_states)
        buffer[self.layer_index, 0, :, self.length : end] = key_states[0]
        buffer[self.layer_index, 1, :, self.length : end] = value_states[0]
        self.length = end
        self.is_initialized = True
        self.keys = buffer[self.layer_index, 0, None, :, :end]
        self.values = buffer[self.layer_index, 1, None, :, :end]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


class KVCache(Cache):
    """Keys and values `[num_layers, 2, kv_heads, capacity, head_dim]`, grown geometrically.

    Args:
        num_layers: layers that keep keys and values; all must have one shape.
        max_length: slots at most, the model's context plus one draft.
    """

    def __init__(self, num_layers: int, max_length: int) -> None:
        self._windows = [_BufferLayer(self, index) for index in range(num_layers)]
        super().__init__(layers=list(self._windows))
        self._max_length = max_length
        self._buffer: torch.Tensor | None = None

    @property
    def length(self) -> int:
        """Slots in use in every layer; a forward that failed may have filled only some."""
        return min(window.length for window in self._windows)

    def reserve(self, length: int, like: torch.Tensor) -> torch.Tensor:
        """The buffer, grown to at least `length` slots shaped like `[1, kv_heads, n, head_dim]`."""
        if self._buffer is not None and self._buffer.shape[3] >= length:
            return self._buffer
        capacity = max(_FIRST_CAPACITY, length)
        if self._buffer is not None:
            capacity = max(length, 2 * self._buffer.shape[3])
        capacity = max(length, min(capacity, self._max_length))
        shape = (len(self._windows), 2, like.shape[1], capacity, like.shape[3])
        grown = like.new_zeros(shape)
        if self._buffer is not None:
            grown[:, :, :, : self._buffer.shape[3]] = self._buffer
        self._buffer = grown
        return grown

    def truncate(self, length: int) -> None:
        """Forget every slot from `length` on."""
        for layer in self._windows:
            layer.length = min(layer.length, length)

    @torch.inference_mode()
    def keep(self, length: int, slots: list[int]) -> None:
        """Keep the first `length` slots and then `slots`, in that order; drop the rest.

        `slots` ascend and lie behind `length`. They are copied out before they are written back:
        source and target may overlap.
        """
        end = length + len(slots)
        if slots != list(range(length, end)):
            assert self._buffer is not None, "an empty cache has no slots to keep"
            index = torch.tensor(slots, device=self._buffer.device)
            self._buffer[:, :, :, length:end] = self._buffer[:, :, :, index]
        for layer in self._windows:
            layer.length = end


def new_stock_cache(config: PreTrainedConfig) -> Cache:
    """The library's own cache, for models whose state cannot be rolled back."""
    return DynamicCache(config=config)
