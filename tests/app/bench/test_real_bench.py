"""The quick suite as a user runs it, with the embedded model: every arm, one command."""

import json
from pathlib import Path

import pytest
import torch

from app import cli
from app.bench.stock_arms import load_stock_model
from lookahead import load_model


@pytest.mark.usefixtures("embedded_model_path")
def test_two_prompts_of_eight_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "bench --suite quick --limit 2 --max-new-tokens 8 --dtype float32 --flexible --offline"
    arguments = [*line.split(), "--drafter", "prompt-lookup"]
    arguments += ["--json", str(tmp_path / "out.json"), "--charts", str(tmp_path)]
    assert cli.main(arguments) == 0
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    arms = ["hf-generate", "hf-prompt-lookup", "plain", "cold", "history", "warmed"]
    arms.append("drafter-prompt-lookup")
    assert [row["arm"] for row in document["rows"] if row["arm"] != "llama-cpp"] == arms * 2
    assert document["complete"] is True
    assert document["options"]["mode"] == "flexible"
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    assert figures["live.failed_texts"] == 0
    assert figures["live.plain.decode_ratio_over_hf-generate"] > 0
    assert figures["live.history.tokens_per_step"] >= 1
    assert str(tmp_path) not in (tmp_path / "out.json").read_text(encoding="utf-8")
    assert "Decode speed over our plain loop, by category" in capsys.readouterr().out
    assert (tmp_path / "learning.png").is_file()


@pytest.mark.usefixtures("embedded_model_path")
@pytest.mark.parametrize("packed", [True, False])
def test_the_stock_model_has_the_very_same_weights_and_nothing_of_ours(packed: bool) -> None:
    model = load_model(dtype="float32", strict=False, packed=packed)
    stock = load_stock_model(model)
    for name, parameter in stock.named_parameters():
        path, _, kind = name.rpartition(".")
        own = getattr(model.hf_model.get_submodule(path), kind)
        assert parameter.data_ptr() == own.data_ptr()
    saved = model.hf_model.state_dict()
    assert all(torch.equal(value, saved[name]) for name, value in stock.named_parameters())
    assert stock is not model.hf_model
    assert stock.config._attn_implementation == "sdpa"
