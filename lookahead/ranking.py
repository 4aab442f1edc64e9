"""Ranking: the highest few of many numbers, in one pass over memory; compiled.

Knows no tensors and no tokens. Called for the logits of every step's rows.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lookahead.candidates import IntArray

__all__ = ["write_likeliest", "write_likeliest_of_bits"]

Numbers = NDArray[np.generic]

_NUM_COLUMNS = 512


@njit(cache=True)
def write_likeliest(values: Numbers, top: IntArray) -> None:
    """Write where the highest values of each row are, highest first; of equal ones any.

    A row is read as lines of 512 numbers. The highest k of it lie in the k columns with the highest
    maxima, and the maxima of all columns are taken at once.

    Args:
        values: [rows, n].
        top: [rows, k] is written; k is n at most.
    """
    for row in range(len(values)):
        _write_row(values[row], top[row])


@njit(cache=True)
def write_likeliest_of_bits(bits: NDArray[np.int16], top: IntArray) -> None:
    """The same for floats of two bytes, given by their bits.

    These rise with the number; below zero, where they fall, all but the sign are turned over.
    """
    values = np.empty_like(bits[0])
    for row in range(len(bits)):
        _order(bits[row], values)
        _write_row(values, top[row])


@njit(cache=True)
def _order(bits: NDArray[np.int16], values: NDArray[np.int16]) -> None:
    for at in range(len(bits)):
        below_zero = np.int16(bits[at] >> 15)
        values[at] = np.int16(bits[at] ^ np.int16(below_zero & 0x7FFF))


@njit(cache=True)
def _write_row(values: Numbers, top: IntArray) -> None:
    num_columns = min(_NUM_COLUMNS, len(values))
    maxima = values[:num_columns].copy()
    for begin in range(num_columns, len(values), num_columns):
        line = values[begin : begin + num_columns]
        for place in range(len(line)):
            if line[place] > maxima[place]:
                maxima[place] = line[place]
    columns = np.full(len(top), -1, np.int32)
    for place in range(num_columns):
        _insert(maxima, place, columns)
    columns.sort()
    top[:] = -1
    for begin in range(0, len(values), num_columns):
        for column in columns:
            at = int(begin + column)
            if column >= 0 and at < len(values):
                _insert(values, at, top)


@njit(cache=True)
def _insert(values: Numbers, at: int, top: IntArray) -> None:
    """Put an index where it belongs among the best found so far; -1 is none."""
    last = len(top) - 1
    if top[last] >= 0 and values[at] <= values[top[last]]:
        return
    place = last
    while place > 0 and (top[place - 1] < 0 or values[at] > values[top[place - 1]]):
        top[place] = top[place - 1]
        place -= 1
    top[place] = at
