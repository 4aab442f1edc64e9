"""Arrays in one blob that says what it is and can tell whether it is whole.

Layout: one text line with kind and version, the SHA-256 of the rest, then the rest: padding to a
multiple of 64 bytes, and for each array its name as an array of bytes and itself, both as `npy`,
each padded likewise, so that reading copies nothing. Never pickle. Used by the segment and by the
successor table; whoever stores the bytes is no concern here.
"""

import hashlib
import io
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.errors import LookaheadError

__all__ = ["BlobFormatError", "pack_arrays", "unpack_arrays"]

DIGEST_BYTES = hashlib.sha256().digest_size
ALIGNMENT = 64
MAX_NPY_HEADER_BYTES = 1_024  # those of plain one- and two-dimensional arrays take 128


class BlobFormatError(LookaheadError):
    """The bytes are damaged, or of another kind or version. Rebuild from the sequences."""


def pack_arrays(header: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    """Serialize named arrays. `header` names kind and version, for instance `segment 1`."""
    line = _header_line(header)
    begin = len(line) + DIGEST_BYTES
    buffer = io.BytesIO()
    buffer.write(bytes(begin))
    for name, array in arrays.items():
        for part in (np.frombuffer(name.encode("ascii"), np.uint8), array):
            buffer.write(bytes(-buffer.tell() % ALIGNMENT))
            np.lib.format.write_array(buffer, np.ascontiguousarray(part), allow_pickle=False)
    with buffer.getbuffer() as view:
        view[:begin] = line + hashlib.sha256(view[begin:]).digest()
    return buffer.getvalue()


def unpack_arrays(header: str, blob: bytes) -> dict[str, NDArray[Any]]:
    """Read back what `pack_arrays` wrote: read-only arrays within `blob`.

    Raises:
        BlobFormatError: it wrote something else.
    """
    line = _header_line(header)
    if not blob.startswith(line):
        raise BlobFormatError(f"This is no {header!r}: it is of another kind or version.")
    begin = len(line) + DIGEST_BYTES
    payload = memoryview(blob)[begin:]
    if hashlib.sha256(payload).digest() != blob[len(line) : begin]:
        raise BlobFormatError(f"This {header!r} is damaged: its checksum does not match.")
    try:
        if blob.startswith(b"PK", begin):  # as it was written at first
            with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
                return dict(arrays)
        found = []
        end = begin
        while end < len(blob):
            array, end = _array_at(blob, end + -end % ALIGNMENT)
            found.append(array)
        names = [bytes(name).decode("ascii") for name in found[::2]]
        return dict(zip(names, found[1::2], strict=True))
    except (ValueError, zipfile.BadZipFile) as error:
        raise BlobFormatError(f"This {header!r} cannot be read: {error}") from error


def _array_at(blob: bytes, begin: int) -> tuple[NDArray[Any], int]:
    """The array that stands there, and where it ends. Raises ValueError."""
    stream = io.BytesIO(blob[begin : begin + MAX_NPY_HEADER_BYTES])
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError("an array of another version")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if is_fortran or dtype.hasobject:
        raise ValueError("an array that cannot be read as it stands")
    count = int(np.prod(shape, dtype=np.int64))
    data = begin + stream.tell()
    array = np.frombuffer(blob, dtype, count, data).reshape(shape)
    return array, data + array.nbytes


def _header_line(header: str) -> bytes:
    return f"lookahead {header}\n".encode("ascii")
