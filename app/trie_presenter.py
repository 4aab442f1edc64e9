"""What the Trie tab shows, as plain dictionaries that become JSON.

Knows frozen pictures only. Called by `app.trie_handlers`; the page's script puts every string into
the document as text, never as markup.
"""

from typing import Any

from app.numbers import counted, number
from app.plain_text import displayable, displayable_name, shortened
from app.services.trie_views import BranchView, PathView, TrieOverview
from app.trie_numbers import percent, shown_text, statistics_lines

__all__ = ["overview_value", "path_value"]

_MAX_NAME_LENGTH = 60


def overview_value(overview: TrieOverview | None, note: str = "") -> dict[str, Any]:
    """The value of the tab: the numbers of the whole Trie; of one that is not open yet, a note."""
    numbers = [] if overview is None else statistics_lines(overview)
    return {"note": displayable(note), "numbers": [number(*line) for line in numbers]}


def path_value(path: PathView) -> dict[str, Any]:
    """What follows a text: the path as it was found, and its branches."""
    return {
        "steps": [
            {"id": token_id, "text": displayable(shown_text(text))} for token_id, text in path.steps
        ],
        "line": _line(path),
        "branches": [_branch(branch, path.count) for branch in path.branches],
    }


def _line(path: PathView) -> str:
    if not path.count:
        return "The Trie is empty: import documents, or chat."
    if path.num_left_out and not path.steps:
        return "Nothing of this is in the Trie."
    parts = []
    if path.num_left_out:
        parts.append("All of it does not occur; this is its longest end that does.")
    if not path.steps:
        parts.append(f"{counted(path.num_branches, 'different token')}, the most frequent first.")
    else:
        parts.append(f"Found {counted(path.count, 'time')}, {_followed(path)}.")
    return " ".join(parts)


def _followed(path: PathView) -> str:
    if not path.num_branches:
        return "always at the end of a text"
    followed = f"followed by {counted(path.num_branches, 'different token')}"
    if path.num_ends:
        followed += f", {counted(path.num_ends, 'time')} at the end of a text"
    if path.num_branches > len(path.branches):
        followed += f"; the {len(path.branches)} most frequent"
    return followed


def _branch(branch: BranchView, num_places: int) -> dict[str, Any]:
    share = branch.count / num_places
    return {
        "id": branch.token_id,
        "text": displayable(shown_text(branch.text)),
        "after": displayable(shown_text(branch.example)),
        "count": f"{branch.count:,}",
        "share": share,
        "percent": percent(share),
        "document_share": round(branch.document_share, 3),
        "sources": [
            {
                "kind": source.kind,
                "id": source.id,
                "name": shortened(displayable_name(source.name), _MAX_NAME_LENGTH),
                "percent": percent(source.share),
            }
            for source in branch.sources
        ],
        "more": branch.num_more_sources,
    }
