"""Jupyter notebooks to text: words as they stand, code and what it printed in fences.

Knows the format's fourth version, and the third's cells. Called by the converters, in the child.
"""

import json
from typing import Any

from app.importing.errors import UnreadableError

__all__ = ["read_notebook"]


def read_notebook(source: str) -> str:
    """The cells in order; pictures and errors that were printed are left out."""
    try:
        notebook = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise UnreadableError("not a Jupyter notebook (damaged)") from error
    cells = _list(notebook, "cells") or [
        cell for sheet in _list(notebook, "worksheets") for cell in _list(sheet, "cells")
    ]
    language = _language(notebook)
    return "\n\n".join(filter(None, (_cell_text(cell, language) for cell in cells)))


def _language(notebook: Any) -> str:
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else "python"


def _cell_text(cell: Any, language: str) -> str:
    source = _joined(cell, "source") or _joined(cell, "input")
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return source.strip()
    parts = [_fenced(source, language)]
    for output in _list(cell, "outputs"):
        data = output.get("data") if isinstance(output, dict) else None
        parts.append(_fenced(_joined(output, "text") or _joined(data, "text/plain"), ""))
    return "\n\n".join(filter(None, parts))


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```" if text.strip() else ""


def _joined(value: Any, name: str) -> str:
    """A text that may be given in lines."""
    found = value.get(name) if isinstance(value, dict) else None
    lines = found if isinstance(found, list) else [found]
    return "".join(line for line in lines if isinstance(line, str))


def _list(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
