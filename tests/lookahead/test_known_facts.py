"""Facts are kept between runs, and a damaged file is no error."""

from pathlib import Path

import pytest

from lookahead.known_facts import KnownFacts


def test_facts_survive_and_can_be_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "facts.json"
    facts = KnownFacts(path)
    facts["rows"] = "[1, 2]"
    facts["ratio"] = "1.25"
    del facts["ratio"]
    assert dict(KnownFacts(path)) == {"rows": "[1, 2]"}
    assert [entry.name for entry in path.parent.iterdir()] == ["facts.json"]


@pytest.mark.parametrize("damaged", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(damaged)
    facts = KnownFacts(path)
    assert not facts
    facts["a"] = "b"
    assert KnownFacts(path)["a"] == "b"


def test_where_nothing_can_be_written_facts_last_for_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    facts = KnownFacts(tmp_path / "file" / "facts.json")
    facts["a"] = "b"
    assert facts["a"] == "b"
