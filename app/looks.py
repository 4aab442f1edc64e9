"""The looks of tokens: which recorded sources are shown alike, what they are called and mean.

Data alone. Used by the panel, and by Compare.
"""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LOOKS", "Look", "counts_by_look", "look_of"]


@dataclass(frozen=True, slots=True)
class Look:
    """What a look is called within a sentence, and what it means."""

    name: str
    definition: str


LOOKS = {
    "chat": Look(
        "this chat",
        "Accepted tokens drafted from this conversation: its questions, its answers, and this "
        "answer so far.",
    ),
    "history": Look(
        "earlier chats",
        "Accepted tokens drafted from other conversations kept on this machine.",
    ),
    "document": Look(
        "documents",
        "Accepted tokens drafted from the documents you imported.",
    ),
    "recycled": Look(
        "recycled successors",
        "Accepted tokens drafted from what the model thought likely at earlier positions.",
    ),
    "model": Look(
        "the model",
        "Tokens that no draft offered: the first one, and the one the model adds itself at the end "
        "of every step.",
    ),
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
