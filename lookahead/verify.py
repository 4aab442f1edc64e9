"""The acceptance walk: which drafted tokens the model would have said itself.

Pure bookkeeping over node indexes; whoever calls it knows how the model chooses a token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lookahead.draft import DraftTree

__all__ = ["Acceptance", "accept"]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What one verifying forward yielded.

    Args:
        nodes: indexes of the accepted nodes in path order, root excluded.
        token_ids: their tokens, then the bonus token.
    """

    nodes: tuple[int, ...]
    token_ids: tuple[int, ...]

    @property
    def accepted_length(self) -> int:
        """Drafted tokens accepted, bonus excluded."""
        return len(self.nodes)


def accept(draft: DraftTree, choose: Callable[[int, Sequence[int]], int]) -> Acceptance:
    """Walk from the root as long as a child carries the token that the model chooses.

    `choose(node, path)` is called once per emitted token, in order: it returns the token chosen
    behind `node`; `path` are the tokens chosen before it in this walk.
    """
    children = draft.children()
    node = 0
    nodes: list[int] = []
    token_ids: list[int] = []
    while True:
        token_id = choose(node, token_ids)
        token_ids.append(token_id)
        child = children[node].get(token_id)
        if child is None:
            return Acceptance(tuple(nodes), tuple(token_ids))
        nodes.append(child)
        node = child
