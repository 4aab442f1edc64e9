"""Token ids as they stand in the database: little-endian int32, four bytes a token.

Knows no table. Called by the stores.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["TokenIds", "pack_token_ids", "unpack_token_ids"]

TokenIds = Sequence[int] | NDArray[np.integer]

STORED_DTYPE = np.dtype("<i4")


def pack_token_ids(token_ids: TokenIds) -> bytes:
    """The bytes to store. Raises OverflowError where an id does not fit into int32."""
    ids = np.asarray(token_ids, dtype=np.int64)
    assert ids.ndim == 1, f"token ids must be one-dimensional, not of shape {ids.shape}"
    if ids.size and (int(ids.min()) < -(2**31) or int(ids.max()) >= 2**31):
        raise OverflowError("A token id does not fit into 32 bits.")
    return ids.astype(STORED_DTYPE).tobytes()


def unpack_token_ids(blob: bytes) -> NDArray[np.int32]:
    """The ids as a read-only array, without a copy where the machine is little-endian."""
    return np.frombuffer(blob, dtype=STORED_DTYPE).astype(np.int32, copy=False)
