"""The cache is disposable: missing, damaged or of another version, it is made anew."""

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from storage import SegmentCache, segment_cache


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "segments.db"


@pytest.fixture
def cache(path: Path) -> SegmentCache:
    cache = SegmentCache(path, "database")
    cache.save(1, ["one"], {"one": b"segment" * 3000})
    return cache


def works_again(cache: SegmentCache) -> bool:
    cache.save(1, ["new"], {"new": b"new"})
    return cache.load(1) == [("new", b"new")]


def test_a_segment_is_kept(cache: SegmentCache, path: Path) -> None:
    again = SegmentCache(path, "database")
    assert again.load(1) == [("one", b"segment" * 3000)]
    assert again.load(2) == []
    assert works_again(again)


def test_the_file_is_for_its_owner_alone(cache: SegmentCache, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_database_does_not_get_it(cache: SegmentCache, path: Path) -> None:
    """Sequence ids count from one in every data folder; one cache folder serves them all."""
    other = SegmentCache(path, "another database")
    assert other.load(1) == []
    assert works_again(other)
    assert cache.load(1) == [("one", b"segment" * 3000)]


def test_a_missing_file_is_made_anew(cache: SegmentCache, path: Path) -> None:
    path.unlink()
    assert cache.load(1) == []
    assert works_again(cache)


@pytest.mark.parametrize("keep", [0, 50, 5000, 20_000], ids=lambda keep: f"first {keep} bytes")
def test_a_truncated_file_is_made_anew(cache: SegmentCache, path: Path, keep: int) -> None:
    content = path.read_bytes()
    assert len(content) > keep
    path.write_bytes(content[:keep])
    assert cache.load(1) == []
    assert works_again(cache)


def test_a_file_that_is_no_database_is_made_anew(cache: SegmentCache, path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)
    assert cache.load(1) == []
    assert works_again(cache)


def test_segments_keep_their_order_and_only_new_ones_are_written(cache: SegmentCache) -> None:
    cache.save(1, ["two", "one", "three"], {"two": b"2", "three": b"3"})
    assert cache.load(1) == [("two", b"2"), ("one", b"segment" * 3000), ("three", b"3")]
    cache.save(1, ["three", "two", "never written"], {})
    assert cache.load(1) == [("three", b"3"), ("two", b"2")]
    cache.save(2, ["two"], {"two": b"of another tokenizer"})
    assert cache.load(1) == [("three", b"3"), ("two", b"2")]


def test_text_in_the_place_of_a_segment_is_a_damaged_one(cache: SegmentCache, path: Path) -> None:
    """It raised TypeError, and the model could not be loaded."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE segments SET data = 'text'")
    assert cache.load(1) == [("one", b"")]
    assert works_again(cache)


def test_a_missing_table_is_made_anew(cache: SegmentCache, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE segments")
    assert cache.load(1) == []
    assert works_again(cache)


@pytest.mark.parametrize("version", [4, 99])
def test_another_version_is_made_anew(
    cache: SegmentCache, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(segment_cache, "CACHE_VERSION", version)
        cache.save(1, ["one"], {"one": b"of another version"})
    assert cache.load(1) == []
    assert works_again(cache)


@pytest.mark.parametrize("harm", ["another version", "damage"])
def test_a_program_that_may_not_write_leaves_the_file_as_it_is(
    cache: SegmentCache, path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """An old and a new program side by side threw each other's index away."""
    if harm == "damage":
        path.write_bytes(b"not a database " * 1000)
    else:
        monkeypatch.setattr(segment_cache, "CACHE_VERSION", 99)
    before = path.read_bytes()
    other = SegmentCache(path, "database", may_write=lambda: False)
    assert other.load(1) == []
    assert other.names(1) is None
    assert path.read_bytes() == before


def test_a_dropped_segment_is_gone_from_the_disk(cache: SegmentCache, path: Path) -> None:
    assert b"segmentsegment" in path.read_bytes()
    cache.drop(1)
    assert cache.load(1) == []
    assert b"segmentsegment" not in path.read_bytes()


def test_the_file_is_as_large_as_what_is_in_it(cache: SegmentCache, path: Path) -> None:
    large = b"segment" * 300_000
    cache.save(1, ["one", "two", "three"], {"two": large, "three": b"3"})
    assert path.stat().st_size > len(large)
    cache.save(1, ["one", "three"], {})
    assert path.stat().st_size < len(large) / 3
    assert b"segment" * 9 in path.read_bytes()
    assert cache.load(1) == [("one", b"segment" * 3000), ("three", b"3")]


def test_without_a_usable_folder_the_cache_is_just_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = SegmentCache(tmp_path / "file" / "segments.db", "database")
    cache.save(1, ["one"], {"one": b"segment"})
    assert cache.load(1) == []
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_cache_held_by_another_program_is_not_deleted(
    cache: SegmentCache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_cache, "BUSY_TIMEOUT_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert cache.load(1) == []
        cache.save(1, ["one"], {"one": b"lost"})
    assert cache.load(1) == [("one", b"segment" * 3000)]


def test_threads_share_the_cache(cache: SegmentCache) -> None:
    threads = [
        threading.Thread(
            target=cache.save, args=(number, ["one"], {"one": bytes([number]) * 50_000})
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(8):
        assert cache.load(number) == [("one", bytes([number]) * 50_000)]


def test_of_many_large_segments_one_is_in_memory_while_they_are_written(
    cache: SegmentCache,
) -> None:
    """All of them together took as much memory as the Trie, beside the Trie."""
    alive: list[int] = []

    class Content(bytes):
        def __del__(self) -> None:
            alive.pop()

    class Contents(dict[str, bytes]):
        def items(self) -> Any:
            return ((name, self.made(name)) for name in self)

        def made(self, name: str) -> bytes:
            alive.append(1)
            most.append(len(alive))
            return Content(name.encode())

    most: list[int] = []
    names = [f"segment {number}" for number in range(9)]
    assert cache.save(1, names, Contents.fromkeys(names, b""))
    assert max(most) == 1
    assert cache.load(1) == [(name, name.encode()) for name in names]
