"""The arms that are not ours give the library's own text, and llama.cpp's as it streams."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.bench.arms import BenchRequest
from app.bench.errors import BenchError
from app.bench.prompt_sets import BenchPrompt
from app.bench.stock_arms import LlamaArm, StockArm
from tests.app.bench.scripted_runner import ScriptedClock

REQUEST = BenchRequest(BenchPrompt("p", "qa", ("?",)), (7, 3, 9, 3, 9))


@pytest.mark.tiny
@pytest.mark.parametrize("uses_lookup", [False, True])
def test_the_librarys_arm_is_its_generate_without_the_end_token(uses_lookup: bool) -> None:
    import torch

    from tests.lookahead.tiny_models import END_TOKEN_ID, tiny_hf_model

    model = tiny_hf_model("llama", "sdpa", "float64")
    arm = StockArm(model, max_new_tokens=40, end_token_ids=[END_TOKEN_ID], uses_lookup=uses_lookup)
    result = arm.run(REQUEST)
    ids = torch.tensor([REQUEST.prompt_ids])
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=40
    )[0, ids.shape[1] :].tolist()
    assert list(result.token_ids) == [token for token in expected if token != END_TOKEN_ID]
    assert result.num_decoded == len(result.token_ids) - result.first_length
    assert 0 < result.prefill_seconds <= result.total_seconds
    if not uses_lookup:
        assert result.first_length == 1
        assert result.num_steps == len(expected) - 1


def test_llama_stops_at_its_end_and_at_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ScriptedClock()

    class Llama:
        def __init__(self, **_: Any) -> None:
            pass

        def n_vocab(self) -> int:
            return 50

        def reset(self) -> None:
            pass

        def generate(self, prompt_ids: list[int], **_: Any) -> Iterator[int]:
            assert prompt_ids == list(REQUEST.prompt_ids)
            for token_id in (11, 12, 13, 2, 14):
                clock.advance(0.25)
                yield token_id

    module = ModuleType("llama_cpp")
    module.Llama = Llama  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llama_cpp", module)

    def arm(max_new_tokens: int, vocab_size: int = 50) -> LlamaArm:
        return LlamaArm(
            Path("a.gguf"),
            max_new_tokens=max_new_tokens,
            context_length=64,
            end_token_ids=[2],
            vocab_size=vocab_size,
            num_threads=2,
            clock=clock,
        )

    ended = arm(40).run(REQUEST)
    assert (ended.token_ids, ended.prefill_seconds, ended.decode_seconds) == (
        (11, 12, 13),
        0.25,
        0.75,
    )
    assert arm(2).run(REQUEST).token_ids == (11, 12)
    with pytest.raises(BenchError, match=r"a\.gguf has a vocabulary of 50 tokens and the model"):
        arm(40, vocab_size=51)


@pytest.mark.tiny
def test_the_librarys_arm_takes_nothing_from_the_models_own_generation_settings() -> None:
    """A model that comes with a penalty was measured with it, against our loop without."""
    from tests.lookahead.tiny_models import END_TOKEN_ID, tiny_hf_model

    def answer(**settings: Any) -> tuple[int, ...]:
        model = tiny_hf_model("llama", "sdpa", "float64")
        for name, value in settings.items():
            setattr(model.generation_config, name, value)
        arm = StockArm(model, max_new_tokens=20, end_token_ids=[END_TOKEN_ID])
        return arm.run(REQUEST).token_ids

    assert answer(repetition_penalty=9.0, suppress_tokens=list(range(40))) == answer()
