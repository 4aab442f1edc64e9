"""A document's text as token ids, a piece at a time: a tokenizer takes hundreds of bytes a token.

Knows a tokenizer, no database. Used by the import job and by the workbench.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.prompting import encode_text

__all__ = ["encode_document"]

PIECE_LENGTH = 64 * 1024  # characters
# Where a tokenizer parts words anyway: between a line's end and a line that begins with a word.
_LINE_START = re.compile(r"\n(?=\S)")
_WORD_START = re.compile(r"(?<=\S)(?=\s)")


def encode_document(
    tokenizer: Any,
    text: str,
    control_ids: frozenset[int],
    *,
    between_pieces: Callable[[], None] = lambda: None,
) -> NDArray[np.int32]:
    """Ids of a whole document; control tokens in it stay text.

    Args:
        control_ids: ids that only a template may write.
        between_pieces: called after each; what it raises ends the work.
    """
    encoded: list[NDArray[np.int32]] = []
    for piece in _pieces(text):
        encoded.append(np.asarray(encode_text(tokenizer, piece, control_ids), dtype=np.int32))
        between_pieces()
    return np.concatenate(encoded) if encoded else np.empty(0, np.int32)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PIECE_LENGTH:
        end = _last_border(text, start + PIECE_LENGTH // 2, start + PIECE_LENGTH)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _last_border(text: str, start: int, end: int) -> int:
    """The last good place to cut in `start … end`; `end` where there is none."""
    for border in (_LINE_START, _WORD_START):
        found = [match.end() for match in border.finditer(text, start, end)]
        if found:
            return found[-1]
    return end
