"""Looks into the Trie for people: what it holds, and what follows a prefix, in text.

Knows the database and, once a model is loaded, its Trie and tokenizer. Used by the chat service,
from any thread.
"""

import copy
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.prompting import encode_text
from app.services.errors import EngineNotReadyError
from app.services.step_details import label_of
from app.services.text_stream import REPLACEMENT, token_texts
from app.services.trie_views import (
    BranchView,
    NamedSource,
    PathView,
    SourceShare,
    TrieOverview,
)
from app.services.views import UNTITLED
from app.services.workbench import Workbench
from lookahead.candidates import MAX_MATCH_LENGTH
from lookahead.draft import TokenSource
from lookahead.trie_snapshot import TrieSnapshot
from lookahead.trie_walk import Branch, WalkedPath, walk
from storage import Database

__all__ = ["TrieReader", "variants"]

_PREFIXES = {"document": "document:", "history": "chat:"}
_MAX_BRANCHES = 20
_MAX_SOURCES = 3


class TrieReader:
    """Reads the Trie of the loaded model.

    Args:
        loaded: gives the workbench; None while no model is loaded.
    """

    def __init__(self, database: Database, loaded: Callable[[], Workbench | None]) -> None:
        self._database = database
        self._loaded = loaded
        self._lock = threading.Lock()  # a tokenizer encodes for one thread at a time
        self._tokenizer: tuple[Workbench, Any] | None = None

    def overview(self) -> TrieOverview:
        """What the Trie holds. Raises EngineNotReadyError until it is open."""
        bench = self._bench()
        left_out = bench.keeper.left_out
        return TrieOverview(
            model=bench.ready_state.model,
            statistics=bench.keeper.trie.statistics(),
            num_documents=len(self._database.sources.list()),
            num_chats=len(self._database.conversations.list()),
            budget_bytes=bench.keeper.budget_bytes,
            num_sequences_left_out=left_out.num_sequences,
            num_tokens_left_out=left_out.num_tokens,
            answers=self._database.generations.totals(),
        )

    def walk(self, text: str, path: Sequence[int] = ()) -> PathView:
        """What follows a text, and tokens chosen behind it.

        Of a text that does not occur, the longest end that does is walked.

        Args:
            path: token ids behind the text.

        Raises:
            EngineNotReadyError: the Trie is not open yet.
            ValueError: an id cannot be one.
        """
        bench = self._bench()
        with self._lock:
            tokenizer = self._own_tokenizer(bench)
            snapshot = bench.keeper.trie.snapshot
            found = [
                _walked(snapshot, [*encode_text(tokenizer, variant), *path])
                for variant in variants(text)
            ]
            return self._view(tokenizer, max(found, key=lambda walked: walked.rank))

    def find_sources(self, named: str) -> list[NamedSource]:
        """The documents and chats that somebody may mean.

        By `document:3` or `chat:3`; by name, title, address or path as they are; else by the last
        part of a name.
        """
        documents = [
            (NamedSource("document", source.id, source.name), source.uri)
            for source in self._database.sources.list()
        ]
        chats = [
            (NamedSource("history", chat.id, chat.title or UNTITLED), "")
            for chat in self._database.conversations.list()
        ]
        if not named:
            return []
        paths = {named, Path(named).absolute().as_uri()}
        exact = [
            source
            for source, uri in documents + chats
            if source.name == named
            or uri in paths
            or named == f"{_PREFIXES[source.kind]}{source.id}"
        ]
        return exact or [source for source, _ in documents if Path(source.name).name == named]

    def _bench(self) -> Workbench:
        bench = self._loaded()
        if bench is None:
            raise EngineNotReadyError("The Trie opens with the model, which is not ready yet.")
        return bench

    def _own_tokenizer(self, bench: Workbench) -> Any:
        if self._tokenizer is None or self._tokenizer[0] is not bench:
            self._tokenizer = (bench, copy.deepcopy(bench.model.tokenizer))
        return self._tokenizer[1]

    def _view(self, tokenizer: Any, found: "_Walked") -> PathView:
        path, walked = found.path, found.walked
        sequence_ids = {id_ for branch in walked.branches for id_ in branch.num_by_sequence}
        origins = self._database.sequences.origins(sequence_ids)
        shares = {
            sequence_id: SourceShare(
                kind=origin.kind,
                id=origin.source_id if origin.kind == "document" else origin.conversation_id or 0,
                name=label_of(origin),
                share=0.0,
            )
            for sequence_id, origin in origins.items()
        }
        return PathView(
            steps=tuple(zip(path, _texts(tokenizer, path), strict=True)),
            num_left_out=found.num_left_out,
            count=walked.count,
            num_ends=walked.num_ends,
            num_branches=walked.num_branches,
            branches=tuple(
                _branch_view(tokenizer, path, branch, shares) for branch in walked.branches
            ),
        )


def variants(text: str) -> list[str]:
    """What was typed, and as it stands within a text: tokens carry the space before a word."""
    typed = text.rstrip(" ")
    return [typed, f" {typed}"] if typed and not typed[0].isspace() else [typed]


@dataclass(frozen=True, slots=True)
class _Walked:
    """The end of a path that occurs, and what follows it."""

    path: Sequence[int]
    num_left_out: int
    walked: WalkedPath

    @property
    def rank(self) -> tuple[bool, int]:
        """Of two variants of a text the one that occurs, or occurs more often, or longer."""
        is_whole = not self.num_left_out
        return is_whole, self.walked.count if is_whole else len(self.path)


def _walked(snapshot: TrieSnapshot, path: Sequence[int]) -> _Walked:
    """The longest end of a path that occurs; the root alone where none does."""
    for start in range(max(0, len(path) - MAX_MATCH_LENGTH), len(path)):
        walked = walk(snapshot, path[start:], limit=_MAX_BRANCHES)
        if walked.count:
            return _Walked(path[start:], start, walked)
    return _Walked([], len(path), walk(snapshot, [], limit=0 if path else _MAX_BRANCHES))


def _branch_view(
    tokenizer: Any, path: Sequence[int], branch: Branch, by_sequence: dict[int, SourceShare]
) -> BranchView:
    num_places = sum(branch.num_by_source.values())
    counts: Counter[SourceShare] = Counter()
    for sequence_id, times in branch.num_by_sequence.items():
        if sequence_id in by_sequence:  # else deleted in this moment
            counts[by_sequence[sequence_id]] += times
    texts = _texts(tokenizer, [*path, *branch.example])[len(path) :]
    return BranchView(
        token_id=branch.token_id,
        text=_texts(tokenizer, [*path, branch.token_id])[-1],
        count=branch.count,
        document_share=branch.num_by_source.get(TokenSource.DOCUMENT, 0) / max(1, num_places),
        sources=tuple(
            SourceShare(source.kind, source.id, source.name, times / num_places)
            for source, times in counts.most_common(_MAX_SOURCES)
        ),
        num_more_sources=max(0, len(counts) - _MAX_SOURCES),
        example="".join(texts[1:]).rstrip(REPLACEMENT),
    )


def _texts(tokenizer: Any, token_ids: Sequence[int]) -> list[str]:
    """What each token completes; its name where that is nothing, as of a control token."""
    texts = [text.strip(REPLACEMENT) for text in token_texts(tokenizer, token_ids)]
    controls = tokenizer.added_tokens_decoder
    return [
        text or (controls[token_id].content if token_id in controls else f"#{token_id}")
        for token_id, text in zip(token_ids, texts, strict=True)
    ]
