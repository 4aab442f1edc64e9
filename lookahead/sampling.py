"""Choosing a token from logits, with noise that depends on the seed and the position alone.

The same seed gives the same token at a position whatever was drafted, since no random draw is
spent on rows that are not looked at (the Gumbel-max trick over a counter-based hash; Salmon et
al., *Parallel Random Numbers: As Easy as 1, 2, 3*, 2011, for the idea of keyed counters). Knows
nothing of drafts or sessions.
"""

import secrets
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from lookahead.config import SamplingConfig

__all__ = ["LogitsProcessor", "TokenSampler", "gumbel_noise"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # the odd increment of SplitMix64


IntArray = NDArray[np.int32]
LogitsProcessor = Callable[[Sequence[int], torch.Tensor], torch.Tensor]


class TokenSampler:
    """Chooses tokens for one generation.

    Args:
        config: temperature and seed.
        vocab_size: number of logits.
        process: changes the logits first; it is given all tokens before the position, the true
            path and never a rejected draft, once per emitted token and in order.

    Attributes:
        seed: the seed in force, drawn when the configuration gives none; None where greedy.
    """

    def __init__(
        self, config: SamplingConfig, vocab_size: int, process: LogitsProcessor | None = None
    ) -> None:
        self._temperature = config.temperature
        self._process = process
        self._token_ids = np.arange(vocab_size, dtype=np.uint64)
        self.seed: int | None = None
        if not config.is_greedy:
            # 53 bits survive JSON and SQLite; a seed given by the caller is used as it is.
            self.seed = secrets.randbits(53) if config.seed is None else config.seed

    def choose(self, logits: torch.Tensor, committed: IntArray, path: Sequence[int] = ()) -> int:
        """The token behind `committed` and `path`, from its logits `[vocab_size]`.

        Greedy takes the first of equal maxima. Otherwise the argmax of logits / temperature plus
        Gumbel noise, in float64 on the CPU, so that every device chooses alike.
        """
        if self._process is not None:
            logits = self._process([*committed.tolist(), *path], logits)
        if self.seed is None:
            return int(logits.float().argmax() if logits.dtype.itemsize < 4 else logits.argmax())
        scores = logits.double().cpu().numpy() / self._temperature
        position = len(committed) + len(path)
        return int(np.argmax(scores + gumbel_noise(self.seed, position, self._token_ids)))


def gumbel_noise(seed: int, position: int, token_ids: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Standard Gumbel noise float64 `[n]` for tokens uint64 `[n]` at one position of one seed."""
    key = _mix_int((_mix_int(seed) + position * _GOLDEN) & _MASK)
    bits = token_ids * np.uint64(_GOLDEN) + np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    # The upper 52 bits, centred: never 0, never 1.
    uniform = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    noise: NDArray[np.float64] = -np.log(-np.log(uniform))
    return noise


def _mix_int(value: int) -> int:
    """SplitMix64's finaliser on a Python int."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
