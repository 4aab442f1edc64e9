"""Arrays in one blob that says what it is and can tell whether it is whole.

Layout: one text line with kind and version, the SHA-256 of the rest, an uncompressed `npz`. Never
pickle. Used by the segment and by the successor table; whoever stores the bytes is no concern here.
"""

import hashlib
import io
import zipfile

import numpy as np
from numpy.typing import NDArray

from lookahead.errors import LookaheadError

__all__ = ["BlobFormatError", "pack_arrays", "unpack_arrays"]

DIGEST_BYTES = hashlib.sha256().digest_size


class BlobFormatError(LookaheadError):
    """The bytes are damaged, or of another kind or version. Rebuild from the sequences."""


def pack_arrays(header: str, arrays: dict[str, NDArray[np.generic]]) -> bytes:
    """Serialize named arrays. `header` names kind and version, for instance `segment 1`."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    payload = buffer.getvalue()
    return _header_line(header) + hashlib.sha256(payload).digest() + payload


def unpack_arrays(header: str, blob: bytes) -> dict[str, NDArray[np.generic]]:
    """Read back what `pack_arrays` wrote. Raises BlobFormatError for anything else."""
    line = _header_line(header)
    if not blob.startswith(line):
        raise BlobFormatError(f"This is no {header!r}: it is of another kind or version.")
    begin = len(line) + DIGEST_BYTES
    payload = blob[begin:]
    if hashlib.sha256(payload).digest() != blob[len(line) : begin]:
        raise BlobFormatError(f"This {header!r} is damaged: its checksum does not match.")
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, zipfile.BadZipFile) as error:
        raise BlobFormatError(f"This {header!r} cannot be read: {error}") from error


def _header_line(header: str) -> bytes:
    return f"lookahead {header}\n".encode("ascii")
