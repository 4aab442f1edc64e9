"""Priming: the successor table is filled before the first question, once per model.

Every token is run once behind the start of an answer, as if it were the answer's first, and the
eight likeliest tokens behind it are kept; nothing but these rows is learned, and no text changes.
Knows the model, no chat template and no database. Called in idle time, a batch at a time.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from lookahead.kv_cache import KVCache
from lookahead.loaded_model import LoadedModel
from lookahead.pace import Pace
from lookahead.successors import SuccessorTable
from lookahead.top_ids import MAX_LOGITS, likeliest_ids

__all__ = ["prime"]

_MAX_ROWS = 1024  # beyond it no device gains by more


def prime(
    model: LoadedModel,
    successors: SuccessorTable,
    prefix_ids: Sequence[int],
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[float]:
    """Fill the rows still unknown; yields after each batch the share of all rows that is known.

    Rows that an answer taught stay as they are, those that one teaches between two batches too.
    Begun again, it goes on where it was broken off, since what is known is not run again.

    Args:
        prefix_ids: what stands before an answer, one token at least; all tokens share it.
        clock: gives seconds.
    """
    if not model.can_roll_back:  # nothing is ever drafted
        return
    pace = Pace(max(1, min(_MAX_ROWS, MAX_LOGITS // model.vocab_size)))
    cache = KVCache(model.adapter.num_layers, len(prefix_ids) + pace.max_rows)
    while len(token_ids := successors.unknown_ids(pace.num_rows)):
        started = clock()
        if not cache.length:
            model.adapter.prefill(prefix_ids, cache, 0)
        logits = model.adapter.verify(token_ids.tolist(), [-1] * len(token_ids), cache)
        cache.truncate(len(prefix_ids))
        successors.update(token_ids, likeliest_ids(logits))
        pace.observe(clock() - started)
        yield successors.known_share
