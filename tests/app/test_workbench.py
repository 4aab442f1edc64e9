"""The workbench: what it lends to an answer, saves in idle time, and saves at the end."""

import pytest

from app.services import ServiceConfig
from app.services.workbench import Workbench
from storage import Database, DatabaseFullError, SegmentCache
from tests.app.scripted_engine import ScriptedEngine


@pytest.fixture
def bench(config: ServiceConfig, database: Database) -> Workbench:
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    return Workbench(ScriptedEngine(), config, database, cache, lambda state: None)


def test_the_trie_is_closed_though_what_was_learned_cannot_be_saved(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk left the Trie unsaved as well, to be made again at the next start."""
    closed: list[bool] = []

    def refuse() -> None:
        raise DatabaseFullError("No space is left.")

    monkeypatch.setattr(bench._kept, "save", refuse)
    monkeypatch.setattr(bench.keeper, "close", lambda: closed.append(True))
    with pytest.raises(DatabaseFullError):
        bench.close()
    assert closed == [True]
