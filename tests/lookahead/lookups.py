"""What stores and trees hold, found by looking at all of it."""

import numpy as np

from lookahead.candidates import MATCH_LENGTHS, Candidates, IntArray
from lookahead.draft import DraftTree
from lookahead.successors import SuccessorTable


def level_of(match_lengths: IntArray) -> IntArray:
    """Index into `MATCH_LENGTHS` of the longest one that each match reaches."""
    return np.searchsorted(MATCH_LENGTHS, match_lengths, side="right") - 1


def position_of(found: Candidates, candidate: int, depth: int) -> int:
    """Where in the store the token stands that `windows[candidate, depth]` shows."""
    start = int(found.positions[candidate])
    return start + depth % (found.wraps_at - start)


def pair_successors(table: SuccessorTable, previous_id: int, token_id: int) -> list[int]:
    """Successors of two tokens in a row, likeliest first; none where they are not known."""
    pair = (previous_id << 32) | token_id
    slots = np.flatnonzero(table.rows.pairs == pair) if previous_id >= 0 else []
    if not len(slots):
        return []
    (slot,) = slots
    row: list[int] = table.rows.pair_top_ids[slot].tolist()
    return row[: row.index(-1)] if -1 in row else row


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Node indexes from the root to `node`, both included."""
    path = [node]
    while tree.parents[path[-1]] >= 0:
        path.append(tree.parents[path[-1]])
    return path[::-1]
