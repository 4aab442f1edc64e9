"""The Trie holds what the database holds: nothing deleted comes back, and no question waits."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from app.services import AnswerOptions, ChatService, ServiceConfig, workbench
from app.services.learned_keeper import LearnedKeeper
from app.services.trie_keeper import TrieKeeper
from app.services.workbench import Workbench
from lookahead.trie import MAX_TAIL_LENGTH
from storage import Database, SegmentCache
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel

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


def trie_of(service: ChatService) -> Any:
    assert service.wait_until_ready(WAIT).is_ready
    bench = service._worker.bench
    assert bench is not None
    return bench.keeper.trie


@pytest.mark.parametrize("reads", [TrieKeeper.catch_up, TrieKeeper.reconcile, TrieKeeper.tidy])
def test_what_is_deleted_while_it_is_read_does_not_come_back(
    database: Database, keeper: TrieKeeper, monkeypatch: pytest.MonkeyPatch, reads: Any
) -> None:
    """The rows were read outside the lock: a deletion between reading and adding was undone."""
    source_id, _ = add_document(database, "secret")
    is_deleted = threading.Event()
    all_sequences = database.sequences.all

    def delete() -> None:
        sequence_ids = database.sources.delete(source_id)
        is_deleted.set()
        keeper.forget(sequence_ids)

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

    def delete_then_load(*arguments: Any) -> LearnedKeeper:  # the Trie is read by then
        again.delete_conversation(again.conversations()[0].id)
        return LearnedKeeper(*arguments)

    monkeypatch.setattr(workbench, "LearnedKeeper", delete_then_load)
    again.start()
    assert trie_of(again).sequence_ids == frozenset()
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
    assert trie_of(service).sequence_ids == frozenset()


def test_what_another_program_deleted_is_forgotten_when_nothing_is_asked(
    database: Database, keeper: TrieKeeper
) -> None:
    source_id, _ = add_document(database, "gone")
    _, kept = add_document(database, "kept")
    keeper.catch_up()
    database.sources.delete(source_id)
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
    _, large = add_document(database, "large", MAX_TAIL_LENGTH)
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


class NoTokens:
    """A tokenizer to which some texts are nothing."""

    chat_template = None
    bos_token = bos_token_id = None
    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [] if text == "nothing" else list(text.encode())}


def test_documents_are_indexed_for_another_tokenizer_in_one_go(
    config: ServiceConfig, database: Database
) -> None:
    """One that gave no tokens was tried for ever, and kept the others from their turn."""
    assert database.tokenizers.ensure("bytes", "bytes") == 1
    for name in ("one", "nothing", "two"):
        add_document(database, name)
    model: Any = ScriptedModel(tokenizer=NoTokens(), tokenizer_fingerprint="other")  # type: ignore[arg-type]
    bench = Workbench(ScriptedEngine(model=model), config, database, lambda _: None)
    assert [bench.do_idle_work() for _ in range(5)] == [True, True, True, False, False]
    assert [ids.tolist() for _, _, ids in database.sequences.all(2)] == [[*b"one"], [*b"two"]]
    assert bench.keeper.trie.sequence_ids == set(database.sequences.ids(2))
    bench.close()
