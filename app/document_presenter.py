"""What the Documents tab shows, as strings and plain dictionaries.

Knows records and snapshots, neither gradio nor the services' inner life. The page's scripts put the
strings into the document as text.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from app.document_folders import DocumentFolder
from app.numbers import counted, time_left
from app.plain_text import displayable, displayable_name
from app.services.views import ImportSnapshot

if TYPE_CHECKING:
    from app.services.import_requests import ImportRequest

__all__ = ["document_list", "import_report"]

_MAX_SKIPPED_SHOWN = 200
_MAX_DOCUMENTS_SHOWN = 2_000


def import_report(
    snapshot: ImportSnapshot | None, unfinished: "ImportRequest | None" = None
) -> dict[str, Any]:
    """The value of the import report: one line, the progress, and what was skipped and why.

    Args:
        unfinished: the import that can be gone on with.
    """
    if snapshot is None:
        return {
            "text": _unfinished_line(unfinished),
            "state": "unfinished" if unfinished else "over",
            "done": 0,
            "total": 0,
            "reasons": [],
            "skipped": [],
            "more_skipped": 0,
        }
    is_running = not snapshot.is_over
    counts = Counter(reason for _, reason in snapshot.skipped)
    rare_first = sorted(snapshot.skipped, key=lambda skipped: counts[skipped[1]])
    shown = rare_first[:_MAX_SKIPPED_SHOWN]
    return {
        "text": displayable_name(_import_line(snapshot)),
        "state": "running" if is_running else "unfinished" if unfinished else "over",
        "done": snapshot.num_files_done,
        "total": snapshot.num_files_total if is_running else 0,
        "reasons": [
            f"{counted(count, 'file')}: {displayable_name(reason)}"
            for reason, count in counts.most_common(10)
            if len(snapshot.skipped) > len(shown)
        ],
        "skipped": [
            {"name": displayable_name(path), "reason": displayable_name(reason)}
            for path, reason in shown
        ],
        "more_skipped": len(snapshot.skipped) - len(shown),
    }


def _unfinished_line(unfinished: "ImportRequest | None") -> str:
    if unfinished is None:
        return ""
    first = unfinished.paths[0].name or str(unfinished.paths[0])
    more = f" and {len(unfinished.paths) - 1:,} more" if len(unfinished.paths) > 1 else ""
    return displayable_name(f"The import of {first}{more} was not finished.")


def _import_line(snapshot: ImportSnapshot) -> str:
    if snapshot.status == "waiting":
        return "Waiting until the model is ready …"
    if snapshot.status == "running":
        return _running_line(snapshot)
    taken = (
        f"{counted(snapshot.num_documents, 'document')}, {counted(snapshot.num_tokens, 'token')}"
    )
    if snapshot.status == "failed":
        return f"The import failed: {snapshot.error} Taken in before that: {taken}."
    verb = "Cancelled. Taken in before that" if snapshot.status == "cancelled" else "Imported"
    unchanged = f"; {snapshot.num_unchanged:,} unchanged" if snapshot.num_unchanged else ""
    skipped = f"; {len(snapshot.skipped):,} skipped" if snapshot.skipped else ""
    dropped = (
        f"; {counted(snapshot.num_dropped, 'earlier version')} deleted, which can be undone"
        if snapshot.num_dropped
        else ""
    )
    return f"{verb}: {taken}{unchanged}{skipped}{dropped}."


def _running_line(snapshot: ImportSnapshot) -> str:
    if not snapshot.num_bytes_total and not snapshot.num_files_done:
        return f"Looking for files … {snapshot.num_files_total:,} so far"
    name = PurePath(snapshot.current).name
    files = f"{snapshot.num_files_done:,} of {counted(snapshot.num_files_total, 'file')}"
    left = f" · {time_left(snapshot.seconds_left)}" if snapshot.seconds_left is not None else ""
    return f"Reading {files}{left}" + (f": {name}" if name else " …")


def document_list(folders: Sequence[DocumentFolder]) -> dict[str, Any]:
    """The imported documents by folder: each with a name, where it came from and its length."""
    room = _MAX_DOCUMENTS_SHOWN
    shown = []
    for folder in folders:
        sources = folder.sources[:room]
        room -= len(sources)
        shown.append(
            {
                "key": folder.key,
                "name": displayable_name(folder.name),
                "length": f"{counted(len(folder.sources), 'document')}, "
                f"{counted(sum(source.num_tokens for source in folder.sources), 'token')}",
                "can_update": not folder.is_upload,
                "more": len(folder.sources) - len(sources),
                "documents": [
                    {
                        "id": source.id,
                        "name": displayable_name(source.name),
                        "uri": displayable(source.uri),
                        "length": counted(source.num_tokens, "token"),
                        "is_pinned": source.is_pinned,
                    }
                    for source in sources
                ],
            }
        )
    return {"folders": shown}
