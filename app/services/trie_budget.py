"""The Trie's budget: what stays in the index where not everything fits.

Knows rows and bytes, no Trie and no database. Nothing is ever deleted by it. Called by the Trie's
keeper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DEFAULT_BUDGET_BYTES", "Indexable", "LeftOut", "bytes_of", "choose"]

DEFAULT_BUDGET_BYTES = 2**30  # about 130 million tokens
ROOM_SHARE = 0.9  # of the budget, once something had to leave: so that not every answer pushes one

_TOKEN_BYTES = 8  # the token and its rank
_SEQUENCE_BYTES = 37  # its border and its row in the table of sequences

Indexable = tuple[int, str, int, bool]  # sequence id, kind, number of tokens, is pinned


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is kept but not drafted from, since the budget has no room for it."""

    num_sequences: int = 0
    num_tokens: int = 0


def bytes_of(rows: Sequence[Indexable]) -> int:
    """Memory that the Trie takes for these sequences."""
    return sum(_TOKEN_BYTES * num_tokens + _SEQUENCE_BYTES for _, _, num_tokens, _ in rows)


def choose(rows: Sequence[Indexable], budget_bytes: float) -> set[int]:
    """The ids of the sequences that stay: pinned ones, however many, and of the rest what fits.

    The oldest history leaves first, documents only when no history is left; but one text without
    room keeps out no other.
    """
    stays = {row[0] for row in rows if row[3]}
    room = budget_bytes - bytes_of([row for row in rows if row[3]])
    for row in sorted(rows, key=lambda row: (row[1] != "document", -row[0])):
        size = bytes_of([row])
        if row[0] not in stays and size <= room:
            stays.add(row[0])
            room -= size
    return stays
