"""The command `trie`: what it prints for people and as JSON, and what it says of mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import app.services
from app import cli
from app.services import ChatService, ServiceConfig
from storage import Database
from tests.app.scripted_engine import ScriptedEngine
from tests.app.test_trie_access import BEES

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `trie` with a scripted tokenizer: (exit status, results, messages)."""

    def opened(config: ServiceConfig) -> ChatService:
        assert not config.can_answer, "the weights are not needed"
        return ChatService(config, engine=ScriptedEngine())

    monkeypatch.setattr(cli, "prepare_model", lambda *_, **__: Path())
    monkeypatch.setattr(app.services, "ChatService", opened)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*arguments: str, data: str = "data") -> tuple[int, str, str]:
        status = cli.main(["trie", *arguments, "--data-dir", str(tmp_path / data)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def document(tmp_path: Path) -> int:
    with Database(tmp_path / "data") as database:
        return database.sources.add_document(
            name="notes/bees\u202e.md",
            uri="file:///notes/bees.md",
            sha256="b" * 64,
            text=BEES,
            token_ids=list(BEES.encode()),
            tokenizer_id=database.tokenizers.ensure("bytes", "scripted"),
        )[0]


def parsed(out: str) -> dict[str, Any]:
    (line,) = out.splitlines()
    value = json.loads(line)
    assert isinstance(value, dict)
    return value


def test_stats_tells_what_the_trie_holds(command: Command, document: int) -> None:
    status, out, _ = command("stats")
    assert status == 0
    assert f"tokens: {len(BEES)}" in out.splitlines()
    assert f"from documents: {len(BEES)} in 1 document" in out.splitlines()
    value = parsed(command("stats", "--json")[1])
    assert value["statistics"]["num_tokens_by_source"] == {"history": 0, "document": len(BEES)}
    assert (value["num_documents"], value["hit_rate"]) == (1, 0.0)


def test_show_tells_what_follows_how_often_and_where(command: Command, document: int) -> None:
    status, out, _ = command("show", "Bees ")
    assert status == 0
    first, *branches = out.splitlines()
    assert first == "Bees: 3 times"
    assert branches == ["        3   100 %  ·  [notes/bees\\u202e.md 100 %]"]
    value = parsed(command("show", "Bees drink", "--json")[1])
    assert value["count"] == 2
    assert value["branches"][0]["text"] == " "
    assert "Nothing of this text" in command("show", "字")[1]
    assert "longest end that does:\ns·drink: 2 times" in command("show", "Wasps drink")[1]


def test_forget_takes_a_document_out(command: Command, document: int) -> None:
    status, out, _ = command("forget", f"document:{document}", "--json")
    assert (status, parsed(out)["id"]) == (0, document)
    assert parsed(command("show", "Bees", "--json")[1])["num_left_out"] == 4
    assert "no document and no chat" in command("forget", "bees.md")[2]


def test_forget_asks_which_one_where_several_may_be_meant(
    command: Command, document: int, tmp_path: Path
) -> None:
    with Database(tmp_path / "data") as database:
        chats = [database.conversations.create("Bees").id for _ in range(2)]
    status, _, told = command("forget", "Bees")
    assert status == 1
    assert f"chat:{chats[0]}" in told
    assert f"chat:{chats[1]}" in told
    assert command("forget", f"chat:{chats[0]}")[0] == 0
    assert command("forget", "Bees")[0] == 0
    assert command("forget", " ")[0] == 1


def test_export_and_import_carry_it_elsewhere(
    command: Command, document: int, tmp_path: Path
) -> None:
    path = tmp_path / "trie.gz"
    status, out, _ = command("export", str(path), "--json")
    assert (status, parsed(out)) == (0, {"file": str(path), "num_sources": 1, "left_out": []})
    status, out, _ = command("import", str(path), data="elsewhere")
    assert (status, out) == (0, f"Imported 1 document, {len(BEES)} tokens.\n")
    assert "is there already" in command("import", str(path), data="elsewhere")[1]
    assert parsed(command("show", "Bees", "--json", data="elsewhere")[1])["count"] == 3
    path.write_bytes(b"nothing")
    status, _, told = command("import", str(path))
    assert (status, "no file that `trie export` wrote" in told) == (1, True)


def test_an_export_says_what_was_damaged(command: Command, document: int, tmp_path: Path) -> None:
    with Database(tmp_path / "data") as database, database._connections.transaction() as connection:
        connection.execute("UPDATE document_texts SET checksum = 1 WHERE source_id = ?", [document])
    status, out, _ = command("export", str(tmp_path / "trie.gz"))
    assert status == 0
    assert ".md is damaged on the disk and was left out." in out
