"""What is measured about a model: once per machine, told while it takes place."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from app.services import ServiceConfig
from app.services.engine import LookaheadEngine
from tests.lookahead.tiny_models import VOCAB_SIZE, tiny_hf_model

pytestmark = pytest.mark.tiny


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    words = {f"word{number}": number for number in range(VOCAB_SIZE)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="word0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    tiny_hf_model("llama", "sdpa", "float32").save_pretrained(folder)
    return folder


def test_a_new_machine_measures_and_says_so_and_a_new_data_folder_does_not(
    model_folder: Path, tmp_path: Path
) -> None:
    """Each new data folder took half a minute to measure what was known."""

    def load(data_dir: str, cache_dir: str) -> tuple[tuple[int, ...], bool]:
        reports: list[str] = []
        config = ServiceConfig(
            *(tmp_path / data_dir, tmp_path / cache_dir, str(model_folder)),
            device="cpu",
            dtype="float32",
            strict=True,
        )
        model = LookaheadEngine().load(config, reports.append)
        assert model.mode == "strict"
        measured = [report for report in reports if "once per machine" in report]
        return model.row_class(True), bool(measured)

    found, is_measured = load("first", "cache")
    assert is_measured
    assert load("second", "cache") == (found, False)
    assert load("second", "another machine's cache") == (found, True)
