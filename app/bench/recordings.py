"""Recorded answers: what the model said and thought likely, kept so that drafters run without it.

One file holds a batch of recordings. Knows token ids and files, no model and no text. Filled by
the recorder, read by the replay.
"""

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "RecordedModel",
    "Recording",
    "RecordingFormatError",
    "RecordingKey",
    "RecordingStore",
    "prompt_digest",
]

NUM_TOP_IDS = 8
_FORMAT = "lookahead-chat recordings 2"
_READ_ERRORS = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)

IntArray = NDArray[np.int32]


class RecordingFormatError(Exception):
    """A file is damaged, or holds something else. The message says what will be done about it."""


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """What a decode loop would know of the model that answered.

    Args:
        vocab_size: number of logits.
        context_length: tokens of prompt and answer together, at most.
        end_token_ids: tokens that end an answer, ascending.
    """

    vocab_size: int
    context_length: int
    end_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One greedy answer.

    Args:
        model: whose answer it is.
        prompt_ids: the whole prompt.
        answer_ids: the tokens chosen, one at least; the end of sequence is the last one where it
            was chosen.
        top_ids: [prompt + answer - 1, 8] what the model thought likeliest behind each token but
            the last, likeliest first.
    """

    model: RecordedModel
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    top_ids: IntArray

    @property
    def prompt_top_ids(self) -> IntArray:
        """[prompt, 8] the rows of the prompt."""
        return self.top_ids[: len(self.prompt_ids)]


@dataclass(frozen=True, slots=True)
class RecordingKey:
    """What an answer depends on besides its prompt.

    Args:
        weights: fingerprint of the model's files.
        dtype: type of the weights while recording.
        max_new_tokens: tokens recorded at most.
        device: kind of device: `cpu`.
        torch_version: of the libraries that computed; `transformers_version` likewise.
        end_token_ids: tokens that end an answer, ascending.
    """

    weights: str
    dtype: str
    max_new_tokens: int
    device: str
    torch_version: str
    transformers_version: str
    end_token_ids: tuple[int, ...]

    @property
    def folder_name(self) -> str:
        """Name of the folder of these recordings."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.weights}-{self.dtype}-{self.max_new_tokens}-{digest[:8]}"


def prompt_digest(prompt_ids: Sequence[int]) -> str:
    """SHA-256 of a prompt's ids: the name under which its recording is found."""
    return hashlib.sha256(np.asarray(prompt_ids, "<i4").tobytes()).hexdigest()


class RecordingStore:
    """The recordings of one model and length, a file a batch.

    Args:
        folder: where the folder of this key lies or will lie.
        key: what all of them have in common.
    """

    def __init__(self, folder: Path, key: RecordingKey) -> None:
        self.folder = folder / key.folder_name
        self._key = key

    def load(self, report: Callable[[str], None]) -> dict[str, Recording]:
        """Every recording by the digest of its prompt; files that cannot be used are reported."""
        found: dict[str, Recording] = {}
        for path in sorted(self.folder.glob("*.npz")):
            try:
                recordings = read_batch(path, self._key)
            except RecordingFormatError as error:
                report(str(error))
                continue
            found.update({prompt_digest(r.prompt_ids): r for r in recordings})
        return found

    def save(self, recordings: Sequence[Recording]) -> Path:
        """Write one batch under a temporary name, then rename; the same prompts replace it.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        digests = "".join(prompt_digest(recording.prompt_ids) for recording in recordings)
        path = self.folder / f"{hashlib.sha256(digests.encode()).hexdigest()[:24]}.npz"
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **_pack(recordings, self._key))
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return path


def read_batch(path: Path, key: RecordingKey) -> list[Recording]:
    """The recordings of one file.

    Raises:
        RecordingFormatError: it is damaged, foreign, or of another model or length.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            header = json.loads(str(arrays["header"]))
            vocab_size, context_length = header.pop("vocab_size"), header.pop("context_length")
            if header != json.loads(json.dumps(_header(key))):
                raise RecordingFormatError(
                    f"{path.name} holds no recordings of this model and length: it is left out."
                )
            model = RecordedModel(vocab_size, context_length, key.end_token_ids)
            data = {name: arrays[name] for name in arrays.files if name != "header"}
            return _unpack(data, model)
    except _READ_ERRORS as error:
        raise RecordingFormatError(
            f"{path.name} cannot be read as recordings ({error or type(error).__name__}): it is "
            f"left out, and what it held is recorded anew."
        ) from error


def _header(key: RecordingKey) -> dict[str, object]:
    return {"format": _FORMAT, **asdict(key)}


def _pack(recordings: Sequence[Recording], key: RecordingKey) -> dict[str, NDArray[np.generic]]:
    """Everything end to end, with the lengths of the pieces."""
    model = recordings[0].model
    assert model.end_token_ids == key.end_token_ids, "recordings of another model than the key's"
    sizes = {"vocab_size": model.vocab_size, "context_length": model.context_length}
    return {
        "header": np.array(json.dumps(_header(key) | sizes)),
        "prompt_lengths": np.array([len(r.prompt_ids) for r in recordings], np.int32),
        "answer_lengths": np.array([len(r.answer_ids) for r in recordings], np.int32),
        "token_ids": np.array(
            [i for r in recordings for i in (*r.prompt_ids, *r.answer_ids)], "i4"
        ),
        "top_ids": np.concatenate([r.top_ids for r in recordings]).astype(np.int32),
    }


def _unpack(arrays: dict[str, NDArray[np.int32]], model: RecordedModel) -> list[Recording]:
    """What `_pack` made. Raises ValueError or KeyError where the pieces do not fit together."""
    token_ids, top_ids = arrays["token_ids"], arrays["top_ids"]
    prompt_lengths = arrays["prompt_lengths"].tolist()
    answer_lengths = arrays["answer_lengths"].tolist()
    if any(array.dtype != np.int32 for array in arrays.values()):
        raise ValueError("its numbers are of another type")
    if min([*prompt_lengths, *answer_lengths], default=1) < 1:
        raise ValueError("it has an empty prompt or answer")
    num_tokens = sum(prompt_lengths) + sum(answer_lengths)
    num_rows = num_tokens - len(prompt_lengths)
    if token_ids.shape != (num_tokens,) or top_ids.shape != (num_rows, NUM_TOP_IDS):
        raise ValueError("its parts do not fit together")
    for array in (token_ids, top_ids):
        if array.min(initial=0) < 0 or array.max(initial=0) >= model.vocab_size:
            raise ValueError("it has tokens outside the vocabulary")
    recordings = []
    token_start = row_start = 0
    for prompt_length, answer_length in zip(prompt_lengths, answer_lengths, strict=True):
        ids = token_ids[token_start : token_start + prompt_length + answer_length].tolist()
        rows = top_ids[row_start : row_start + len(ids) - 1]
        prompt_ids, answer_ids = tuple(ids[:prompt_length]), tuple(ids[prompt_length:])
        if not set(model.end_token_ids).isdisjoint(answer_ids[:-1]):
            raise ValueError("one of its answers goes on behind its end")
        recordings.append(Recording(model, prompt_ids, answer_ids, rows))
        token_start += len(ids)
        row_start += len(rows)
    return recordings
