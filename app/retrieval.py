"""Documents in a chat: the passages for a question, and what of them stands in the prompt.

The passages are quoted as the tokens they are in their document wherever these are found there, so
that each of them can be traced to it. Knows the database and a tokenizer, no model. Used by the
answer task, in the worker's thread.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.chat_template import Quote
from app.plain_text import on_one_line
from app.prompting import encode_text, find_control_ids
from storage import Database, DocumentPassage, RecordNotFoundError

__all__ = ["Retrieval"]

_OPENING = "Here are passages of my documents.\n\n"
_HEADER = "[{number}] {name}\n"
_GAP = "\n\n"
_CLOSING = "Answer my question with the words of these passages.\n\n"
_MIN_LENGTH = 40  # tokens below which a part of a passage is not worth quoting
_NEAR = 100_000  # tokens on each side of where a passage should stand in its sequence


class Retrieval:
    """Finds passages for one tokenizer's model."""

    def __init__(self, database: Database, tokenizer: Any, tokenizer_id: int) -> None:
        self._database = database
        self._tokenizer = tokenizer
        self._tokenizer_id = tokenizer_id
        self._control_ids = find_control_ids(tokenizer)

    def find(self, question: str, previous: str, max_length: int) -> tuple[DocumentPassage, ...]:
        """The best passages for a question that take up at most so many tokens in the prompt.

        The best one is the last, next to the question: small models quote what they read last.

        Args:
            previous: the question before it, for one that alone says too little ("and why?").
        """
        found = self._database.passages.find(question)
        if not found and previous:
            found = self._database.passages.find(f"{question}\n{previous}")
        left = max_length - len(self._encode(_OPENING)) - len(self._encode(_CLOSING))
        kept: list[DocumentPassage] = []
        for whole in found:
            room = left - len(self._encode(_header(len(kept) + 1, whole) + _GAP))
            if room < _MIN_LENGTH:
                break
            # the beginning of the best one is better than nothing
            passage = whole if kept else self._shortened(whole, room)
            length = len(self._encode(passage.text))
            if length <= room:
                kept.append(passage)
                left = room - length
        return tuple(reversed(kept))

    def _shortened(self, passage: DocumentPassage, max_length: int) -> DocumentPassage:
        """So many tokens of a passage at most, in whole words where there are any."""
        text = passage.text
        while (length := len(self._encode(text))) > max_length:
            text = text[: len(text) * max_length // (length + 1)]
            text = text.rsplit(maxsplit=1)[0] if len(text.split()) > 1 else text
        return replace(passage, text=text, end=passage.start + len(text))

    def quotes(self, passages: Sequence[DocumentPassage]) -> tuple[Quote, ...]:
        """The passages as they stand before the question; nothing where there are none."""
        return tuple(self._quotes(passages)) if passages else ()

    def _quotes(self, passages: Sequence[DocumentPassage]) -> Iterator[Quote]:
        opening = _OPENING
        for number, passage in enumerate(passages, 1):
            header = tuple(self._encode(opening + _header(number, passage)))
            # its name is the document's, too: what is drafted from it goes with the document
            sequence_id = self._database.passages.sequence_of(passage.source_id)
            yield Quote(header, sequence_id=sequence_id)
            token_ids = tuple(self._encode(passage.text))
            yield self._placed(token_ids, passage, sequence_id)
            opening = _GAP
        yield Quote(tuple(self._encode(_GAP + _CLOSING)))

    def _placed(
        self, token_ids: tuple[int, ...], passage: DocumentPassage, any_sequence_id: int | None
    ) -> Quote:
        """The passage with its place among its document's tokens, where it stands there as it is.

        Its first and last token may be others there, since the text went on.
        """
        unplaced = Quote(token_ids, is_passage=True, sequence_id=any_sequence_id)
        core = np.asarray(token_ids[1:-1], np.int32)
        if not len(core):
            return unplaced
        share = passage.start / max(1, self._num_characters(passage))
        sequences = self._database.passages.sequences_of(passage.source_id, self._tokenizer_id)
        for sequence_id, num_tokens in sequences:
            start = max(0, int(share * num_tokens) - _NEAR)
            try:
                tokens = self._database.sequences.token_ids(
                    sequence_id, start=start, end=min(num_tokens, start + 2 * _NEAR)
                )
            except RecordNotFoundError:  # deleted in this moment
                continue
            found = _find(tokens, core)
            if found is not None and start + found > 0:
                return Quote(
                    token_ids, is_passage=True, sequence_id=sequence_id, offset=start + found - 1
                )
        return unplaced

    def _num_characters(self, passage: DocumentPassage) -> int:
        try:
            return self._database.sources.get(passage.source_id).num_characters
        except RecordNotFoundError:  # deleted in this moment
            return passage.end

    def _encode(self, text: str) -> list[int]:
        return encode_text(self._tokenizer, text, self._control_ids)


def _header(number: int, passage: DocumentPassage) -> str:
    return _HEADER.format(number=number, name=on_one_line(passage.name))


def _find(tokens: NDArray[np.int32], wanted: NDArray[np.int32]) -> int | None:
    """Where `wanted` first stands in `tokens`."""
    places = np.flatnonzero(tokens[: max(0, len(tokens) - len(wanted) + 1)] == wanted[0])
    for offset in range(1, len(wanted)):
        places = places[tokens[places + offset] == wanted[offset]]
        if not len(places):
            return None
    return int(places[0]) if len(places) else None
