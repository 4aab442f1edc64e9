"""The recorder: a batch gives each prompt the answer that it gets alone, and nothing is lost."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

import lookahead
from app.bench import recording
from app.bench.recording import Recorder, record_missing
from app.bench.recordings import RecordingKey, RecordingStore, prompt_digest
from lookahead import DecodingConfig
from lookahead.loaded_model import LoadedModel
from tests.lookahead.tiny_models import (
    END_TOKEN_ID,
    FAMILIES,
    VOCAB_SIZE,
    tiny_model,
)

pytestmark = pytest.mark.tiny

LENGTH = 24
KEY = RecordingKey("abc", "float64", 4, "cpu", "2", "5", end_token_ids=(END_TOKEN_ID,))


def some_prompts(count: int, longest: int = 30) -> list[tuple[int, ...]]:
    draw = random.Random(3)
    return [
        tuple(draw.randrange(VOCAB_SIZE) for _ in range(draw.randint(1, longest)))
        for _ in range(count)
    ]


def plain_answer(model: LoadedModel, prompt: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The product's plain decoding, with the end of sequence where it was chosen."""
    *_, finished = lookahead.generate(model, prompt, decoding=DecodingConfig(max_new_tokens=length))
    assert isinstance(finished, lookahead.Finished)
    ended = (END_TOKEN_ID,) if finished.reason is lookahead.FinishReason.END else ()
    return finished.token_ids + ended


@pytest.mark.parametrize("family", [*FAMILIES, "mistral", "gemma3_text"])
def test_a_batch_gives_every_prompt_the_answer_of_plain_decoding(family: str) -> None:
    model = tiny_model(family)
    prompts = some_prompts(16)
    recorded = Recorder(model, LENGTH).record(prompts)
    answers = [plain_answer(model, prompt, LENGTH) for prompt in prompts]
    assert [r.answer_ids for r in recorded] == answers
    assert [r.prompt_ids for r in recorded] == prompts


def test_rows_leave_the_batch_when_they_end() -> None:
    recorded = Recorder(tiny_model("gpt2"), LENGTH).record(some_prompts(16))
    lengths = {len(one.answer_ids) for one in recorded}
    assert len(lengths) > 2
    assert all(
        len(one.answer_ids) == LENGTH or one.answer_ids[-1] == END_TOKEN_ID for one in recorded
    )


def test_every_row_has_the_likeliest_tokens_of_one_unpadded_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording, "_PREFILL_ROWS", 24)  # several chunks
    model = tiny_model("llama")
    for recorded in Recorder(model, LENGTH).record(some_prompts(6)):
        ids = [*recorded.prompt_ids, *recorded.answer_ids][:-1]
        with torch.inference_mode():
            logits = model.hf_model(input_ids=torch.tensor([ids])).logits[0]
        np.testing.assert_array_equal(recorded.top_ids, logits.topk(8).indices.numpy())


def test_an_answer_stops_where_the_context_is_full() -> None:
    model = tiny_model("llama")
    prompt = tuple([9] * (model.context_length - 3))
    (recorded,) = Recorder(model, LENGTH).record([prompt])
    assert recorded.answer_ids == plain_answer(model, prompt, LENGTH)
    assert len(recorded.answer_ids) <= 3


def test_an_interrupted_recording_goes_on_at_its_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "BATCH_SIZE", 2)
    model = tiny_model("llama")
    store = RecordingStore(tmp_path, KEY)
    prompts = some_prompts(5)
    batches: list[int] = []
    record = Recorder.record

    def record_two_batches(self: Recorder, batch: list[tuple[int, ...]]) -> object:
        if len(batches) == 2:
            raise KeyboardInterrupt
        batches.append(len(batch))
        return record(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "record", record_two_batches)
        with pytest.raises(KeyboardInterrupt):
            record_missing(model, prompts, store, max_new_tokens=4, report=lambda _: None)
    assert len(store.load(pytest.fail)) == 4
    said: list[str] = []
    found = record_missing(model, prompts, store, max_new_tokens=4, report=said.append)
    assert said == ["Recording answers: 0 of 1 done"]
    assert found.keys() == {prompt_digest(prompt) for prompt in prompts}


def test_prompts_that_are_equal_are_recorded_once(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path, KEY)
    found = record_missing(
        tiny_model("llama"), [(1, 2), (1, 2)], store, max_new_tokens=4, report=lambda _: None
    )
    assert len(found) == 1
