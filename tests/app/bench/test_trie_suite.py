"""The Trie's suite on sequences small enough to measure in a moment. No time is asserted."""

from pathlib import Path

import numpy as np
import pytest

from app.bench import corpus as corpus_module
from app.bench import trie_measuring, trie_suite
from app.bench.corpus import LARGE_VOCABULARY, Corpus, read_corpus, widened
from app.bench.errors import BenchError
from app.bench.options import BenchOptions
from app.bench.reports import SuiteReport
from app.bench.trie_measuring import measure_trie
from app.bench.trie_suite import run_trie_suite
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
    for name, value in (("NUM_DRAFTS", 25), ("NUM_LONG_DRAFTS", 5), ("NUM_TURNS", 3)):
        monkeypatch.setattr(trie_measuring, name, value)


@pytest.mark.usefixtures("few_drafts")
def test_a_trie_is_measured_whole() -> None:
    one = corpus()
    measured = measure_trie(one.sequences, one.held_out)
    assert measured.num_tokens == 22_000
    assert 8.0 < measured.bytes_per_token < 8.2
    assert 7.5 < measured.unmerged_bytes_per_token < measured.bytes_per_token, "a tail has no order"
    assert measured.num_distinct_tokens == VOCAB_SIZE
    assert measured.mean_width > 16
    for name in (
        "draft_p50_ms",
        "unmerged_draft_p99_ms",
        "candidates_p50_ms",
        "turn_saved_p99_ms",
        "answer_added_p99_ms",
        "open_seconds",
        "long_draft_p99_ms",
    ):
        assert getattr(measured, name) > 0
    assert measured.draft_p50_ms <= measured.draft_p99_ms <= measured.draft_p999_ms


def test_a_corpus_is_cut_to_the_token_and_comes_again_with_edits() -> None:
    one = corpus()
    assert [len(ids) for ids in one.limited(2_500)] == [1_100, 1_100, 300]
    few = corpus(3)
    twice = few.limited(6_000)
    assert [len(ids) for ids in twice] == [1_100, 1_100, 1_100, 1_100, 1_100, 500]
    assert all(new is not old for new, old in zip(twice[3:], few.sequences, strict=True))
    num_edited = sum(
        int((new != old).sum()) for new, old in zip(twice[3:5], few.sequences[:2], strict=True)
    )
    assert 20 < num_edited <= 44
    assert all((a == b).all() for a, b in zip(few.limited(6_000), twice, strict=True))


def test_a_large_vocabulary_repeats_where_the_text_does() -> None:
    ids = np.tile(np.arange(50, dtype=np.int32) * 900, 3)
    wide = widened(ids, 49_152)
    assert wide.max() < LARGE_VOCABULARY
    assert (wide // 5 == ids).all()
    assert (wide[50:100] == wide[100:]).all()
    assert len(set((wide[50:100] % 5).tolist())) == 5


@pytest.mark.usefixtures("few_drafts")
def test_each_size_is_measured_with_both_vocabularies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trie_suite, "SIZES", (5_000, 10_000, 30_000))
    monkeypatch.setattr(trie_suite, "_TARGET_SIZE", 10_000)
    monkeypatch.setattr(trie_suite, "read_corpus", lambda *_: corpus())
    monkeypatch.setattr(trie_suite, "_load_tokenizer", lambda *_: range(VOCAB_SIZE))
    told: list[str] = []
    report = run_trie_suite(BenchOptions(suite="trie"), told.append)
    assert "Measuring a Trie of 30,000 tokens: merging" in told
    assert len(set(told)) == len(told) == 3 * 2 * 5, "what takes minutes says how far it is"
    assert sorted((row["vocabulary"], row["num_tokens"]) for row in report.rows) == [
        (vocabulary, size)
        for vocabulary in (VOCAB_SIZE, LARGE_VOCABULARY)
        for size in (5_000, 10_000, 30_000)
    ]
    assert "22,000" in report.notes[-1]
    figures = {figure.name: figure for figure in report.figures}
    assert figures["trie.v50.10000.bytes_per_token"].is_met is True
    assert figures["trie.v50.5000.bytes_per_token"].target is None
    assert figures["trie.v50.10000.build_cpu_seconds"].target == 15.0
    assert figures["trie.v262144.10000.build_cpu_seconds"].target == 30.0
    assert report.draw is not None
    [(name, _)] = report.draw(tmp_path)
    assert (tmp_path / name).stat().st_size > 10_000
    limited = run_trie_suite(BenchOptions(suite="trie", limit=7_000), lambda _: None)
    assert {row["num_tokens"] for row in limited.rows} == {5_000, 7_000}


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
    tails = [ids for ids in tails if isinstance(ids, np.ndarray)]
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
