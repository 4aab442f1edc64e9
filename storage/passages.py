"""Documents in chats: which chats use them, the passages that answer a question, and those quoted.

A quoted passage is kept as a reference, so that nothing of a deleted document stays with the
answers. Knows no tokens and no prompts. Called by the app's services.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing

from storage.connections import Connections
from storage.conversations import not_found as no_such_chat
from storage.errors import DatabaseDamagedError
from storage.messages import not_found as no_such_message
from storage.passage_text import Span, content_words, likely_spans, split_passages
from storage.records import DocumentPassage
from storage.search_index import put_aside

__all__ = ["PassageReference", "Passages"]

PassageReference = tuple[int, int, int]  # source id, first character, end

MAX_DOCUMENTS = 16  # looked into for one question
MAX_TEXT_LENGTH = 300_000  # characters split as a whole; of a longer text, what is near the words
LEAST_SCORE = 0.6  # of the best passage's; below that, a passage is about something else
NAME_WEIGHT = 0.5  # of a word in the document's name, against one in the passage


class Passages:
    """The columns `conversations.uses_documents` and `messages.passages`, and the search."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def are_used(self, conversation_id: int) -> bool:
        """Whether a chat's questions are answered with passages. Raises RecordNotFoundError."""
        row = self._connections.row(
            "SELECT uses_documents FROM shown_conversations WHERE id = ?", [conversation_id]
        )
        if row is None:
            raise no_such_chat(conversation_id)
        return bool(row["uses_documents"])

    def use(self, conversation_id: int, is_used: bool) -> None:
        """Switch that on or off. Raises RecordNotFoundError."""
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE conversations SET uses_documents = ? WHERE id = ? AND deleted_at IS NULL",
                [int(is_used), conversation_id],
            )
            if not cursor.rowcount:
                raise no_such_chat(conversation_id)

    def save(self, message_id: int, references: Iterable[PassageReference]) -> None:
        """Remember what was quoted for an answer. Raises RecordNotFoundError."""
        with self._connections.transaction() as connection:
            cursor = connection.execute(
                "UPDATE messages SET passages = ?"
                " WHERE id = (SELECT id FROM shown_messages WHERE id = ?)",
                [json.dumps([*references]), message_id],
            )
            if not cursor.rowcount:
                raise no_such_message(message_id)

    def references(self, message_id: int) -> list[PassageReference]:
        """What was quoted for one answer, there or not."""
        row = self._connections.row(
            "SELECT passages FROM shown_messages WHERE id = ?", [message_id]
        )
        return [] if row is None else [(a, b, c) for a, b, c in json.loads(row["passages"])]

    def quoted(self, message_ids: Collection[int]) -> dict[int, tuple[DocumentPassage, ...]]:
        """What was quoted for these answers, in order; what was deleted since is left out."""
        rows = self._connections.rows(
            "SELECT id, passages FROM shown_messages WHERE passages <> '[]'"
            " AND id IN (SELECT value FROM json_each(?))",
            [json.dumps([*message_ids])],
        )
        references: dict[int, list[PassageReference]] = {
            row["id"]: [(source_id, start, end) for source_id, start, end in found]
            for row in rows
            for found in [json.loads(row["passages"])]
        }
        wanted = dict.fromkeys(reference for found in references.values() for reference in found)
        passages = {}
        for source_id, name, uri, text in self._texts({reference[0] for reference in wanted}):
            for reference in wanted:
                if reference[0] == source_id:
                    start, end = reference[1:]
                    passages[reference] = DocumentPassage(
                        source_id, name, uri, start, end, text[start:end]
                    )
        return {
            message_id: tuple(passages[reference] for reference in found if reference in passages)
            for message_id, found in references.items()
        }

    def sequences_of(self, source_id: int, tokenizer_id: int) -> list[tuple[int, int]]:
        """Id and number of tokens of each sequence of a document under a tokenizer."""
        rows = self._connections.rows(
            "SELECT id, num_tokens FROM shown_sequences"
            " WHERE source_id = ? AND +tokenizer_id = ? ORDER BY id",
            [source_id, tokenizer_id],
        )
        return [(row["id"], row["num_tokens"]) for row in rows]

    def sequence_of(self, source_id: int) -> int | None:
        """Any sequence of a document, under whatever tokenizer; None: it has none."""
        row = self._connections.row(
            "SELECT id FROM shown_sequences WHERE source_id = ? ORDER BY id LIMIT 1", [source_id]
        )
        return None if row is None else int(row["id"])

    def find(self, question: str, *, limit: int = 10) -> list[DocumentPassage]:
        """The passages that hold most of a question's words, best first; none overlap.

        The search index finds the documents, its ranking over their passages finds the passages.
        Where it turns out to be damaged it is built anew in idle time, and nothing is found.
        """
        words = content_words(question)
        if not words:
            return []
        try:
            source_ids = self._find_documents(words)
        except DatabaseDamagedError as error:
            put_aside(self._connections, error)
            return []
        passages = [
            DocumentPassage(source_id, name, uri, start, end, text[start:end])
            for source_id, name, uri, text in self._texts(source_ids)
            for start, end in spans_of(text, words)
        ]
        return [passages[index] for index in best(passages, words, limit)]

    def _find_documents(self, words: Sequence[str]) -> list[int]:
        rows = self._connections.rows(
            "SELECT sources.id FROM document_texts_fts"
            " JOIN sources ON sources.id = document_texts_fts.rowid"
            " WHERE document_texts_fts MATCH ? AND deleted_at IS NULL ORDER BY rank LIMIT ?",
            [" OR ".join(f'"{word}" *' for word in words), MAX_DOCUMENTS],
        )
        return [row["id"] for row in rows]

    def _texts(self, source_ids: Collection[int]) -> Iterator[tuple[int, str, str, str]]:
        """Id, name, uri and text of those of these documents that are there, one at a time."""
        for source_id in source_ids:
            row = self._connections.row(
                "SELECT name, uri, text FROM document_texts"
                " JOIN sources ON sources.id = source_id WHERE source_id = ?"
                " AND deleted_at IS NULL",
                [source_id],
            )
            if row is not None:
                yield source_id, row["name"], row["uri"], row["text"]


def spans_of(text: str, words: Sequence[str]) -> Iterator[Span]:
    """The passages of a text; of a long one, only those around the words."""
    regions = [(0, len(text))]
    if len(text) > MAX_TEXT_LENGTH:
        regions = likely_spans(text, words)
    for start, end in regions:
        yield from split_passages(text, start, end)


def best(passages: Sequence[DocumentPassage], words: Sequence[str], limit: int) -> list[int]:
    """Indexes of the passages that rank highest for the words, in an index made for them alone."""
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute(
            "CREATE VIRTUAL TABLE passages USING fts5 (text, name, tokenize = 'porter unicode61')"
        )
        scratch.executemany(
            "INSERT INTO passages (rowid, text, name) VALUES (?, ?, ?)",
            [(index, passage.text, passage.name) for index, passage in enumerate(passages)],
        )
        found = scratch.execute(
            "SELECT rowid, -bm25(passages, 1.0, ?) FROM passages WHERE passages MATCH ?"
            " ORDER BY 2 DESC, rowid LIMIT ?",
            [NAME_WEIGHT, " OR ".join(f'"{word}"' for word in words), limit],
        ).fetchall()
    least = LEAST_SCORE * found[0][1] if found else 0.0
    return [index for index, score in found if score >= least]
