"""The Trie's suite on sequences small enough to measure in a moment. No time is asserted."""

import numpy as np
import pytest

from app.bench import trie_suite
from app.bench.options import BenchOptions
from app.bench.trie_suite import Corpus, measure_trie, run_trie_suite

VOCAB_SIZE = 50


def corpus(num_sequences: int = 20) -> Corpus:
    rng = np.random.default_rng(2)
    sequences = [rng.integers(VOCAB_SIZE, size=1_100).astype(np.int32) for _ in range(22)]
    return Corpus(sequences[:num_sequences], sequences[20:])


@pytest.fixture
def few_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_suite, "_NUM_DRAFTS", 25)


@pytest.mark.usefixtures("few_drafts")
def test_a_trie_is_measured_whole() -> None:
    one = corpus()
    measured = measure_trie(one.sequences, one.held_out, VOCAB_SIZE)
    assert measured.num_tokens == 22_000
    assert 8.0 < measured.bytes_per_token < 8.2
    assert measured.mean_width > 16
    for name in ("draft_p50_ms", "tail_draft_p99_ms", "answer_added_p99_ms", "open_seconds"):
        assert getattr(measured, name) > 0
    assert measured.draft_p50_ms <= measured.draft_p99_ms <= measured.draft_p999_ms


def test_a_corpus_is_cut_to_the_token() -> None:
    assert [len(ids) for ids in corpus().limited(2_500)] == [1_100, 1_100, 300]
    assert sum(map(len, corpus(3).limited(10_000))) == corpus(3).num_tokens == 3_300


@pytest.mark.usefixtures("few_drafts")
def test_sizes_end_where_the_corpus_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_suite, "SIZES", (5_000, 10_000, 100_000))
    monkeypatch.setattr(trie_suite, "_TARGET_SIZE", 10_000)
    monkeypatch.setattr(trie_suite, "_read_corpus", lambda *_: corpus())
    monkeypatch.setattr(trie_suite, "_load_tokenizer", lambda *_: range(VOCAB_SIZE))
    report = run_trie_suite(BenchOptions(suite="trie"), lambda _: None)
    assert [row["num_tokens"] for row in report.rows] == [5_000, 10_000, 22_000]
    assert report.notes[-1] == "The installed packages gave 22,000 tokens only."
    figures = {figure.name: figure for figure in report.figures}
    assert figures["trie.10000.bytes_per_token"].is_met is True
    assert figures["trie.5000.bytes_per_token"].target is None
    limited = run_trie_suite(BenchOptions(suite="trie", limit=7_000), lambda _: None)
    assert [row["num_tokens"] for row in limited.rows] == [5_000, 7_000]
