"""The Trie's suite on sequences small enough to measure in a moment. No time is asserted."""

from pathlib import Path

import numpy as np
import pytest

from app.bench import corpus as corpus_module
from app.bench import trie_suite
from app.bench.corpus import Corpus, read_corpus
from app.bench.errors import BenchError
from app.bench.options import BenchOptions
from app.bench.reports import SuiteReport
from app.bench.trie_suite import measure_trie, run_trie_suite
from lookahead.model_source import prepare_model
from lookahead.trie import Trie
from tests.app.scripted_engine import ByteTokenizer

VOCAB_SIZE = 50


def corpus(num_sequences: int = 20) -> Corpus:
    rng = np.random.default_rng(2)
    sequences = [rng.integers(VOCAB_SIZE, size=1_100).astype(np.int32) for _ in range(22)]
    return Corpus(sequences[:num_sequences], sequences[20:])


@pytest.fixture
def few_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_suite, "_NUM_DRAFTS", 25)
    monkeypatch.setattr(trie_suite, "_NUM_LONG_DRAFTS", 5)


@pytest.mark.usefixtures("few_drafts")
def test_a_trie_is_measured_whole() -> None:
    one = corpus()
    measured = measure_trie(one.sequences, one.held_out)
    assert measured.num_tokens == 22_000
    assert 8.0 < measured.bytes_per_token < 8.2
    assert measured.mean_width > 16
    for name in (
        "draft_p50_ms",
        "tail_draft_p99_ms",
        "answer_added_p99_ms",
        "open_seconds",
        "long_draft_p99_ms",
    ):
        assert getattr(measured, name) > 0
    assert measured.draft_p50_ms <= measured.draft_p99_ms <= measured.draft_p999_ms


def test_a_corpus_is_cut_to_the_token() -> None:
    assert [len(ids) for ids in corpus().limited(2_500)] == [1_100, 1_100, 300]
    assert sum(map(len, corpus(3).limited(10_000))) == corpus(3).num_tokens == 3_300


@pytest.mark.usefixtures("few_drafts")
def test_sizes_end_where_the_corpus_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_suite, "SIZES", (5_000, 10_000, 100_000))
    monkeypatch.setattr(trie_suite, "_TARGET_SIZE", 10_000)
    monkeypatch.setattr(trie_suite, "read_corpus", lambda *_: corpus())
    monkeypatch.setattr(trie_suite, "_load_tokenizer", lambda *_: range(VOCAB_SIZE))
    report = run_trie_suite(BenchOptions(suite="trie"), lambda _: None)
    assert [row["num_tokens"] for row in report.rows] == [5_000, 10_000, 22_000]
    assert report.notes[-1] == "The installed packages gave 22,000 tokens only."
    figures = {figure.name: figure for figure in report.figures}
    assert figures["trie.10000.bytes_per_token"].is_met is True
    assert figures["trie.5000.bytes_per_token"].target is None
    limited = run_trie_suite(BenchOptions(suite="trie", limit=7_000), lambda _: None)
    assert [row["num_tokens"] for row in limited.rows] == [5_000, 7_000]


def test_the_corpus_is_the_installed_packages_with_every_twentieth_file_held_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpus_module.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path)})
    with pytest.raises(BenchError, match="No installed packages"):
        read_corpus(ByteTokenizer(), 1_000, 50, lambda _: None)
    for number in range(60):
        (tmp_path / f"m{number}.py").write_text(f"x = {number:04}\n" * 10)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "image.png").write_text("no text")
    found = read_corpus(ByteTokenizer(), 10_000, 50, lambda _: None)
    assert (len(found.sequences), len(found.held_out)) == (57, 3)
    again = read_corpus(ByteTokenizer(), 10_000, 50, lambda _: None)
    assert [ids.tolist() for ids in again.sequences] == [ids.tolist() for ids in found.sequences]


@pytest.mark.usefixtures("few_drafts")
def test_the_tail_is_text_that_is_not_drafted_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ids by chance, which nothing matches: drafts beside a full tail cost what they did
    without one."""
    one = corpus()
    tails: list[np.ndarray] = []
    monkeypatch.setattr(
        Trie, "add", lambda self, ids, add=Trie.add: (tails.append(ids), add(self, ids))[1]
    )
    measure_trie(one.sequences, one.held_out)
    assert tails
    allowed = {tuple(w) for w in np.lib.stride_tricks.sliding_window_view(one.held_out[1], 9)}
    assert tuple(tails[0][:9]) in allowed
    assert tuple(tails[1][:9]) in allowed


def test_nothing_but_the_tokenizer_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fetched the weights, of which it reads none."""
    from app import bench
    from app.terminal import Terminal

    asked: list[dict[str, bool]] = []
    monkeypatch.setattr(bench, "prepare_model", lambda *_, **how: asked.append(how))
    monkeypatch.setattr(bench, "_runner", lambda _: lambda *_: SuiteReport("x"))
    monkeypatch.setattr("app.bench.machine._accelerator", lambda: "none")
    for suite in ("trie", "start"):
        assert bench.run(BenchOptions(suite=suite), Terminal()) == 0
    assert [how["with_weights"] for how in asked] == [False, True]


def test_of_a_model_on_a_hub_the_weights_are_asked_for_only_if_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    def fetch(_name: str, *, allow_patterns: list[str], **_: object) -> str:
        asked.append(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    for with_weights in (False, True):
        prepare_model("some/model", lambda _: None, with_weights=with_weights)
    assert ["*.safetensors" in patterns for patterns in asked] == [False, True]
