"""Recordings on disk: what was recorded comes back, and nothing else is believed."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.bench.recordings import (
    RecordedModel,
    Recording,
    RecordingFormatError,
    RecordingKey,
    RecordingStore,
    prompt_digest,
    read_batch,
)

KEY = RecordingKey(
    "0123abcd",
    "float32",
    8,
    device="cpu",
    torch_version="2.13.0",
    transformers_version="5.24.0",
    end_token_ids=(2, 7),
)
MODEL = RecordedModel(vocab_size=50, context_length=64, end_token_ids=(2, 7))


def recording(prompt: list[int], answer: list[int]) -> Recording:
    num_rows = len(prompt) + len(answer) - 1
    rows = np.arange(num_rows * 8, dtype=np.int32).reshape(-1, 8) % 50
    return Recording(MODEL, tuple(prompt), tuple(answer), rows)


BATCH = [recording([1, 0, 3], [4, 5, 2]), recording([9], [0])]


def load(store: RecordingStore) -> tuple[dict[str, Recording], list[str]]:
    said: list[str] = []
    return store.load(said.append), said


def test_what_was_saved_comes_back_whole(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path, KEY)
    store.save(BATCH)
    found, said = load(RecordingStore(tmp_path, KEY))
    assert said == []
    assert found.keys() == {prompt_digest([1, 0, 3]), prompt_digest([9])}
    for saved in BATCH:
        again = found[prompt_digest(saved.prompt_ids)]
        assert (again.model, again.prompt_ids) == (MODEL, saved.prompt_ids)
        assert again.answer_ids == saved.answer_ids
        np.testing.assert_array_equal(again.top_ids, saved.top_ids)
        assert len(again.prompt_top_ids) == len(again.prompt_ids)


def test_a_batch_saved_again_takes_its_own_place_and_leaves_no_temporary_file(
    tmp_path: Path,
) -> None:
    store = RecordingStore(tmp_path, KEY)
    assert store.save(BATCH) == store.save(BATCH)
    assert len(list(store.folder.iterdir())) == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, weights="ffff"),
        replace(KEY, dtype="bfloat16"),
        replace(KEY, max_new_tokens=9),
        replace(KEY, device="cuda"),
        replace(KEY, torch_version="2.14.0"),
        replace(KEY, transformers_version="5.25.0"),
        replace(KEY, end_token_ids=(2,)),
    ],
)
def test_recordings_of_another_model_or_length_are_not_taken(
    tmp_path: Path, other: RecordingKey
) -> None:
    path = RecordingStore(tmp_path, KEY).save(BATCH)
    assert load(RecordingStore(tmp_path, other)) == ({}, [])
    with pytest.raises(RecordingFormatError, match="no recordings of this model"):
        read_batch(path, other)


def damaged_files(path: Path) -> dict[str, bytes]:
    """What may lie in the place of a good file."""
    whole = path.read_bytes()
    flipped = bytearray(whole)
    middle = len(whole) // 2  # many bytes: a single one may be a date that nobody reads
    flipped[middle : middle + 64] = bytes(byte ^ 0xFF for byte in flipped[middle : middle + 64])
    return {"empty": b"", "cut": whole[:-30], "flipped": bytes(flipped), "text": b"hello"}


@pytest.mark.parametrize("kind", ["empty", "cut", "flipped", "text"])
def test_a_damaged_file_is_named_and_left_out_and_replaced_by_the_next_save(
    tmp_path: Path, kind: str
) -> None:
    store = RecordingStore(tmp_path, KEY)
    whole_path = store.save([recording([4, 4], [1])])
    path = store.save(BATCH)
    path.write_bytes(damaged_files(path)[kind])
    found, said = load(store)
    assert found.keys() == {prompt_digest([4, 4])}
    assert len(said) == 1
    assert path.name in said[0]
    assert "recorded anew" in said[0]
    store.save(BATCH)
    assert len(load(store)[0]) == 3
    assert whole_path.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"token_ids": np.arange(6, dtype=np.int32)},
        {"token_ids": np.full(8, 50, np.int32)},
        {"token_ids": np.full(8, -1, np.int32)},
        {"token_ids": np.array([1, 0, 3, 4, 7, 2, 9, 0], np.int32)},  # goes on behind an end
        {"top_ids": np.zeros((5, 8), np.int32)},
        {"top_ids": np.full((6, 8), 50, np.int32)},
        {"top_ids": np.full((6, 8), -1, np.int32)},
        {"top_ids": np.zeros((6, 8), np.int64)},
        {"answer_lengths": np.array([4, 0], np.int32)},
        {"prompt_lengths": np.array([3], np.int32)},
        {"header": np.array("[]")},
        {"header": np.array(json.dumps({"format": "something else"}))},
        {"header": np.array([{"a": 1}], object)},  # would need pickle
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    tmp_path: Path, change: dict[str, np.ndarray]
) -> None:
    path = RecordingStore(tmp_path, KEY).save(BATCH)
    with np.load(path) as arrays:
        parts = dict(arrays)
    with path.open("wb") as file:
        np.savez(file, **(parts | change))
    with pytest.raises(RecordingFormatError, match=r"cannot be read|no recordings"):
        read_batch(path, KEY)
