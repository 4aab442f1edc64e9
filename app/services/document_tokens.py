"""A document's text as token ids, in batches of pieces: a tokenizer takes 180 bytes a character.

Knows a tokenizer, no database. Used by imports and by `DocumentIndexing`.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.prompting import encode_text

__all__ = ["encode_batches", "joined"]

PIECE_LENGTH = 64 * 1024  # characters
_BATCH_LENGTH = 8  # pieces, which a fast tokenizer takes on several cores
# Behind a word and before the white space that follows: there most tokenizers part words anyway,
# so that the ids are those of the whole text. Some begin each piece with a space of their own.
_BORDER = re.compile(r"(?<=\w)(?=\s)")


def encode_batches(
    tokenizer: Any, text: str, control_ids: frozenset[int]
) -> Iterator[NDArray[np.int32]]:
    """Ids of a whole document, batch by batch; control tokens in it stay text.

    Args:
        control_ids: ids that only a template may write.
    """
    pieces = _pieces(text)
    while batch := list(islice(pieces, _BATCH_LENGTH)):
        found = tokenizer(
            batch, add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        encoded = [
            ids if control_ids.isdisjoint(ids) else encode_text(tokenizer, piece, control_ids)
            for piece, ids in zip(batch, found, strict=True)
        ]
        yield np.concatenate([np.asarray(ids, dtype=np.int32) for ids in encoded])


def joined(batches: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The batches as one sequence."""
    return np.concatenate([np.empty(0, np.int32), *batches])


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PIECE_LENGTH:
        end = start + PIECE_LENGTH
        borders = [
            border.end() for border in _BORDER.finditer(text, start + PIECE_LENGTH // 2, end)
        ]
        end = borders[-1] if borders else end
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
