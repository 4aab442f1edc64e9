"""Deeper reading: a model runs over texts, and what it would say at each place is kept.

The successor table gets the eight likeliest tokens behind every token, as it does from an answer.
Knows the model and token ids, no documents. Called in idle time, a batch at a time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from lookahead.kv_cache import KVCache
from lookahead.loaded_model import LoadedModel
from lookahead.pace import Pace
from lookahead.successors import SuccessorTable
from lookahead.top_ids import MAX_LOGITS, likeliest_ids

__all__ = ["read"]

_MAX_ROWS = 256  # the mask of a chain grows with their square


def read(
    model: LoadedModel,
    successors: SuccessorTable,
    windows: Iterable[Sequence[int]],
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[int]:
    """Read texts, each by itself; yields after each batch how much of its text has been read.

    Args:
        windows: token ids of each text, no longer than the context; the next one is asked for
            when the one before has been read. Read up to the first that the model cannot say.
        clock: gives seconds.
    """
    if not model.can_roll_back:  # nothing is ever drafted
        return
    pace = Pace(max(1, min(_MAX_ROWS, MAX_LOGITS // model.vocab_size)))
    cache = KVCache(model.adapter.num_layers, model.context_length)
    for window in windows:
        token_ids = list(takewhile(model.vocab_size.__gt__, window))
        cache.truncate(0)
        while cache.length < len(token_ids):
            started = clock()
            batch = token_ids[cache.length : cache.length + pace.num_rows]
            before = token_ids[cache.length - 1] if cache.length else -1
            logits = model.adapter.verify(batch, range(-1, len(batch) - 1), cache)
            successors.update(batch, likeliest_ids(logits), [before, *batch[:-1]])
            pace.observe(clock() - started)
            yield cache.length
