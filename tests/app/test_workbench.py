"""The workbench: what it lends to an answer, saves in idle time, and saves at the end."""

import pytest

from app.prompting import PromptMessage
from app.services import AnswerOptions, ServiceConfig, forgetting, trie_keeper
from app.services.workbench import Workbench
from lookahead.learned import Learned
from storage import Database, DatabaseFullError, SegmentCache
from tests.app.scripted_engine import ScriptedEngine
from tests.stored import shown_sequence_ids


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


def test_idle_work_finishes_an_index_that_was_left_to_it(
    bench: Workbench, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than an import would have told it of: documents of another tokenizer, tokens first."""
    monkeypatch.setattr(trie_keeper, "_FIRST_BATCH_LENGTH", 300)
    monkeypatch.setattr(trie_keeper, "_TIDIED_LENGTH", 250)
    foreign_id = database.tokenizers.ensure("other", "other")
    for number in range(8):
        database.sources.add_document(
            name=f"{number}",
            uri=f"file:///{number}.txt",
            sha256=f"{number}",
            text=f"{number} " * 60,
            token_ids=[1],
            tokenizer_id=foreign_id,
        )
    bench._idle_learning._is_allowed = False
    indexed: list[int] = []  # sequences there are, before each piece of tidying
    held: list[int] = []  # and in the Trie, behind it
    tidy = bench.keeper.tidy

    def noting() -> bool:
        indexed.append(len(shown_sequence_ids(database, bench.tokenizer_id)))
        is_more = tidy()
        held.append(len(bench.keeper.trie.sequence_ids))
        return is_more

    monkeypatch.setattr(bench.keeper, "tidy", noting)
    for _ in range(200):
        if not bench.do_idle_work():
            break
    assert set(indexed) == {8}, "what is to be indexed comes first"
    assert held[0] < 8, "a piece at a time"
    ids = set(shown_sequence_ids(database, bench.tokenizer_id))
    assert bench.keeper.trie.sequence_ids == ids
    assert bench.keeper.trie.statistics().num_tokens > 300


def test_what_cannot_be_purged_yet_is_not_tried_again_at_every_piece(
    bench: Workbench, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece of idle learning was preceded by seconds of it, from the beginning."""
    source_id, _ = database.sources.add_document(
        name="a", uri="file:///a", sha256="a", text="a", token_ids=[1], tokenizer_id=1
    )
    database.deletions.hide_documents([source_id])
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)
    tried: list[int] = []
    monkeypatch.setattr(bench.keeper, "save_anew", lambda: tried.append(1) is not None)
    for _ in range(5):
        bench.do_idle_work()
    assert len(tried) == 1
    assert database.erasures.are_pending
    monkeypatch.setattr(forgetting, "RETRY_SECONDS", 0.0)
    bench._purge_at = 0.0  # a minute later
    bench.do_idle_work()
    bench.do_idle_work()
    assert len(tried) == 3


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
