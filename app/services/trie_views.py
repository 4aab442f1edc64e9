"""What the page and the command line are shown of the Trie: frozen pictures.

Data alone. Made by `trie_reader`.
"""

from dataclasses import dataclass

from lookahead.trie import TrieStatistics
from storage.records import AnswerTotals, SourceKind

__all__ = ["BranchView", "NamedSource", "PathView", "SourceShare", "TrieOverview"]


@dataclass(frozen=True, slots=True)
class TrieOverview:
    """The whole Trie of one tokenizer.

    Args:
        model: whose tokenizer it is.
        num_documents, num_chats: whose sequences it can hold.
        budget_bytes: memory it may take.
        num_sequences_left_out, num_tokens_left_out: for which there is no room in it.
        answers: the counters of all answers, whatever they were drafted from.
    """

    model: str
    statistics: TrieStatistics
    num_documents: int
    num_chats: int
    budget_bytes: int
    num_sequences_left_out: int
    num_tokens_left_out: int
    answers: AnswerTotals

    @property
    def hit_rate(self) -> float:
        """Share of all answers' tokens that were drafted from the Trie; 0 without any."""
        counts = self.answers.accepted_by_source
        hits = counts.get("history", 0) + counts.get("document", 0)
        return hits / self.answers.num_tokens if self.answers.num_tokens else 0.0


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A document, or a chat, by its id and name."""

    kind: SourceKind
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class SourceShare:
    """A document or a chat, and the share of a branch's places that lie in it, of a sample."""

    kind: SourceKind
    id: int
    name: str
    share: float


@dataclass(frozen=True, slots=True)
class BranchView:
    """A token that follows a path.

    Args:
        text: what it completes behind the path; `#id` where that is no whole character.
        count: how often it does.
        document_share: share of its places that lie in documents, of a sample.
        sources: those with most of its places, the largest share first.
        example: how one of these places goes on behind it.
    """

    token_id: int
    text: str
    count: int
    document_share: float
    sources: tuple[SourceShare, ...]
    num_more_sources: int
    example: str


@dataclass(frozen=True, slots=True)
class PathView:
    """A path of the Trie and its branches, the most frequent first.

    Args:
        steps: token id and text of each token of the path.
        num_left_out: tokens at the beginning of what was looked for that had to be left out, since
            it does not occur with them.
        count: how often the path occurs. `num_ends`: how often a text ends behind it.
        num_branches: different tokens that follow it.
    """

    steps: tuple[tuple[int, str], ...]
    num_left_out: int
    count: int
    num_ends: int
    num_branches: int
    branches: tuple[BranchView, ...]
