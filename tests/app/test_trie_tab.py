"""What the Trie tab sends and is told: payloads are checked, errors are sentences."""

from pathlib import Path
from typing import Any

import pytest

from app.services import ChatService
from app.trie_handlers import MAX_PATH_LENGTH, TrieHandlers
from tests.app.asking import Start, answered
from tests.app.scripted_engine import ScriptedEngine


@pytest.fixture
def service(start: Start) -> ChatService:
    service = start(ScriptedEngine("Bees drink wine."))
    answered(service, "What?")
    return service


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {"text": "a"},
        {"text": 5, "path": []},
        {"text": "a", "path": "b"},
        {"text": "a", "path": [1.5]},
        {"text": "a", "path": [True]},
        {"text": "a", "path": [10**30]},
        {"text": "a", "path": [1] * (MAX_PATH_LENGTH + 1)},
        {"text": "a" * 10**6, "path": []},
    ],
)
def test_a_payload_that_cannot_be_is_refused(service: ChatService, payload: Any) -> None:
    assert TrieHandlers(service).walk(payload) == {
        "error": "The page sent something unexpected; reload it."
    }


@pytest.mark.parametrize("path", [[-1], [2**40], [99_999]])
def test_ids_that_no_token_has_lead_nowhere(service: ChatService, path: list[int]) -> None:
    value = TrieHandlers(service).walk({"text": "Bees", "path": path})
    is_a_token_id = 0 <= path[0] < 2**31
    expected = {"line": "Nothing of this is in the Trie."} if is_a_token_id else {}
    assert value.get("branches", []) == []
    assert value == {"error": "There is no such token."} or value["line"] == expected["line"]


def test_the_value_says_what_was_found(service: ChatService) -> None:
    value = TrieHandlers(service).walk({"text": "Bees", "path": [ord(" ")]})
    assert [step["text"] for step in value["steps"]] == ["B", "e", "e", "s", "·"]
    assert value["line"] == "Found 1 time, followed by 1 different token."
    (branch,) = value["branches"]
    assert (branch["text"], branch["count"], branch["percent"]) == ("d", "1", "100 %")
    assert branch["after"] == "rink·wine."
    assert branch["sources"] == [{"kind": "history", "id": 1, "name": "What?", "percent": "100 %"}]
    end = TrieHandlers(service).walk({"text": "wine.", "path": []})
    assert end["line"] == "Found 1 time, always at the end of a text."


def test_an_error_inside_is_one_sentence(
    service: ChatService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.trie, "walk", lambda *_: 1 / 0)
    value = TrieHandlers(service).walk({"text": "", "path": []})
    assert value == {"error": "Something went wrong inside the app; the log has the details."}


def test_the_numbers_wait_for_the_trie(start: Start, tmp_path: Path) -> None:
    service = start(ScriptedEngine(load_error=RuntimeError("no")), is_ready=False)
    service.wait_until_ready(20)
    value = TrieHandlers(service).overview()
    assert value["numbers"] == []
    assert "not ready" in value["note"]
