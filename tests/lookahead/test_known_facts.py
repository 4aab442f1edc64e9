"""Facts are kept between runs, by several programs at once; a damaged file is no error."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import Timeout

from lookahead.known_facts import KnownFacts


def test_facts_survive_and_can_be_taken_back(tmp_path: Path) -> None:
    facts = KnownFacts(tmp_path / "folder")
    facts["rows"] = "[1, 2]"
    facts["ratio"] = "1.25"
    del facts["ratio"]
    assert dict(facts) == dict(KnownFacts(tmp_path / "folder")) == {"rows": "[1, 2]"}
    assert (tmp_path / "folder" / "facts.json").exists()
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("damaged", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "facts.json").write_bytes(damaged)
    facts = KnownFacts(tmp_path)
    assert not facts
    facts["a"] = "b"
    assert KnownFacts(tmp_path)["a"] == "b"


def test_what_is_known_is_written_again_after_damage_meanwhile(tmp_path: Path) -> None:
    facts = KnownFacts(tmp_path)
    facts["a"] = "b"
    (tmp_path / "facts.json").write_bytes(b"{")
    facts["c"] = "d"
    assert dict(KnownFacts(tmp_path)) == {"a": "b", "c": "d"}


def test_what_another_program_found_out_meanwhile_stays(tmp_path: Path) -> None:
    first, second = KnownFacts(tmp_path), KnownFacts(tmp_path)
    first["a"] = "first"
    second["b"] = "second"
    del first["a"]
    assert dict(first) == dict(KnownFacts(tmp_path)) == {"b": "second"}


def test_who_writes_at_once_loses_nothing(tmp_path: Path) -> None:
    writers = [KnownFacts(tmp_path) for _ in range(8)]
    begin = threading.Barrier(len(writers))

    def write(number: int) -> None:
        begin.wait(30)
        writers[number][str(number)] = "known"

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(write, range(len(writers))))
    assert len(KnownFacts(tmp_path)) == len(writers)


def test_what_nothing_reads_any_more_is_dropped(tmp_path: Path) -> None:
    read = ["row_classes:path:2:f", "strict_attention:2:f", "fewest_rows:path:2:f", "packing:f"]
    read += ["row_cost_ratio_in_processor_time:f", "step_cost:cpu-fp32:f"]
    old = ["row_classes:f", "row_classes:cascade:f", "strict_attention:f", "row_cost_ratio:f"]
    written = dict.fromkeys((*read, *old), "x")
    (tmp_path / "facts.json").write_text(json.dumps(written))
    facts = KnownFacts(tmp_path)
    assert list(facts) == read
    facts["a"] = "b"
    assert list(json.loads((tmp_path / "facts.json").read_text())) == [*read, "a"]


def test_where_nothing_can_be_written_facts_last_for_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    facts = KnownFacts(tmp_path / "file")
    facts["a"] = "b"
    assert facts["a"] == "b"


def test_a_lock_that_is_held_for_ever_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    class Held:
        def __init__(self, _: str, timeout: float) -> None:
            waited.append(timeout)
            raise Timeout("held")

    monkeypatch.setattr("lookahead.known_facts.FileLock", Held)
    facts = KnownFacts(tmp_path)
    facts["a"], facts["b"] = "c", "d"
    assert dict(facts) == {"a": "c", "b": "d"}
    assert len(waited) == 2
    assert waited[0] > waited[1] == 0.0
