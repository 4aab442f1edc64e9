"""A scripted engine whose drafts quote a text that stands at the beginning of the Trie's log."""

from dataclasses import dataclass, replace

from lookahead.draft import DraftTree, TokenSource
from tests.app.scripted_engine import ScriptedEngine


@dataclass
class QuotingEngine(ScriptedEngine):
    """Accepted tokens come from `quoted` where they stand in it, else from the prompt.

    Args:
        source: of the quoted text, as the Trie has it.
    """

    quoted: bytes = b""
    source: TokenSource = TokenSource.DOCUMENT
    step_length: int = 6

    def draft(self, root: int, accepted: list[int]) -> DraftTree:
        draft = super().draft(root, accepted)
        start = self.quoted.find(bytes(accepted))
        if start < 0:
            return draft
        num_accepted = len(accepted)
        return replace(
            draft,
            sources=(TokenSource.MODEL, *[self.source] * num_accepted, TokenSource.RECYCLED),
            positions=(-1, *range(start, start + num_accepted), -1),
        )
