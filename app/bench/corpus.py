"""A corpus that everybody has who can run this: text and code of the installed packages.

In an order that is mixed and always the same. Knows a tokenizer, no Trie. Called by the Trie's
suite.
"""

import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from app.bench.errors import BenchError
from app.prompting import encode_text, find_control_ids
from lookahead.candidates import IntArray

__all__ = ["LARGE_VOCABULARY", "Corpus", "read_corpus", "widened"]

LARGE_VOCABULARY = 262_144  # that of the largest tokenizers in use

_SUFFIXES = {".py", ".pyi", ".md", ".rst", ".txt"}
_HELD_OUT = 20  # one file in so many is held out
_LONGEST_TEXT = 400_000  # characters of a file; more is left out
_REPORT_EVERY = 64  # files
_MOST_READ = 10_500_000  # tokens: more would take longer to tokenize than to measure
_SEED = 5
_EDITED = 50  # where text has to come again, one token in so many is another one


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sequences of token ids: those that go into the Trie, and those it never sees."""

    sequences: list[IntArray]
    held_out: list[IntArray]

    @property
    def num_tokens(self) -> int:
        """Tokens that can go into the Trie."""
        return sum(map(len, self.sequences))

    def limited(self, num_tokens: int) -> list[IntArray]:
        """Sequences with so many tokens together, the last one cut.

        Where there are not so many they come again, with edits.
        """
        assert self.num_tokens, "nothing can be repeated"
        rng = np.random.default_rng(_SEED)
        chosen: list[IntArray] = []
        left = num_tokens
        for number in count():
            for sequence in self.sequences:
                if left <= 0:
                    return chosen
                chosen.append(_edited(sequence, rng)[:left] if number else sequence[:left])
                left -= len(chosen[-1])
        return chosen


def _edited(sequence: IntArray, rng: np.random.Generator) -> IntArray:
    """The same text with some of its tokens put in other places, too."""
    places = rng.integers(len(sequence), size=(2, len(sequence) // _EDITED))
    edited = sequence.copy()
    edited[places[0]] = sequence[places[1]]
    return edited


def widened(sequence: IntArray, vocabulary: int) -> IntArray:
    """The same text in the ids of a large vocabulary.

    Each id gets as many kinds as there is room for; which one is there depends on the token before.
    """
    num_kinds = LARGE_VOCABULARY // vocabulary
    before = np.concatenate((sequence[:1], sequence[:-1])).astype(np.int64)
    kinds = (before * 2_654_435_761 >> 7) % num_kinds
    wide: IntArray = (sequence * num_kinds + kinds).astype(np.int32)
    return wide


def read_corpus(
    tokenizer: Any, num_tokens: int, held_out_length: int, report: Callable[[str], None]
) -> Corpus:
    """Files of the installed packages, tokenized until there are `num_tokens`, if so many are.

    Some ten million are enough; whoever wants more gets them again, with edits.

    Args:
        held_out_length: tokens that a file must have more of to be held out.

    Raises:
        BenchError: there are no packages to read.
    """
    control_ids = find_control_ids(tokenizer)
    corpus = Corpus([], [])
    for number, text in enumerate(_texts()):
        ids = np.asarray(encode_text(tokenizer, text, control_ids), np.int32)
        if number % _HELD_OUT == 0 and len(ids) > held_out_length:
            corpus.held_out.append(ids)
        else:
            corpus.sequences.append(ids)
        if number % _REPORT_EVERY == 0:
            report(f"Tokenizing installed packages: {corpus.num_tokens:,} tokens")
            if corpus.num_tokens >= min(num_tokens, _MOST_READ) and len(corpus.held_out) > 1:
                break
    if len(corpus.held_out) < 2:  # one to draft behind, one to fill the tail with
        raise BenchError("No installed packages were found to read text and code from.")
    return corpus


def _texts() -> Iterator[str]:
    """Text and code below the folder of installed packages, in a fixed mixed order."""
    folder = Path(sysconfig.get_paths()["purelib"])
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    random.Random(_SEED).shuffle(files)
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            yield text[:_LONGEST_TEXT]
