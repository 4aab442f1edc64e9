"""The Trie holds what the database holds: nothing deleted comes back, and no question waits."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from weakref import ref

import pytest

from app.services import (
    AnswerOptions,
    ChatService,
    ServiceConfig,
    forgetting,
    trie_keeper,
    workbench,
)
from app.services.learned_keeper import LearnedKeeper
from app.services.trie_keeper import CATCH_UP_LENGTH, TrieKeeper
from app.services.workbench import Workbench
from lookahead.trie import Trie
from storage import Database, NewSequence, SegmentCache, deletions, search_index
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel
from tests.stored import purge_documents, shown_sequence_ids

WAIT = 20.0


@pytest.fixture
def config(tmp_path: Path) -> ServiceConfig:
    return ServiceConfig(tmp_path / "data", tmp_path / "cache", model="scripted")


@pytest.fixture
def database(config: ServiceConfig) -> Iterator[Database]:
    with Database(config.data_dir) as database:
        yield database


@pytest.fixture
def keeper(config: ServiceConfig, database: Database) -> TrieKeeper:
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    return TrieKeeper(database, cache, database.tokenizers.ensure("bytes", "bytes"))


@pytest.fixture
def service(config: ServiceConfig) -> Iterator[ChatService]:
    service = ChatService(config, engine=ScriptedEngine())
    yield service
    service.close()


def add_document(database: Database, name: str, num_tokens: int = 3) -> tuple[int, int]:
    source_id, [sequence_id] = database.sources.add_document(
        name=name,
        uri=name,
        sha256=name,
        text=name,
        token_ids=[5] * num_tokens,
        tokenizer_id=1,
    )
    return source_id, sequence_id


def drafted_from(trie: Trie) -> set[int]:
    """The sequences that it holds and does not hide."""
    return set(trie.sequence_ids - trie.snapshot.hidden)


def trie_of(service: ChatService) -> Any:
    assert service.wait_until_ready(WAIT).is_ready
    bench = service._worker.bench
    assert bench is not None
    return bench.keeper.trie


@pytest.mark.parametrize("reads", [TrieKeeper.catch_up, TrieKeeper.reconcile])
def test_a_sequence_that_the_trie_cannot_hold_is_left_out_alone(
    database: Database, keeper: TrieKeeper, caplog: pytest.LogCaptureFixture, reads: Any
) -> None:
    """One row with an impossible id, and no start got beyond opening the Trie."""
    _, first = add_document(database, "first")
    _, [wrong] = database.sources.add_document(
        name="wrong", uri="wrong", sha256="wrong", text="", token_ids=[2**31 - 1], tokenizer_id=1
    )
    _, last = add_document(database, "last")
    for _ in range(2):
        reads(keeper)
    assert keeper.trie.sequence_ids == {first, last}
    assert [f"sequence {wrong} is" in text for text in caplog.messages] == [True]


@pytest.mark.parametrize("reads", [TrieKeeper.catch_up, TrieKeeper.reconcile, TrieKeeper.tidy])
def test_what_is_deleted_while_it_is_read_does_not_come_back(
    database: Database, keeper: TrieKeeper, monkeypatch: pytest.MonkeyPatch, reads: Any
) -> None:
    """The rows were read outside the lock: a deletion between reading and adding was undone."""
    source_id, _ = add_document(database, "secret")
    is_deleted = threading.Event()
    all_sequences = database.sequences.all

    def delete() -> None:
        purge_documents(database, source_id)
        is_deleted.set()
        keeper.save_anew()

    thread = threading.Thread(target=delete)

    def read_then_delete(*arguments: Any, **options: Any) -> Any:
        rows = list(all_sequences(*arguments, **options))
        if not is_deleted.is_set():
            thread.start()
            assert is_deleted.wait(WAIT)
        return iter(rows)

    monkeypatch.setattr(database.sequences, "all", read_then_delete)
    reads(keeper)
    thread.join(WAIT)
    assert keeper.trie.sequence_ids == frozenset()
    keeper.reconcile()
    assert keeper.trie.sequence_ids == frozenset()


def test_a_chat_deleted_while_the_model_loads_is_not_drafted_from(
    service: ChatService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could be told to forget it before the workbench was there."""
    service.start()
    service.ask(None, "secret", AnswerOptions()).wait_until_over(WAIT)
    service.close()
    again = ChatService(service._config, engine=ScriptedEngine())

    def delete_then_load(
        *arguments: Any, **named: Any
    ) -> LearnedKeeper:  # the Trie is read by then
        again.delete_conversation(again.conversations()[0].id)
        return LearnedKeeper(*arguments, **named)

    monkeypatch.setattr(workbench, "LearnedKeeper", delete_then_load)
    again.start()
    assert drafted_from(trie_of(again)) == set()
    again.close()


def test_a_document_deleted_during_its_import_is_not_drafted_from(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.setattr(
        TrieKeeper, "expect", lambda *_: service.delete_document(service.documents()[0].id)
    )
    service.start()
    job = service.import_paths([tmp_path / "secret.txt"])
    assert job.wait_until_over(WAIT).num_documents == 1
    assert drafted_from(trie_of(service)) == set()


def test_what_another_program_deleted_is_forgotten_when_nothing_is_asked(
    database: Database, keeper: TrieKeeper
) -> None:
    source_id, _ = add_document(database, "gone")
    _, kept = add_document(database, "kept")
    keeper.catch_up()
    purge_documents(database, source_id)
    keeper.tidy()
    assert keeper.trie.sequence_ids == {kept}


def test_a_question_does_not_wait_for_an_import_that_is_being_sorted(service: ChatService) -> None:
    """Catching up before each answer waited for the lock that the import held while sorting."""
    service.start()
    trie_of(service)
    bench = service._worker.bench
    assert bench is not None
    with bench.keeper._lock:  # as an import holds it
        answer = service.ask(None, "hello", AnswerOptions()).wait_until_over(WAIT)
        assert answer.status == "complete"
    service.ask(None, "more", AnswerOptions()).wait_until_over(WAIT)
    assert len(trie_of(service).sequence_ids) == 2, "it is made up for"


def test_what_needs_a_sort_is_left_until_nothing_is_asked(
    database: Database, keeper: TrieKeeper
) -> None:
    _, small = add_document(database, "small")
    _, large = add_document(database, "large", CATCH_UP_LENGTH)
    _, last = add_document(database, "last")
    keeper.catch_up()
    assert keeper.trie.sequence_ids == {small}
    keeper.catch_up()
    assert keeper.trie.sequence_ids == {small}
    keeper.tidy()
    assert keeper.trie.sequence_ids == {small, large, last}
    _, newest = add_document(database, "newest")
    keeper.catch_up()
    assert newest in keeper.trie.sequence_ids


def test_a_question_waits_for_a_piece_of_what_is_sorted_when_nothing_is_asked(
    database: Database, keeper: TrieKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that another program had imported was sorted in one go: a gigabyte takes minutes."""
    monkeypatch.setattr(trie_keeper, "_TIDIED_LENGTH", 250)
    ids = [add_document(database, f"{number}", 100)[1] for number in range(10)]
    held = []
    while keeper.tidy():
        held.append(len(keeper.trie.sequence_ids))
    assert held == [3, 6, 9]
    assert keeper.trie.sequence_ids == set(ids)


def test_an_import_that_is_cancelled_leaves_the_sorting_to_idle_time(
    database: Database, keeper: TrieKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trie_keeper, "_SORTED_LENGTH", 250)
    ids = [add_document(database, f"{number}", 100)[1] for number in range(10)]
    is_cancelled = iter([False, True])
    keeper.reconcile(lambda: next(is_cancelled))
    assert keeper.trie.sequence_ids == set(ids[:6])
    _, newest = add_document(database, "newest")
    keeper.catch_up()
    assert keeper.trie.sequence_ids == {*ids[:6], newest}
    tidied(keeper)
    assert keeper.trie.sequence_ids == {*ids, newest}


def tidied(keeper: TrieKeeper) -> TrieKeeper:
    while keeper.tidy():
        pass
    return keeper


def reopened(keeper: TrieKeeper, **options: Any) -> TrieKeeper:
    return TrieKeeper(keeper._database, keeper._cache, keeper.tokenizer_id, **options)


def test_idle_time_merges_segments_and_writes_only_what_is_new(
    database: Database, keeper: TrieKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_document(database, "large", 300_000)
    tidied(keeper)
    written: list[list[int]] = []
    save = keeper._cache.save

    def count_and_save(tokenizer_id: int, names: Any, contents: Any) -> bool:
        written.append([len(data) for data in contents.values()])
        return save(tokenizer_id, names, contents)

    monkeypatch.setattr(keeper._cache, "save", count_and_save)
    add_document(database, "small", 2_500)
    tidied(keeper)
    [[num_bytes]] = written
    assert num_bytes < 50_000
    add_document(database, "as large", 300_000)
    assert keeper.tidy(), "the merge is left to the next moment in which nothing is asked"
    tidied(keeper)
    assert [len(segment.log.lengths) for segment in keeper.trie.segments] == [3]
    again = reopened(keeper).trie
    assert again.statistics().num_tokens == 602_500
    assert again.statistics().tail_length == 0, "nothing had to be added"


def test_where_nothing_was_written_the_sequences_are_not_gone_through_again(
    database: Database, keeper: TrieKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each piece of idle work: 0.28 s with 60,000 documents."""
    looks = []
    to_index = database.sequences.to_index
    monkeypatch.setattr(
        database.sequences, "to_index", lambda tokenizer: looks.append(1) or to_index(tokenizer)
    )
    tidied(keeper)
    tidied(keeper)
    assert len(looks) == 1
    source_id, sequence_id = add_document(database, "new")
    tidied(keeper)
    assert len(looks) == 2
    with Database(database.path.parent) as other:
        other.deletions.hide_documents([source_id])
    tidied(keeper)
    assert len(looks) == 3
    assert keeper.trie.snapshot.hidden == {sequence_id}


def test_of_segments_that_were_merged_nothing_stays_in_memory(
    database: Database, keeper: TrieKeeper
) -> None:
    """Names in the cache were kept with the segments: until the next save, the Trie twice over."""
    add_document(database, "one", 3_000)
    tidied(keeper)
    add_document(database, "two", 3_000)
    [segment] = keeper.trie.segments
    gone = ref(segment)
    del segment
    with keeper._lock:
        keeper._reconcile(10_000)
    while keeper.trie.merge():
        pass
    gc.collect()
    assert gone() is None


def test_of_damaged_segments_the_others_are_used_and_the_rest_is_read_again(
    database: Database, keeper: TrieKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    for name, length in (("one", 90_000), ("two", 3_000)):
        add_document(database, name, length)
        tidied(keeper)
    (_, whole), (name, damaged) = keeper._cache.load(1)
    contents = {"whole": whole, name: damaged[:-1] + b"?"}
    keeper._cache.save(1, ["whole", name], contents)
    again = reopened(keeper)
    assert "rebuilt" in caplog.text
    assert again.trie.sequence_ids == {1, 2}
    tidied(again)
    assert next(kept for kept, _ in keeper._cache.load(1)) == "whole"
    assert name not in dict(keeper._cache.load(1))


def test_what_another_program_wrote_into_the_cache_meanwhile_leaves_it_with_a_purge(
    config: ServiceConfig, database: Database, keeper: TrieKeeper
) -> None:
    """It was taken to hold what this program had read or written last."""
    add_document(database, "kept")
    keeper.close()
    own = keeper._cache.load(1)
    other = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    assert other.save(1, ["secret"], {"secret": b"secret"})
    assert keeper.save_anew()
    assert keeper._cache.load(1) == own
    assert b"secret" not in (config.cache_dir / "segments.db").read_bytes()


def test_what_another_program_purged_is_not_written_by_one_that_ends_later(
    config: ServiceConfig, database: Database, keeper: TrieKeeper
) -> None:
    """A Trie that still held it was saved over the cache that was rid of it."""
    source_id, [secret] = database.sources.add_document(
        name="s", uri="s", sha256="s", text="s", token_ids=[1_234_567] * 4, tokenizer_id=1
    )
    add_document(database, "kept", 3_000)
    tidied(keeper)
    idle, cut_short = reopened(keeper), reopened(keeper)
    path = config.cache_dir / "segments.db"
    mark = (1_234_568).to_bytes(4, "little")
    assert mark in path.read_bytes()
    assert purge_documents(database, source_id) == [secret]
    assert cut_short.save_anew(), "the one that purged did not come to tell its Trie"
    assert mark not in path.read_bytes()
    keeper.close()
    idle.close()
    assert mark not in path.read_bytes()


def test_what_is_deleted_is_hidden_until_it_is_purged_and_comes_back_when_undone(
    database: Database, keeper: TrieKeeper
) -> None:
    source_id, sequence_id = add_document(database, "doubtful")
    _, kept = add_document(database, "kept")
    tidied(keeper)
    keeper.hide([sequence_id, 99])
    assert keeper.trie.snapshot.hidden == {sequence_id}
    keeper.restore([sequence_id])
    assert keeper.trie.snapshot.hidden == frozenset()
    database.deletions.hide_documents([source_id])  # by another program
    tidied(keeper)
    assert keeper.trie.snapshot.hidden == {sequence_id}
    assert reopened(keeper).trie.sequence_ids == {kept}
    database.deletions.restore("document", [source_id])
    tidied(keeper)
    assert keeper.trie.snapshot.hidden == frozenset()
    assert keeper.trie.sequence_ids == {sequence_id, kept}


class TestBudget:
    """It takes the oldest history out of the index, and nothing out of the database."""

    @pytest.fixture
    def ids(self, database: Database, keeper: TrieKeeper) -> dict[str, int]:
        conversation = database.conversations.create("chat")
        ids = {}
        for name in ("old", "new"):
            answer = database.messages.start_answer(conversation.id, None, tokenizer_id=1)
            sequence_id = database.messages.finish_answer(
                answer.id,
                text=name,
                token_ids=[5] * 1_000,
                status="complete",
                sequence=NewSequence(1, [5] * 1_000),
            )
            assert sequence_id is not None
            ids[name] = sequence_id
        for name in ("document", "pinned"):
            source_id, ids[name] = add_document(database, name, 1_000)
        with database._connections.transaction() as connection:
            connection.execute("UPDATE sources SET pinned = 1 WHERE id = ?", [source_id])
        return ids

    @pytest.mark.parametrize(
        ("num_bytes", "stays"),
        [
            (33_000, {"old", "new", "document", "pinned"}),
            (30_000, {"new", "document", "pinned"}),
            (20_000, {"document", "pinned"}),
            (10_000, {"pinned"}),
            (0, {"pinned"}),
        ],
    )
    def test_the_oldest_history_leaves_first_and_what_is_pinned_never(
        self, keeper: TrieKeeper, ids: dict[str, int], num_bytes: int, stays: set[str]
    ) -> None:
        tidied(keeper)
        keeper.budget_bytes = num_bytes
        tidied(keeper)
        assert keeper.trie.sequence_ids == {ids[name] for name in stays}
        assert keeper.left_out.num_sequences == 4 - len(stays)
        assert keeper.left_out.num_tokens == 1_000 * (4 - len(stays))
        assert shown_sequence_ids(keeper._database, 1) == sorted(ids.values())
        assert reopened(keeper, budget_bytes=num_bytes).trie.sequence_ids >= {ids["pinned"]}
        keeper.budget_bytes = 100_000
        tidied(keeper)
        assert keeper.trie.sequence_ids == set(ids.values()), "it comes back when there is room"
        assert keeper.left_out.num_sequences == 0

    def test_a_document_larger_than_the_budget_keeps_nothing_else_out(
        self, database: Database, keeper: TrieKeeper, ids: dict[str, int]
    ) -> None:
        """The newest document came first, and with it the sum was above the budget for all."""
        add_document(database, "larger", 10_000)
        keeper.budget_bytes = 40_000
        tidied(keeper)
        assert keeper.trie.sequence_ids == set(ids.values())
        assert keeper.left_out.num_tokens == 10_000

    def test_what_is_pinned_while_it_is_left_out_comes_back(
        self, keeper: TrieKeeper, ids: dict[str, int]
    ) -> None:
        """It was left out until there was room for everything."""
        keeper.budget_bytes = 10_000
        tidied(keeper)
        source_id = keeper._database.sequences.get(ids["document"]).source_id
        keeper._database.sources.pin(source_id, True)
        tidied(keeper)
        assert keeper.trie.sequence_ids == {ids["document"], ids["pinned"]}
        assert keeper.left_out.num_sequences == 2
        keeper._database.sources.pin(source_id, False)
        tidied(keeper)
        assert keeper.trie.sequence_ids == {ids["pinned"]}

    def test_once_room_was_made_an_answer_pushes_nothing_out(
        self, database: Database, keeper: TrieKeeper, ids: dict[str, int]
    ) -> None:
        keeper.budget_bytes = 30_000
        tidied(keeper)
        before = keeper.trie.sequence_ids
        _, added = add_document(database, "another", 300)
        tidied(keeper)
        assert keeper.trie.sequence_ids == before | {added}


class NoTokens:
    """A tokenizer to which some texts are nothing."""

    chat_template = None
    bos_token = bos_token_id = None
    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def __call__(self, text: str | list[str], **_: Any) -> dict[str, list[Any]]:
        if isinstance(text, list):
            return {"input_ids": [self(piece)["input_ids"] for piece in text]}
        return {"input_ids": [] if text == "nothing" else list(text.encode())}


def test_documents_are_indexed_for_another_tokenizer_in_one_go(
    config: ServiceConfig, database: Database
) -> None:
    """One that gave no tokens was tried for ever, and kept the others from their turn."""
    assert database.tokenizers.ensure("bytes", "bytes") == 1
    for name in ("one", "nothing", "two"):
        add_document(database, name)
    model: Any = ScriptedModel(tokenizer=NoTokens(), tokenizer_fingerprint="other")  # type: ignore[arg-type]
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    bench = Workbench(ScriptedEngine(model=model), config, database, cache, lambda _: None)
    pieces = [bench.do_idle_work() for _ in range(20)]
    num_pieces = pieces.index(False)
    assert not any(pieces[num_pieces:]), "it ends"
    assert [ids.tolist() for _, _, ids in database.sequences.all(2)] == [[*b"one"], [*b"two"]]
    assert bench.keeper.trie.sequence_ids == set(shown_sequence_ids(database, 2))
    bench.close()


def test_much_is_purged_in_pieces_of_idle_work(
    config: ServiceConfig, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question waited until all of a large folder was purged."""
    monkeypatch.setattr(deletions, "PIECES", {"conversation": 1, "document": 1})
    monkeypatch.setattr(workbench, "_PURGE_SECONDS", 0.0)
    monkeypatch.setattr(forgetting, "UNDO_SECONDS", 0.0)
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    bench = Workbench(ScriptedEngine(), config, database, cache, lambda _: None)
    for name in ("one", "two", "three"):
        add_document(database, name)
    database.deletions.hide_documents([1, 2, 3])
    assert [bench.do_idle_work() for _ in range(2)] == [True, True]
    assert database.deletions.are_under_way
    assert shown_sequence_ids(database, bench.tokenizer_id) == []
    while bench.do_idle_work():
        pass
    assert not database.deletions.are_under_way
    assert not database.erasures.are_pending
    assert len(bench.keeper.trie.sequence_ids) == 0
    bench.close()


def test_a_large_search_index_is_written_anew_in_pieces_of_idle_work(
    config: ServiceConfig, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question waited until the index over all documents was written."""
    monkeypatch.setattr(search_index, "PAGE_CHARACTERS", 1)
    monkeypatch.setattr(workbench, "_PURGE_SECONDS", 0.0)
    cache = SegmentCache(config.cache_dir / "segments.db", database.database_id)
    bench = Workbench(ScriptedEngine(), config, database, cache, lambda _: None)
    for name in ("one", "two", "three"):
        add_document(database, name)
    purge_documents(database, 1)
    assert [bench.do_idle_work() for _ in range(2)] == [True, True]
    assert database.erasures.are_under_way
    while database.erasures.are_under_way:
        bench.do_idle_work()
    assert not database.erasures.are_pending
    bench.close()
