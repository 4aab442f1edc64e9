"""Growth: a draft tree with all that was known at its nodes, as flat arrays.

And what is known before, and what it must keep to. Knows no rule by which a tree grows. Made by
`growing.py`; the drafter keeps the last one and learns from what was *said* at the nodes reached.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.calibration import Turn
from lookahead.candidates import IntArray
from lookahead.evidence import Evidence
from lookahead.successors import SuccessorRows

__all__ = ["BRANCH", "NODE", "SAID", "Bounds", "FloatArray", "Growth", "Known", "Records"]

FloatArray = NDArray[np.float64]
Records = NDArray[Any]  # of the types below

NODE = np.dtype(
    [
        ("branch", np.int64),  # that became it
        ("depth", np.int64),
        ("first_branch", np.int64),  # its children, whether they became nodes or not
        ("end_branch", np.int64),
        ("first_turn", np.int64),  # what each kind of evidence said here
        ("end_turn", np.int64),
    ]
)
BRANCH = np.dtype(
    [
        ("token_id", np.int64),
        ("parent", np.int64),  # a node
        ("share", np.float64),  # what all kinds gave it, added up; of a node's branches 1 at most
        ("kinds", np.int64),  # that named it
        ("probability", np.float64),  # of being reached from the root
        ("first_place", np.int64),  # that agrees with the path to it; -1: none
        ("last_place", np.int64),
        ("latest_said", np.int64),
    ]
)
SAID = np.dtype([("branch", np.int64), ("share", np.float64), ("cell", np.int64)])


NUM_NODES, NUM_BRANCHES, NUM_SAID, NUM_TURNS, NUM_WAITING = range(5)  # indexes into `counts`


class Known(NamedTuple):
    """What is known before the draft.

    Attributes:
        evidence: places where the context was seen before.
        successors: rows of likely tokens, of one token and of two.
        has_rows: whether there are any.
        recent_ids: [NUM_RECENT] near misses, likeliest first; -1: no more.
        occurs: by token id, whether it occurs in the conversation.
        previous_id: the token before the root; -1: not known.
    """

    evidence: Evidence
    successors: SuccessorRows
    has_rows: bool
    recent_ids: IntArray
    occurs: NDArray[np.bool_]
    previous_id: int


class Bounds(NamedTuple):
    """What the tree must keep to: see `DraftLimits`."""

    max_width: int
    max_depth: int
    min_probability: float
    excluded_ids: IntArray


class Growth(NamedTuple):
    """A tree with all that was known at its nodes.

    Attributes:
        counts: of nodes, branches, things said, turns, and branches that wait for a row.
        nodes: in the order in which they were taken, the root first.
        branches: those of one node stand together, in the order in which they were named. A node
            was a branch before; the root is branch 0.
        said: what one kind of evidence said about one branch; a turn is all it said at a node.
        turn_ends: [num_turns] where each turn ends in `said`.
        next_places: [num_places] the next one that agrees with the same path; -1: none.
        waiting: a heap of branches, the likeliest first.
        slots: a hash table of one node's branches by token.
        bystander_factors: [max_depth, num_bystanders] what noise does to their weights; below 0:
            not yet known.
    """

    counts: IntArray
    nodes: Records
    branches: Records
    said: Records
    turn_ends: IntArray
    next_places: IntArray
    waiting: IntArray
    slots: IntArray
    bystander_factors: FloatArray

    def turns(self, node: int) -> list[Turn]:
        """What each kind of evidence said at a node."""
        one = self.nodes[node]
        begin = int(self.turn_ends[one["first_turn"] - 1]) if one["first_turn"] else 0
        turns: list[Turn] = []
        for end in self.turn_ends[one["first_turn"] : one["end_turn"]].tolist():
            said = self.said[begin:end]
            token_ids = self.branches["token_id"][said["branch"]]
            turns.append((token_ids.tolist(), said["share"].tolist(), said["cell"].tolist()))
            begin = end
        return turns

    def foretold(self, node: int, token_id: int) -> tuple[list[float], list[int], int | None]:
        """Shares and kinds of all that might have followed a node, and which of it came."""
        one = self.nodes[node]
        branches = self.branches[one["first_branch"] : one["end_branch"]]
        came_at = np.flatnonzero(branches["token_id"] == token_id)
        return (
            branches["share"].tolist(),
            branches["kinds"].tolist(),
            int(came_at[0]) if len(came_at) else None,
        )

    def child(self, node: int, token_id: int) -> int | None:
        """The child of a node with this token."""
        branches = self.branches[self.nodes["branch"][: self.counts[NUM_NODES]]]
        found = np.flatnonzero((branches["parent"] == node) & (branches["token_id"] == token_id))
        return int(found[0]) if len(found) else None
