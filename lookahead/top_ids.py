"""The likeliest next tokens of rows of logits, as the successor table keeps them."""

import numpy as np
import torch

from lookahead.candidates import IntArray
from lookahead.successors import NUM_SUCCESSORS

__all__ = ["MAX_LOGITS", "likeliest_ids"]

MAX_LOGITS = 2**26  # of one batch where nobody waits: 256 MB in fp32


def likeliest_ids(logits: torch.Tensor) -> IntArray:
    """`[rows, 8]` ids, likeliest first, of logits `[rows, vocab]`; -1 where there are fewer."""
    count = min(NUM_SUCCESSORS, logits.shape[1])
    top_ids = np.full((len(logits), NUM_SUCCESSORS), -1, np.int32)
    top_ids[:, :count] = logits.topk(count).indices.numpy(force=True)
    return top_ids
