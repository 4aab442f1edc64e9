"""Packed files (Office, EPUB): opened only where they unpack to something sensible.

Knows no format beyond ZIP. Called by the converters, in the child process, before a library sees
the file.
"""

import io
import zipfile
import zlib

from app.importing.errors import UnreadableError
from app.importing.limits import MIB, ReadingLimits

__all__ = ["checked_archive", "read_part"]

_MAX_RATIO = 200  # of unpacked to packed bytes; text and XML pack to a tenth or twentieth
_RATIO_MATTERS_BYTES = 16 * MIB  # below, nothing can be hurt
_ENCRYPTED = 0x1


def checked_archive(data: bytes, limits: ReadingLimits) -> zipfile.ZipFile:
    """The opened archive. Raises UnreadableError for what would unpack to too much."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UnreadableError("damaged (its parts cannot be found)") from error
    parts = archive.infolist()
    if len(parts) > limits.num_parts:
        raise UnreadableError(f"packed of {len(parts):,} parts; at most {limits.num_parts:,}")
    num_bytes = sum(part.file_size for part in parts)
    is_bomb = num_bytes > _RATIO_MATTERS_BYTES and num_bytes > _MAX_RATIO * len(data)
    if is_bomb or num_bytes > limits.unpacked_bytes:
        raise UnreadableError(
            f"unpacks from {len(data):,} to {num_bytes:,} bytes, which is too much"
        )
    if any(part.flag_bits & _ENCRYPTED for part in parts):
        raise UnreadableError("protected by a password")
    return archive


def read_part(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of one part. Raises UnreadableError."""
    try:
        return archive.read(name)
    except KeyError:
        raise UnreadableError(f"damaged (its part {name} is missing)") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UnreadableError(f"damaged (its part {name} cannot be unpacked)") from error
