"""How much to run at once of what nobody waits for: as much as fits into a moment.

Knows numbers only. Used by the work of idle time, which gives way between two batches.
"""

from dataclasses import dataclass

__all__ = ["Pace"]

# Whoever asks something meanwhile waits for one batch at most: half of what is felt as a delay
# (0.5 s), since the size of a batch is chosen by the time of the one before.
BATCH_SECONDS = 0.25
# A forward reads all weights however few its rows: 16 of them take less than twice the time of one.
_FEWEST_ROWS = 16


@dataclass(slots=True)
class Pace:
    """The rows of the next batch, by what the one before took; 16 at least."""

    max_rows: int
    num_rows: int = _FEWEST_ROWS

    def __post_init__(self) -> None:
        self.num_rows = min(self.num_rows, self.max_rows)

    def observe(self, seconds: float) -> None:
        """A batch took so long; the next one is twice as large at most."""
        growth = min(2.0, BATCH_SECONDS / max(seconds, 1e-9))
        self.num_rows = min(self.max_rows, max(_FEWEST_ROWS, int(self.num_rows * growth)))
