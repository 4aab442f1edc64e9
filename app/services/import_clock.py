"""How long an import will still take: what each kind of file has cost so far, times what is left.

Knows sizes, kinds and seconds, no file. Used by the import job.
"""

from collections import defaultdict
from collections.abc import Sequence

from app.importing import FoundFile
from app.importing.kinds import DocumentKind, kind_of_name

__all__ = ["ImportClock"]

# Seconds a megabyte before anything was measured, on a slow machine; they count as one megabyte.
_FIRST_RATES = defaultdict(
    lambda: 2.0, {DocumentKind.TEXT: 1.0, DocumentKind.PDF: 4.0, DocumentKind.SHEETS: 8.0}
)
_FILE_BYTES = 16_384  # what looking at a file costs, whatever its size
_MEGABYTE = 1e6
_MIN_SECONDS = 1.0  # of measuring before anything is said


class ImportClock:
    """Counts what is done and what is left of each kind."""

    def __init__(self, files: Sequence[FoundFile]) -> None:
        self._left: defaultdict[DocumentKind, float] = defaultdict(float)
        self._done: defaultdict[DocumentKind, float] = defaultdict(float)
        self._seconds: defaultdict[DocumentKind, float] = defaultdict(float)
        for found in files:
            self._left[_kind(found)] += _cost(found)

    def passed(self, found: FoundFile) -> None:
        """A file took no time worth counting: it had been imported already."""
        self._left[_kind(found)] -= _cost(found)

    def took(self, found: FoundFile, seconds: float) -> None:
        """A file was read, and saved or skipped."""
        kind = _kind(found)
        self._left[kind] -= _cost(found)
        self._done[kind] += _cost(found)
        self._seconds[kind] += seconds

    def seconds_left(self) -> float | None:
        """The estimate; None while too little was seen."""
        if sum(self._seconds.values()) < _MIN_SECONDS:
            return None
        return sum(
            left / _MEGABYTE * self._rate(kind) for kind, left in self._left.items() if left > 0
        )

    def _rate(self, kind: DocumentKind) -> float:
        return (_FIRST_RATES[kind] + self._seconds[kind]) / (1 + self._done[kind] / _MEGABYTE)


def _kind(found: FoundFile) -> DocumentKind:
    return kind_of_name(found.path.name) or DocumentKind.TEXT


def _cost(found: FoundFile) -> float:
    return _FILE_BYTES + found.num_bytes
