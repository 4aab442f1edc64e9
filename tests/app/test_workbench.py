"""The workbench: what it lends to an answer, saves in idle time, and saves at the end."""

import pytest

from app.prompting import PromptMessage
from app.services import AnswerOptions, ServiceConfig
from app.services.workbench import Workbench
from lookahead.learned import Learned
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


def test_what_was_learned_is_saved_while_there_is_much_to_index(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand documents to index kept it from being saved until the last one."""
    saved: list[bool] = []
    monkeypatch.setattr(bench._kept, "save_if_due", lambda: saved.append(True))
    monkeypatch.setattr(bench._indexing, "work", lambda: True)
    assert bench.do_idle_work()
    assert saved == [True]


@pytest.mark.parametrize("lookahead", [True, False])
def test_what_was_learned_is_copied_only_where_something_is_drafted(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, lookahead: bool
) -> None:
    """Plain answers waited for copies of megabytes that nobody looked at."""
    copied: list[str] = []
    for name in ("copy", "with_own_successors"):
        monkeypatch.setattr(
            Learned, name, lambda learned, name=name: copied.append(name) or learned
        )
    prompt = bench.prompts.build([PromptMessage("user", "Where?")])
    options = AnswerOptions(lookahead=lookahead)
    list(
        bench.generate(
            *(prompt, options),
            session_key="/v1",
            is_remembered=False,
            is_cancelled=lambda: False,
        )
    )
    list(
        bench.generate_apart(
            *(prompt, options),
            stop=None,
            take_digest=lambda digest: None,
            is_cancelled=lambda: False,
        )
    )
    assert copied == (["with_own_successors", "copy"] if lookahead else [])
