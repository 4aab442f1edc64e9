"""The Trie as people look at it and carry it away: overview, walk, files."""

import base64
import gzip
import hashlib
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.services import ChatService, ServiceConfig, document_tokens
from app.services.errors import EngineNotReadyError, TrieFileError
from app.services.trie_files import Written
from app.services.trie_reader import TrieReader, variants
from storage import Database
from storage.token_blobs import pack_token_ids
from tests.app.asking import WAIT, Start, answered
from tests.app.scripted_engine import ByteTokenizer, ScriptedEngine, ScriptedModel

BEES = "Bees drink water. Bees drink nectar. Bees sleep at night.\n"


def imported(service: ChatService, folder: Path, text: str = BEES, name: str = "bees.md") -> int:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    assert service.import_paths([path]).wait_until_over(WAIT).num_documents == 1
    return service.documents()[0].id


@pytest.fixture
def service(start: Start, tmp_path: Path) -> ChatService:
    """A service with a document and a chat."""
    service = start(ScriptedEngine("Bees drink wine."))
    imported(service, tmp_path)
    answered(service, "What do they drink?")
    return service


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Callable[..., ChatService]]:
    """Another machine, with this tokenizer or another one."""
    services = []

    def start(fingerprint: str = "bytes") -> ChatService:
        folder = tmp_path / f"elsewhere{len(services)}"
        config = ServiceConfig(folder / "data", folder / "cache", model="scripted")
        engine = ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint=fingerprint))
        services.append(service := ChatService(config, engine=engine))
        service.start()
        assert service.wait_until_ready(WAIT).is_ready
        return service

    yield start
    for service in services:
        service.close()


def quiet(_: str) -> None: ...


def texts(service: ChatService) -> dict[str, str]:
    with Database(service._config.data_dir) as database:
        return {s.name: database.sources.text(s.id) for s in database.sources.list()}


def test_a_walk_tells_how_a_text_goes_on_how_often_and_where(service: ChatService) -> None:
    walked = service.trie.walk("Bees drink ")
    assert "".join(text for _, text in walked.steps) == "Bees drink"
    assert (walked.count, walked.num_left_out, walked.num_branches) == (3, 0, 1)
    walked = service.trie.walk("Bees drink", [ord(" ")])
    assert [(branch.text, branch.count) for branch in walked.branches] == [("w", 2), ("n", 1)]
    both, nectar = walked.branches
    assert {(source.name, source.kind) for source in both.sources} == {
        ("bees.md", "document"),
        ("What do they drink?", "history"),
    }
    assert [source.share for source in both.sources] == [0.5, 0.5]
    assert both.document_share == 0.5
    assert [(source.name, source.share) for source in nectar.sources] == [("bees.md", 1.0)]
    assert nectar.example == "ectar. Bees sle"


def test_a_text_is_looked_up_as_it_stands_within_others_too(service: ChatService) -> None:
    assert variants("drink ") == ["drink", " drink"]
    assert variants(" drink") == [" drink"]
    assert variants("\ndrink") == ["\ndrink"]
    assert service.trie.walk("drink").steps[0] == (ord("d"), "d"), "as often as with a space"


def test_of_a_text_that_does_not_occur_the_longest_end_that_does_is_walked(
    service: ChatService,
) -> None:
    walked = service.trie.walk("Wasps drink")
    assert "".join(text for _, text in walked.steps) == "s drink"
    assert walked.num_left_out == 4
    nothing = service.trie.walk("字")
    assert (nothing.steps, nothing.branches, nothing.num_left_out) == ((), (), 3)
    assert nothing.count > 0, "the root occurs"


def test_the_root_s_branches_are_all_tokens(service: ChatService) -> None:
    root = service.trie.walk("")
    assert root.branches[0].count == max(branch.count for branch in root.branches) > 1
    assert root.num_branches > len(root.branches)
    assert root.count == service.trie.overview().statistics.num_tokens
    names = [branch.text for branch in service.trie.walk("\nassistant\n").branches]
    assert names == ["B"]
    assert "<|im_end|>" in {b.text for b in service.trie.walk("drink?").branches}


def test_what_is_deleted_is_walked_no_more(service: ChatService) -> None:
    service.delete_document(service.documents()[0].id)
    assert service.trie.walk("nectar").num_left_out > 0
    assert service.trie.walk("wine").num_left_out == 0


def test_the_overview_adds_up(service: ChatService) -> None:
    overview = service.trie.overview()
    assert (overview.num_documents, overview.num_chats, overview.answers.num_answers) == (1, 1, 1)
    by_source = overview.statistics.num_tokens_by_source
    assert sum(by_source.values()) == overview.statistics.num_tokens > len(BEES)
    assert 0 <= overview.hit_rate <= 1


def test_before_the_trie_is_open_it_is_said_so(config: ServiceConfig) -> None:
    with Database(config.data_dir) as database:
        reader = TrieReader(database, lambda: None)
        for call in (reader.overview, lambda: reader.walk("a")):
            with pytest.raises(EngineNotReadyError):
                call()


def test_what_is_exported_comes_in_elsewhere_as_documents(
    service: ChatService, elsewhere: Callable[..., ChatService], tmp_path: Path
) -> None:
    path = tmp_path / "trie.gz"
    assert service.export_trie(path, quiet) == Written(2, ())
    assert path.stat().st_mode & 0o777 == 0o600
    other = elsewhere()
    taken = other.import_trie(path, quiet)
    assert (taken.num_documents, taken.already_there) == (2, ())
    assert texts(other) == {
        "bees.md": BEES,
        "What do they drink?": "user\nWhat do they drink?\nassistant\nBees drink wine.",
    }
    mine, theirs = service.trie.overview().statistics, other.trie.overview().statistics
    assert theirs.num_tokens == mine.num_tokens == taken.num_tokens
    assert other.trie.walk("Bees drink").count == service.trie.walk("Bees drink").count
    again = other.import_trie(path, quiet)
    assert again.num_documents == 0
    assert set(again.already_there) == {"bees.md", "What do they drink?"}


def test_another_tokenizer_reads_the_texts(
    service: ChatService, elsewhere: Callable[..., ChatService], tmp_path: Path
) -> None:
    path = tmp_path / "trie.gz"
    service.export_trie(path, quiet)
    other = elsewhere("another")
    assert other.import_trie(path, quiet).num_documents == 2
    # the control tokens of a chat are not in its text
    assert other.trie.walk("Bees drink").count == 3
    assert other.trie.walk("drink?").branches[0].text == "\n"


def test_token_ids_that_do_not_say_the_text_are_not_believed(
    service: ChatService, elsewhere: Callable[..., ChatService], tmp_path: Path
) -> None:
    """The Trie drafted what stands in no text, and pointed at other words as its source."""
    path = tmp_path / "trie.gz"
    service.export_trie(path, quiet)
    rewritten(path, set_in(1, text="Wasps eat flies."))
    other = elsewhere()
    assert other.import_trie(path, quiet).num_documents == 2
    assert other.trie.walk("Wasps eat").count == 1
    assert other.trie.walk("Bees drink").count == 1, "that of the chat"


def test_another_tokenizer_reads_a_long_text_in_pieces(
    service: ChatService,
    elsewhere: Callable[..., ChatService],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It took 180 bytes for each character of a document, all at once."""
    path = tmp_path / "trie.gz"
    service.export_trie(path, quiet)
    other = elsewhere("another")
    encode = ByteTokenizer.__call__
    lengths = []

    def watched(self: ByteTokenizer, text: str | list[str], **options: bool) -> object:
        if isinstance(text, str):
            lengths.append(len(text))
        return encode(self, text, **options)

    monkeypatch.setattr(ByteTokenizer, "__call__", watched)
    monkeypatch.setattr(document_tokens, "PIECE_LENGTH", 16)
    assert other.import_trie(path, quiet).num_documents == 2
    assert 0 < max(lengths) <= 16
    assert other.trie.walk("Bees drink").count == 3, "in one piece all the same"


def damage(service: ChatService, table: str, condition: str) -> None:
    with service._database._connections.transaction() as connection:
        connection.execute(f"UPDATE {table} SET checksum = checksum + 1 WHERE {condition}")


@pytest.mark.parametrize(
    ("table", "condition", "left_out"),
    [
        ("document_texts", "1", ["bees.md"]),
        ("sequences", "message_id IS NOT NULL", ["What do they drink?"]),
        ("sequences", "message_id IS NULL", []),  # the text gives them again
    ],
)
def test_what_is_damaged_on_the_disk_is_named_and_all_else_is_exported(
    service: ChatService,
    elsewhere: Callable[..., ChatService],
    tmp_path: Path,
    table: str,
    condition: str,
    left_out: list[str],
) -> None:
    damage(service, table, condition)
    path = tmp_path / "trie.gz"
    assert service.export_trie(path, quiet) == Written(2 - len(left_out), tuple(left_out))
    other = elsewhere()
    other.import_trie(path, quiet)
    assert set(texts(other)) == {"bees.md", "What do they drink?"} - set(left_out)
    assert other.trie.walk("drink").num_left_out == 0


def rewritten(path: Path, change: Callable[[list[dict[str, object]]], None]) -> None:
    """The file with changed lines, and a checksum that is right again."""
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()][:-1]
    change(lines)
    data = b"".join(map(written, lines))
    end = {"num_sources": len(lines) - 1, "sha256": hashlib.sha256(data).hexdigest()}
    path.write_bytes(gzip.compress(data + written(end)))


def written(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def set_in(line: int, **values: object) -> Callable[[list[dict[str, object]]], None]:
    return lambda lines: lines[line].update(values)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (set_in(0, version=2), "version 2"),
        (set_in(0, format="x"), "no file that"),
        (set_in(0, tokenizer=7), "no file that"),
        (set_in(2, token_ids="AAA="), "not as it should be"),
        (set_in(2, token_ids="/////w=="), "not as it should be"),
        (set_in(2, token_ids="ü"), "not as it should be"),
        (set_in(2, token_ids=base64.b64encode(pack_token_ids([259])).decode()), "not as it should"),
        (set_in(2, token_ids=base64.b64encode(pack_token_ids([2**31 - 1])).decode()), "not as it"),
        (set_in(2, text="half a pair: \ud83d"), "not as it should be"),
        (set_in(2, name="\udc80.md"), "not as it should be"),
        (set_in(2, sha256="Z" * 64), "not as it should be"),
        (set_in(2, sha256="0" * 64), "not as it should be"),
        (set_in(1, text="", token_ids=""), "not as it should be"),
        (set_in(1, text=["nested"]), "no file that"),
        (set_in(2, text=5), "not as it should be"),
        (set_in(2, kind="else"), "not as it should be"),
        (set_in(2, more=1), "not as it should be"),
        (lambda lines: lines[2].pop("name"), "not as it should be"),
        (lambda lines: lines.clear(), "no file that"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused_whole(
    service: ChatService,
    elsewhere: Callable[..., ChatService],
    tmp_path: Path,
    change: Callable[[list[dict[str, object]]], None],
    sentence: str,
) -> None:
    path = tmp_path / "trie.gz"
    service.export_trie(path, quiet)
    rewritten(path, change)
    other = elsewhere()
    with pytest.raises(TrieFileError, match=sentence):
        other.import_trie(path, quiet)
    assert other.documents() == []


def test_a_small_file_does_not_become_a_large_object(
    elsewhere: Callable[..., ChatService], tmp_path: Path
) -> None:
    """Empty lists took fifty times the memory of their line; a file of 600 KB took 3 GB."""
    path = tmp_path / "trie.gz"
    path.write_bytes(gzip.compress(b'{"format":[' + b"[]," * 1_000_000 + b"[]]}\n"))
    other = elsewhere()
    tracemalloc.start()
    with pytest.raises(TrieFileError, match="no file that"):
        other.import_trie(path, quiet)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_names_and_texts_come_in_as_a_page_can_show_them(
    service: ChatService, elsewhere: Callable[..., ChatService], tmp_path: Path
) -> None:
    path = tmp_path / "trie.gz"
    service.export_trie(path, quiet)
    rewritten(path, set_in(1, name="a\x1b[31m.exe\n", text="one\0two"))
    other = elsewhere()
    other.import_trie(path, quiet)
    assert texts(other)["a\\x1b[31m.exe\\n"] == "onetwo"


def test_damage_anywhere_is_told_and_nothing_is_taken_in(
    service: ChatService, elsewhere: Callable[..., ChatService], tmp_path: Path
) -> None:
    path = tmp_path / "trie.gz"
    service.export_trie(path, quiet)
    whole = path.read_bytes()
    plain = gzip.decompress(whole)
    other = elsewhere()
    cuts = [gzip.compress(plain[:length]) for length in (0, 1, len(plain) // 2, len(plain) - 70)]
    changed = plain.replace(b"nectar", b"poison")
    broken = [whole[: len(whole) // 2], b"no gzip", b"", changed, gzip.compress(changed), plain]
    broken += [gzip.compress(plain + plain), gzip.compress(b"[1]\n"), gzip.compress(b"[" * 10**6)]
    for data in (*cuts, *broken):
        path.write_bytes(data)
        with pytest.raises(TrieFileError):
            other.import_trie(path, quiet)
    for wrong in (tmp_path, tmp_path / "nothing", tmp_path / "no" / "folder"):
        with pytest.raises(TrieFileError):
            other.import_trie(wrong, quiet)
        if wrong != tmp_path / "nothing":
            with pytest.raises(TrieFileError):
                service.export_trie(wrong, quiet)
    assert other.documents() == []


def test_an_export_that_fails_leaves_what_was_there(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trie.gz"
    path.write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(TrieFileError, match="No space"):
        service.export_trie(path, quiet)
    monkeypatch.undo()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir() if "trie" in p.name] == ["trie.gz"]


def test_sources_are_found_by_name_path_and_number(service: ChatService, tmp_path: Path) -> None:
    (document,) = service.documents()
    for named in ("bees.md", str(tmp_path / "bees.md"), f"document:{document.id}", document.uri):
        (found,) = service.trie.find_sources(named)
        assert (found.kind, found.id) == ("document", document.id)
    for named in ("What do they drink?", "chat:1"):
        (found,) = service.trie.find_sources(named)
        assert (found.kind, found.id) == ("history", 1)
    assert service.trie.find_sources("wasps") == service.trie.find_sources("") == []
