"""Tokenizers, what was learned and the page's settings."""

import threading
from pathlib import Path

import numpy as np
import pytest

from storage import Database, learned_blobs


def test_a_tokenizer_has_one_id_for_ever(data_dir: Path) -> None:
    with Database(data_dir) as db:
        first = db.tokenizers.ensure("aaa", "SmolLM2")
        assert db.tokenizers.ensure("bbb", "Qwen3") != first
    with Database(data_dir) as db:
        assert db.tokenizers.ensure("aaa", "renamed") == first


@pytest.mark.parametrize("kind", ["successors", "calibration", "step_costs"])
def test_each_kind_of_what_was_learned_is_kept_per_model(db: Database, kind: str) -> None:
    kinds = {"successors": db.successors, "calibration": db.calibration}
    kinds["step_costs"] = db.step_costs
    store = kinds.pop(kind)
    assert store.load("model") is None
    store.save("model", b"\x00old")
    store.save("model", b"\x00new")
    store.save("other", b"")
    assert store.load("model") == b"\x00new"
    assert store.load("other") == b""
    assert [other.load("model") for other in kinds.values()] == [None, None]


def test_what_was_learned_longest_ago_gives_way(db: Database) -> None:
    """Megabytes for every version of every model stayed for ever."""
    tokenizer_id = db.tokenizers.ensure("t", "T")
    source_id, _ = db.sources.add_document(
        name="a",
        uri="a",
        sha256="a",
        text="x" * 10,
        token_ids=np.zeros(10, np.int32),
        tokenizer_id=tokenizer_id,
    )
    db.deeper_readings.want(source_id)
    for number in range(9):
        db.deeper_readings.advance(source_id, f"model {number}", 10)
        db.successors.save(f"model {number}", b"table")
        db.successors.save("model 1", b"used again and again")
    known = [number for number in range(9) if db.successors.load(f"model {number}")]
    assert known == [1, 2, 3, 4, 5, 6, 7, 8]
    left = [db.deeper_readings.num_tokens_left(f"model {n}", tokenizer_id) for n in range(9)]
    assert left == [10, *[0] * 8], "what it has no successors of is to be read again"


def test_what_was_just_learned_stays_where_the_clock_was_set_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        db.calibration.save(f"model {number}", b"counts")
    monkeypatch.setattr(learned_blobs, "now", lambda: "1999-01-02T03:04:05+00:00")
    db.calibration.save("newest", b"counts")
    assert db.calibration.load("newest") == b"counts"
    assert [number for number in range(8) if db.calibration.load(f"model {number}")] == [
        *range(1, 8)
    ]


def test_settings_are_json_values_with_a_default(data_dir: Path) -> None:
    with Database(data_dir) as db:
        assert db.settings.get("temperature") is None
        assert db.settings.get("temperature", 0.5) == 0.5
        db.settings.set("temperature", 0.8)
        db.settings.set("panel", {"open": True, "tabs": ["chat", "trie"]})
        db.settings.set("lookahead", None)
    with Database(data_dir) as db:
        assert db.settings.get("temperature") == 0.8
        assert db.settings.get("panel") == {"open": True, "tabs": ["chat", "trie"]}
        assert db.settings.get("lookahead", "default") is None
        with pytest.raises(TypeError):
            db.settings.set("temperature", object())
        assert db.settings.get("temperature") == 0.8


def test_a_setting_that_several_change_at_once_loses_nothing(data_dir: Path) -> None:
    """It was read, and written after that: of two programs the later one won."""

    def add(number: int) -> None:
        with Database(data_dir) as db:
            for _ in range(20):
                db.settings.change("all", lambda value: [*(value or []), number])

    Database(data_dir).close()
    threads = [threading.Thread(target=add, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Database(data_dir) as db:
        assert len(db.settings.get("all")) == 60
