"""The numbers of the Trie: what each is called, what it means, and how it is written.

Knows frozen pictures only. The Trie tab and the command line show the same ones.
"""

from app.numbers import counted
from app.services.trie_views import TrieOverview
from lookahead.draft import TokenSource

__all__ = ["percent", "shown_text", "statistics_lines"]

_DOCUMENT, _HISTORY = TokenSource.DOCUMENT, TokenSource.HISTORY
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_SIGNS = {" ": "·", "\n": "↵", "\t": "⇥", "\r": "␍"}


def statistics_lines(overview: TrieOverview) -> list[tuple[str, str, str]]:
    """Name, value and definition of each number of the whole Trie."""
    return [*_lines_of_content(overview), *_lines_of_drafts(overview)]


def _lines_of_content(overview: TrieOverview) -> list[tuple[str, str, str]]:
    statistics = overview.statistics
    by_source = statistics.num_tokens_by_source
    documents, history = (by_source.get(source, 0) for source in (_DOCUMENT, _HISTORY))
    return [
        (
            "tokens",
            f"{statistics.num_tokens - statistics.num_hidden_tokens:,}",
            "Tokens that drafts can be taken from; not what was deleted, while that can be undone.",
        ),
        (
            "from documents",
            f"{documents:,} in {counted(overview.num_documents, 'document')}",
            "Tokens of the documents you imported.",
        ),
        (
            "from chats",
            f"{history:,} in {counted(overview.num_chats, 'chat')}",
            "Tokens of questions and answers of the chats on this machine.",
        ),
        (
            "memory",
            f"{size(statistics.num_bytes)} of {size(overview.budget_bytes)}",
            "Of all tokens with their order, about eight bytes each. Beyond the budget the oldest "
            "chats leave the Trie first; nothing of them is deleted.",
        ),
        (
            "left out",
            f"{counted(overview.num_tokens_left_out, 'token')} "
            f"of {counted(overview.num_sequences_left_out, 'text')}"
            if overview.num_sequences_left_out
            else "nothing",
            "What found no room within the budget. It is kept, and comes back with room.",
        ),
        (
            "segments",
            f"{statistics.num_segments:,} and {counted(statistics.tail_length, 'token')} unsorted",
            "Sorted parts, which are merged while nothing is asked, and what came since.",
        ),
    ]


def _lines_of_drafts(overview: TrieOverview) -> list[tuple[str, str, str]]:
    answers = overview.answers
    return [
        (
            "hit rate",
            percent(overview.hit_rate) if answers.num_tokens else "–",
            "Share of all answers' tokens that were drafted from the Trie, from documents or "
            "earlier chats, and accepted.",
        ),
        (
            "acceptance",
            percent(answers.num_accepted_tokens / answers.num_drafted_tokens)
            if answers.num_drafted_tokens
            else "–",
            "Drafted tokens that the model accepted, of all answers and all sources together.",
        ),
        (
            "tokens per step",
            f"{1 + answers.num_accepted_tokens / answers.num_steps:.2f}"
            if answers.num_steps
            else "–",
            "Mean accepted length + 1 over the decode steps of all answers; 1.00 is no gain.",
        ),
    ]


def size(num_bytes: int) -> str:
    """`412 bytes`, `8.1 MB`."""
    value, unit = float(num_bytes), 0
    while value >= 1_000 and unit < len(_UNITS) - 1:
        value /= 1_000
        unit += 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{num_bytes} bytes"


def percent(share: float) -> str:
    """`38 %`; `0.4 %` below one."""
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1g} %"


def shown_text(text: str) -> str:
    """A token's text with its white space to be seen."""
    return "".join(_SIGNS.get(character, character) for character in text)
