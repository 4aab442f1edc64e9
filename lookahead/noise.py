"""Gumbel noise that belongs to a seed, a position and a token.

No draw is spent on anything, so nothing that is asked for, or not, changes what others get (keyed
counters after Salmon et al., *Parallel Random Numbers: As Easy as 1, 2, 3*, 2011). Knows no logits
and no models. Read by the sampler, and by foresight before the logits are there.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["argmax_with_noise", "gumbel_noise", "position_key", "position_keys"]

FloatArray = NDArray[np.float64]
TokenIds = NDArray[np.uint64]

_MASK = (1 << 64) - 1
# Of SplitMix64: its odd increment, and the shift and factor of each round; also for `growing.py`,
# which does in compiled code what `_fractions` and `_gumbel` do.
GOLDEN = 0x9E3779B97F4A7C15
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
UNIT = 2.0**-52
_PIECE = 16_384  # tokens hashed at once: more leave the cache, and take three times as long
_FEW = 1000  # tokens whose logarithms cost less than finding out which are needed
_NEAR = 7.0  # below the best score: noise lifts few of the others over this, see argmax_with_noise


def gumbel_noise(seed: int, position: int, token_ids: TokenIds) -> FloatArray:
    """Standard Gumbel noise float64 `[n]` for tokens uint64 `[n]` at one position of one seed."""
    return _gumbel(_fractions(seed, position, token_ids))


def argmax_with_noise(seed: int, position: int, token_ids: TokenIds, scores: FloatArray) -> int:
    """The index of the largest of `scores + gumbel_noise(seed, position, token_ids)`.

    Args:
        token_ids: uint64 `[n]`. `scores`: float64 `[n]`; -inf: never.

    Logarithms are taken only where the token can win. What lies far below the best score needs
    noise that its hash, which is cheap, must reach first.
    """
    if len(token_ids) <= _FEW:
        return int(np.argmax(scores + gumbel_noise(seed, position, token_ids)))
    is_near = scores > scores.max() - _NEAR
    near = np.flatnonzero(is_near)
    fractions = _fractions(seed, position, token_ids)
    winner = (scores[near] + _gumbel(fractions[near])).max()
    # A far token wins with noise above the winner less its score, at least this much:
    least = winner - scores.max() + _NEAR
    # Noise above `least` is a uniform above exp(-exp(-least)); one part in 2**40 lower, so that
    # rounding excludes none.
    bound = max(0.0, math.exp(-math.exp(-least)) - 2.0**-40) / UNIT
    able = np.flatnonzero(is_near | (fractions >= np.uint64(bound)))
    return int(able[np.argmax(scores[able] + _gumbel(fractions[able]))])


def _fractions(seed: int, position: int, token_ids: TokenIds) -> NDArray[np.uint64]:
    """52 random bits each: SplitMix64 of the token under a key of seed and position."""
    key = np.uint64(position_key(seed, position))
    fractions = np.empty(len(token_ids), np.uint64)
    shifted = np.empty(min(len(token_ids), _PIECE), np.uint64)
    for start in range(0, len(token_ids), _PIECE):
        bits = fractions[start : start + _PIECE]
        rest = shifted[: len(bits)]
        np.multiply(token_ids[start : start + _PIECE], np.uint64(GOLDEN), out=bits)
        bits += key
        _mix_all(bits, rest)
        bits >>= np.uint64(12)
    return fractions


def _gumbel(fractions: NDArray[np.uint64]) -> FloatArray:
    uniform = (fractions.astype(np.float64) + 0.5) * UNIT  # centred: never 0, never 1
    noise: FloatArray = -np.log(-np.log(uniform))
    return noise


def position_key(seed: int, position: int) -> int:
    """What tells the noise of one position of one seed from every other's."""
    return _mix(_mix(seed + GOLDEN) + (position + 1) * GOLDEN)


def position_keys(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """`[count]` the keys of so many positions in a row."""
    keys = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    keys += np.uint64(_mix(seed + GOLDEN))
    _mix_all(keys, np.empty_like(keys))
    return keys


def _mix_all(bits: NDArray[np.uint64], rest: NDArray[np.uint64]) -> None:
    """`_mix` of every number, in place; `rest` is room for as many."""
    for shift, factor in ROUNDS:
        np.right_shift(bits, np.uint64(shift), out=rest)
        bits ^= rest
        bits *= np.uint64(factor)
    np.right_shift(bits, np.uint64(31), out=rest)
    bits ^= rest


def _mix(value: int) -> int:
    """SplitMix64's finaliser of a whole number, modulo 2**64."""
    value &= _MASK
    for shift, factor in ROUNDS:
        value = ((value ^ (value >> shift)) * factor) & _MASK
    return value ^ (value >> 31)
