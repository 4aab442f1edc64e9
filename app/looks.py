"""The looks of tokens: which recorded sources are shown alike, and what they are called.

Data alone. Used by the panel, and by Compare.
"""

from collections.abc import Mapping

__all__ = ["LOOKS", "counts_by_look", "look_of"]

# look: what it is called within a sentence
LOOKS = {
    "chat": "this chat",
    "history": "earlier chats",
    "document": "documents",
    "recycled": "recycled successors",
    "model": "the model",
}
_LOOKS_OF_SOURCES = {"prompt": "chat", "output": "chat"}


def look_of(source: str) -> str:
    """The look of a recorded source: the conversation's own tokens share one."""
    return _LOOKS_OF_SOURCES.get(source, source)


def counts_by_look(counts: Mapping[str, int]) -> dict[str, int]:
    """Tokens by look, of tokens by recorded source; all looks, in their order."""
    found = dict.fromkeys(LOOKS, 0)
    for source, count in counts.items():
        found[look_of(source)] += count
    return found
