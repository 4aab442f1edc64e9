"""The engine as the services load it: what takes seconds is done for those who need it alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lookahead
from app.services.engine import LookaheadEngine
from app.services.trie_keeper import TrieKeeper
from app.services.views import ServiceConfig
from lookahead import top_ids
from lookahead.drafter import TrieDrafter
from storage import Database, SegmentCache


def test_drafting_is_compiled_before_the_first_answer_and_not_for_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a new machine each import began with 13 seconds of compiling what it does not use."""
    done: list[str] = []
    monkeypatch.setattr(TrieDrafter, "prepare", lambda: done.append("compiled"))
    monkeypatch.setattr(top_ids, "prepare", lambda dtype: done.append(f"compiled for {dtype}"))

    def load_model(*_: object, **__: object) -> Any:
        done.append("loaded")
        return SimpleNamespace(dtype="bfloat16")

    monkeypatch.setattr(lookahead, "load_model", load_model, raising=False)
    monkeypatch.setattr("app.services.engine._tokenizer_alone", lambda *_: done.append("read"))

    def load(*, can_answer: bool) -> Any:
        config = ServiceConfig(tmp_path, tmp_path, model="some", can_answer=can_answer)
        return LookaheadEngine().load(config, lambda _: None)

    load(can_answer=False)
    with Database(tmp_path) as database:
        cache = SegmentCache(tmp_path / "segments.db", database.database_id)
        TrieKeeper(database, cache, database.tokenizers.ensure("one", "name")).close()
    assert done == ["read"]
    load(can_answer=True)
    assert done == ["read", "loaded", "compiled", "compiled for bfloat16"]
