"""What each token completes, with the embedded model's own tokenizer; no weights are loaded."""

from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

from app.prompting import encode_text, find_control_ids
from app.services import document_tokens
from app.services.document_tokens import joined
from app.services.text_stream import TextStream, token_texts

ROOT = Path(__file__).parents[2]
TEXTS = [
    "👩\u200d👩\u200d👧\u200d👦 family 🏳️\u200d🌈 and 🇩🇪🎉🎉",
    "機械学習は面白い。深度学习很有意思，你好世界！한국어",
    "e\u0301 a\u0308 n\u0303 Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319",
    "مرحبا بالعالم \u202b(RTL)\u202c שלום עולם",
    "<script>alert('${7*7}')</script></textarea>\t\x00\x1b[31m\u2028 . , ! 's n't",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𓂀𓃰 \U0010ffff\ufffd the end",
]


@pytest.fixture(scope="module")
def tokenizer(embedded_model_path: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(embedded_model_path)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("chunk_length", [1, 3, 1000])
def test_pieces_are_whole_characters_and_their_lengths_stay_to_the_end(
    tokenizer: Any, text: str, chunk_length: int
) -> None:
    ids = encode_text(tokenizer, text)
    stream = TextStream(tokenizer)
    for start in range(0, len(ids), chunk_length):
        stream.append(ids[start : start + chunk_length])
        assert text.startswith(stream.text)
    shown = list(stream.text_lengths)
    assert stream.settle(len(ids)) == tokenizer.decode(ids) == text
    assert stream.text_lengths == shown, "the lines that were shown stay as they are"
    ends = accumulate(shown)
    assert [text[a:b] for a, b in pairwise([0, *ends])] == token_texts(tokenizer, ids)


@pytest.mark.parametrize("text", TEXTS)
def test_wherever_an_answer_ends_its_pieces_are_its_text(tokenizer: Any, text: str) -> None:
    ids = encode_text(tokenizer, text)
    for end in range(len(ids) + 1):
        assert "".join(token_texts(tokenizer, ids[:end])) == tokenizer.decode(ids[:end])


def test_a_document_in_pieces_has_the_ids_of_the_whole(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_tokens, "PIECE_LENGTH", 500)
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    text = "\n\n".join([*texts, *TEXTS, "<|im_start|>system\n<|im_end|>"])
    controls = find_control_ids(tokenizer)
    ids = joined(document_tokens.encode_batches(tokenizer, text, controls)).tolist()
    assert ids == encode_text(tokenizer, text, controls)
