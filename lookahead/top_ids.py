"""The likeliest next tokens of rows of logits, as the successor table keeps them."""

import numpy as np
import torch

from lookahead.candidates import IntArray
from lookahead.successors import NUM_SUCCESSORS

__all__ = ["MAX_LOGITS", "likeliest_ids", "prepare"]

MAX_LOGITS = 2**26  # of one batch where nobody waits: 256 MB in fp32


def likeliest_ids(logits: torch.Tensor) -> IntArray:
    """`[rows, 8]` ids, likeliest first, of logits `[rows, vocab]`; -1 where there are fewer."""
    from lookahead import ranking  # only now: the page need not wait for numba

    count = min(NUM_SUCCESSORS, logits.shape[1])
    top_ids = np.full((len(logits), NUM_SUCCESSORS), -1, np.int32)
    if logits.device.type != "cpu":
        top_ids[:, :count] = logits.topk(count).indices.numpy(force=True)
    elif logits.dtype.itemsize == 2:
        ranking.write_likeliest_of_bits(
            logits.view(torch.int16).numpy(force=True), top_ids[:, :count]
        )
    else:
        ranking.write_likeliest(logits.numpy(force=True), top_ids[:, :count])
    return top_ids


def prepare(dtype: torch.dtype) -> None:
    """Have what ranks logits of this type compiled now, not after the first forward."""
    likeliest_ids(torch.zeros((1, NUM_SUCCESSORS), dtype=dtype))
