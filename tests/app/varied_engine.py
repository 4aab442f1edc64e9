"""A scripted engine whose steps are of every kind: lengths, sources, places, rejected branches.

Used by the tests of the page, in front of the real chat service.
"""

from dataclasses import dataclass

from lookahead.draft import DraftTree, TokenSource
from tests.app.scripted_engine import ScriptedEngine

_LENGTHS = (3, 5, 1, 2, 16, 4, 1, 8, 6, 7)
_SOURCES = (
    TokenSource.DOCUMENT,
    TokenSource.HISTORY,
    TokenSource.RECYCLED,
    TokenSource.PROMPT,
    TokenSource.OUTPUT,
)
_REJECTED = tuple(b"NO")


@dataclass
class VariedEngine(ScriptedEngine):
    """Steps of 1 to 16 tokens, the longest with all sources in it, the others with one each.

    Args:
        document_position, history_position: where the Trie's log has as many tokens of a document,
            and of an earlier chat, as the longest draft.
    """

    document_position: int = 0
    history_position: int = 0

    def length_of_step(self, index: int) -> int:
        return _LENGTHS[index % len(_LENGTHS)]

    def draft(self, root: int, accepted: list[int]) -> DraftTree:
        num_accepted = len(accepted)
        per_source = 3 if num_accepted == 15 else num_accepted
        sources = [
            _SOURCES[(num_accepted + at // per_source) % len(_SOURCES)]
            for at in range(num_accepted)
        ]
        places = {
            TokenSource.DOCUMENT: self.document_position,
            TokenSource.HISTORY: self.history_position,
            TokenSource.PROMPT: 3,
            TokenSource.OUTPUT: 3,
        }
        positions = [
            places[source] + at if source in places else -1 for at, source in enumerate(sources)
        ]
        num_rejected = len(_REJECTED)
        return DraftTree(
            token_ids=(root, *accepted, *_REJECTED),
            parents=(-1, *range(num_accepted), 0, num_accepted + 1),
            sources=(
                TokenSource.MODEL,
                *sources,
                *[TokenSource.RECYCLED] * num_rejected,
            ),
            probabilities=(1.0, *(0.9**at for at in range(1, num_accepted + 1)), 0.2, 0.05),
            positions=(-1, *positions, *[-1] * num_rejected),
            match_length=2,
        )
