"""The draft tree: tokens proposed for one verifying forward, and where each came from.

Knows no model, no Trie and no text. Built by drafters, read by the adapter (mask and positions),
by the acceptance walk and by the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["SOURCE_CODES", "DraftTree", "TokenSource", "quoted_position"]


class TokenSource(StrEnum):
    """Where a token came from. `PROMPT` and `OUTPUT` are this conversation's own."""

    PROMPT = "prompt"
    OUTPUT = "output"
    HISTORY = "history"
    DOCUMENT = "document"
    RECYCLED = "recycled"
    MODEL = "model"


SOURCE_CODES = {source: code for code, source in enumerate(TokenSource)}
"""Sources as numbers, for arrays of them."""


def quoted_position(position: int) -> int:
    """A position of the request view as a `DOCUMENT` node carries it, and back again.

    A passage quoted in the prompt stands in the request; -2 and below tell it from the Trie's log.
    """
    return -2 - position


@dataclass(frozen=True, slots=True)
class DraftTree:
    """A tree of tokens given by parent indexes; node 0 is the root, a parent precedes its children.

    Nodes stand in depth-first order with the likeliest child first, so that the first branch is
    nodes 0, 1, 2, … and its keys land where plain decoding puts them.

    Args:
        token_ids: token of each node; `token_ids[0]` is the root, the last committed token.
        parents: node index of each node's parent; -1 for the root.
        sources: source of each node; `MODEL` for the root.
        probabilities: estimated probability that the node is reached, 1.0 for the root.
        positions: where the token stands in the log of its source (a position of the request view
            for `PROMPT` and `OUTPUT`, of the Trie's log for `HISTORY` and `DOCUMENT`); -1: nowhere;
            below that, a document's passage in the prompt: see `quoted_position`.
        match_length: length in tokens of the longest context suffix that was found; 0: none.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    sources: tuple[TokenSource, ...]
    probabilities: tuple[float, ...]
    positions: tuple[int, ...]
    match_length: int = 0

    @classmethod
    def root_only(cls, token_id: int) -> "DraftTree":
        """The tree that drafts nothing: a plain decode step."""
        return cls((token_id,), (-1,), (TokenSource.MODEL,), (1.0,), (-1,))

    @property
    def width(self) -> int:
        """Number of nodes, root included."""
        return len(self.token_ids)

    @property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    def children(self) -> list[dict[int, int]]:
        """For each node, its children as token id → node index."""
        children: list[dict[int, int]] = [{} for _ in self.token_ids]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                children[parent][self.token_ids[node]] = node
        return children

    def within(self, vocab_size: int) -> "DraftTree":
        """The tree without ids that such a vocabulary has not, and what stands behind them."""
        if min(self.token_ids) >= 0 and max(self.token_ids) < vocab_size:
            return self
        kept: list[int] = []
        for node, (token_id, parent) in enumerate(zip(self.token_ids, self.parents, strict=True)):
            if 0 <= token_id < vocab_size and (parent < 0 or parent in kept):
                kept.append(node)
        return self.subtree(kept)

    def subtree(self, nodes: Sequence[int]) -> "DraftTree":
        """The tree of these nodes alone, ascending, each with its parent among them."""
        if len(nodes) == self.width:
            return self
        new_index = {node: index for index, node in enumerate(nodes)}
        return DraftTree(
            token_ids=tuple(self.token_ids[node] for node in nodes),
            parents=(-1, *[new_index[self.parents[node]] for node in nodes[1:]]),
            sources=tuple(self.sources[node] for node in nodes),
            probabilities=tuple(self.probabilities[node] for node in nodes),
            positions=tuple(self.positions[node] for node in nodes),
            match_length=self.match_length,
        )
