"""The acceptance walk: which drafted tokens the model would have said itself.

Pure bookkeeping over node indexes; whoever calls it knows how the model chooses a token.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lookahead.draft import DraftTree

__all__ = ["Acceptance", "accept"]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What one verifying forward yielded.

    Args:
        nodes: indexes of the accepted nodes in path order, root excluded.
        token_ids: their tokens, then the bonus token, which may be an end token.
    """

    nodes: tuple[int, ...]
    token_ids: tuple[int, ...]

    @property
    def accepted_length(self) -> int:
        """Drafted tokens accepted, bonus excluded."""
        return len(self.nodes)


def accept(
    draft: DraftTree,
    choose: Callable[[int, Sequence[int]], int],
    end_ids: Collection[int] = frozenset(),
) -> Acceptance:
    """Walk from the root as long as a child carries the token that the model chooses.

    Args:
        choose: called once per token, in order, with a node and the tokens chosen before it in
            this walk; returns the token chosen behind the node.
        end_ids: tokens behind which nothing is chosen; one of them is never an accepted node.
    """
    children = draft.children()
    node = 0
    nodes: list[int] = []
    token_ids: list[int] = []
    while True:
        token_id = choose(node, token_ids)
        token_ids.append(token_id)
        child = None if token_id in end_ids else children[node].get(token_id)
        if child is None:
            return Acceptance(tuple(nodes), tuple(token_ids))
        nodes.append(child)
        node = child
