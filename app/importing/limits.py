"""How much a single file may cost.

Knows the kinds, no format. Read by the import job, the reader and, in the child, the converters.
"""

from dataclasses import dataclass

from app.importing.kinds import DocumentKind

__all__ = ["MIB", "ReadingLimits", "too_large"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Beyond these a file is skipped with a reason.

    Args:
        text_bytes: size of a file that is text as it stands.
        container_bytes: size of a file that text is taken out of (PDF, Office, EPUB).
        unpacked_bytes: what the parts of a packed file may unpack to, all together.
        num_parts: parts of a packed file.
        num_characters: text of one document.
        seconds: processor time of one file; ten times that by the clock, where the machine is busy
            or the file makes its reader wait.
        memory_bytes: memory of the child process.
    """

    text_bytes: int = 32 * MIB
    container_bytes: int = 256 * MIB
    unpacked_bytes: int = 512 * MIB
    num_parts: int = 20_000
    num_characters: int = 32 * MIB
    seconds: float = 60.0
    memory_bytes: int = 1536 * MIB

    def most_bytes(self, kind: DocumentKind | None) -> int:
        """How large a file of this kind may be; None: of a kind that only its content tells."""
        return self.text_bytes if kind and not kind.is_container else self.container_bytes


def too_large(num_bytes: int, most: int) -> str:
    """The reason against a file of this size."""
    return f"too large ({num_bytes:,} bytes; at most {most:,})"
