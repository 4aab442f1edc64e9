"""What the Trie of a service holds."""

from app.services import ChatService
from lookahead.trie import TrieStatistics


def trie_statistics(service: ChatService) -> TrieStatistics:
    """The counts of the Trie of the loaded model."""
    bench = service._worker.bench
    assert bench is not None, "no model is loaded"
    return bench.keeper.trie.statistics()
