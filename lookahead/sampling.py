"""Choosing a token from logits, with noise that depends on the seed and the position alone.

The same seed gives the same token at a position whatever was drafted, since no random draw is
spent on rows that are not looked at (the Gumbel-max trick; see `lookahead.noise`). Knows nothing of
drafts or sessions. Called by the decode loop once per token of the true path.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookahead.config import SamplingConfig
from lookahead.foresight import Foresight, strength_at
from lookahead.noise import argmax_with_noise

__all__ = ["LogitsProcessor", "TokenSampler", "in_float64", "likeliest", "penalized"]

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]
LogitsProcessor = Callable[[Sequence[int], torch.Tensor], torch.Tensor]

# How far below the best score the likeliest are looked for, in turn.
_FLOORS = (7.0, 14.0, math.inf)
_LEAST_STRENGTH = 0.01  # noise believed less than this is not worth asking


class TokenSampler:
    """Chooses tokens for one generation.

    In this order, each on what the one before left, in float64 on the CPU so that every device
    chooses alike: `process`, repetition penalty, temperature, top-k, top-p, min-p, noise, argmax.
    From the penalty on it is the library's order, and the tokens kept are the library's.

    Args:
        config: see `SamplingConfig`.
        vocab_size: number of logits.
        process: changes the logits first; it is given all tokens before the position, the true
            path and never a rejected draft, once per token chosen and in order: those emitted, an
            end token, and where a stop rule ends the answer inside an accepted branch, those cut.

    Attributes:
        seed: the seed in force, drawn when the configuration gives none; None where greedy.
    """

    def __init__(
        self, config: SamplingConfig, vocab_size: int, process: LogitsProcessor | None = None
    ) -> None:
        self._config = config
        self._process = process
        self._token_ids = np.arange(vocab_size, dtype=np.uint64)
        self._is_seen = np.zeros(vocab_size, np.bool_)  # among the committed tokens
        self._num_seen = 0
        self._strength = strength_at(config.temperature) if config.has_choice else 0.0
        self.seed: int | None = None
        if not config.is_greedy:
            # 53 bits survive JSON and SQLite; a seed given by the caller is used as it is.
            self.seed = secrets.randbits(53) if config.seed is None else config.seed

    @property
    def settings(self) -> dict[str, Any]:
        """What tokens are chosen by, apart from the seed."""
        return self._config.settings

    def choose(self, logits: torch.Tensor, committed: IntArray, path: Sequence[int] = ()) -> int:
        """The token behind `committed` and `path`, from its logits `[vocab_size]`.

        Greedy takes the first of equal maxima, and so does a row without a finite one.

        Args:
            committed: all tokens before the step; it only grows from call to call.
            path: those chosen in the step so far.
        """
        config = self._config
        if self._process is not None:
            # A copy, which it may write into; what forwards give may not be.
            logits = self._process([*committed.tolist(), *path], logits.clone())
        if self.seed is None and config.repetition_penalty == 1.0:
            return int(logits.float().argmax() if logits.dtype.itemsize < 4 else logits.argmax())
        scores = in_float64(logits)
        if config.repetition_penalty != 1.0:
            scores = self._penalized(scores, committed, path)
        if self.seed is None or not math.isfinite(scores.max()):
            return int(scores.argmax())
        scores = scores / config.temperature
        token_ids = self._token_ids
        if config.is_filtered:
            kept = likeliest(scores, config.top_k, config.top_p, config.min_p)
            token_ids, scores = token_ids[kept], scores[kept]
        position = len(committed) + len(path)
        return int(token_ids[argmax_with_noise(self.seed, position, token_ids, scores)])

    def foresight(self, position: int) -> Foresight | None:
        """What is known of the noise at a position and behind it; None where it decides nothing."""
        if self.seed is None or self._strength < _LEAST_STRENGTH:
            return None
        return Foresight(self.seed, position, self._strength)

    def _penalized(
        self, scores: FloatArray, committed: IntArray, path: Sequence[int]
    ) -> FloatArray:
        """Every token that occurred, in prompt or answer, is made less likely, and only once."""
        if len(committed) < self._num_seen:
            self._is_seen[:] = False
            self._num_seen = 0
        self._is_seen[committed[self._num_seen :]] = True
        self._num_seen = len(committed)
        is_seen = self._is_seen.copy()
        is_seen[list(path)] = True
        return penalized(scores, np.flatnonzero(is_seen), self._config.repetition_penalty)


def in_float64(logits: torch.Tensor) -> FloatArray:
    """Logits as numbers on the CPU; widened there, since not every device has float64."""
    scores: FloatArray = logits.cpu().double().numpy(force=True)
    return scores


def penalized(scores: FloatArray, seen: NDArray[np.intp], penalty: float) -> FloatArray:
    """The scores with those of the tokens seen divided by the penalty, multiplied if negative."""
    scores = scores.copy()
    scores[seen] = np.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    return scores


def likeliest(scores: FloatArray, top_k: int, top_p: float, min_p: float) -> NDArray[np.intp]:
    """Indexes, ascending, of the scores float64 `[n]` that top-k, top-p and min-p keep, in turn.

    Args:
        top_k: so many of the best, more where the last of them are equal; 0: all.
        top_p: of those, the fewest that have this share of the probability, of equal ones the
            first; one at least.
        min_p: of those, whose probability is this fraction of the best one's.
    """
    best = scores.max()
    kept = np.flatnonzero(scores > -math.inf)
    if 0 < top_k < len(kept):
        kept = np.flatnonzero(scores >= _kth_best(scores, top_k))
    if top_p < 1.0:
        kept = kept[_fewest(np.exp(scores[kept] - best), top_p)]
    if min_p > 0.0:
        kept = kept[scores[kept] >= best + math.log(min_p)]
    return kept


def _kth_best(scores: FloatArray, k: int) -> float:
    best = scores.max()
    for floor in _FLOORS:  # partitioning a whole vocabulary costs more than all else together
        near = scores[scores >= best - floor]
        if len(near) >= k:
            break
    return float(np.partition(near, len(near) - k)[len(near) - k])


def _fewest(weights: FloatArray, share: float) -> NDArray[np.intp]:
    """The fewest that together have this share of all weights, in ascending order."""
    needed = share * weights.sum()
    for floor in _FLOORS:  # sorting a whole vocabulary costs more than all else together
        near = np.flatnonzero(weights >= math.exp(-floor))
        if weights[near].sum() >= needed:
            break
    order = near[np.argsort(-weights[near], kind="stable")]
    num_kept = int(np.searchsorted(np.cumsum(weights[order]), needed)) + 1
    return np.sort(order[:num_kept])
