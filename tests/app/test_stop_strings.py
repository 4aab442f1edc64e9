"""Stop texts: an answer ends at the same character with drafting as without, wherever they lie."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lookahead
from app.services.stop_strings import StopStrings
from app.services.transcript import Transcript
from lookahead import DecodingConfig, FinishReason, SamplingConfig
from lookahead.events import GenerationStats
from tests.lookahead.oracle_drafter import OracleDrafter
from tests.lookahead.tiny_models import END_TOKEN_ID, VOCAB_SIZE, tiny_model

EURO = "€".encode()
# Pieces of texts by token id: whole words, an end of a line within one, and bytes of a character.
PIECES = (
    *(b"a", b"b", b"ab", b"ba\n", b"\n", b"\na", b" ab", b"aab"),
    *(EURO[:1], EURO[1:2], EURO[2:], EURO, b"x" + EURO[:2], EURO[2:] + b"b"),
)


class PieceTokenizer:
    """Ids stand for pieces of bytes, the higher ones for the same again."""

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        whole = b"".join(PIECES[token_id % len(PIECES)] for token_id in token_ids)
        return whole.decode(errors="replace")


def expected_text(text: str, strings: Sequence[str]) -> str | None:
    """Character by character: up to the string that is complete first, the longer one of two."""
    for end in range(1, len(text) + 1):
        starts = [end - len(s) for s in strings if text[:end].endswith(s)]
        if starts:
            return text[: min(starts)]
    return None


STRINGS = st.lists(st.text("ab\n €x", min_size=1, max_size=4), min_size=1, max_size=3)


@given(ids=st.lists(st.integers(0, len(PIECES) - 1), max_size=40), strings=STRINGS)
def test_a_text_is_cut_at_the_character_whatever_the_tokens(
    ids: list[int], strings: list[str]
) -> None:
    tokenizer = PieceTokenizer()
    stop = StopStrings(tokenizer, strings)
    for length in range(1, len(ids) + 1):
        kept = stop(ids[:length])
        if kept is not None:
            text = tokenizer.decode(ids[:kept]) + stop.remainder
            assert text == expected_text(tokenizer.decode(ids[:length]), strings)
            assert "\N{REPLACEMENT CHARACTER}" not in tokenizer.decode(ids[:kept])[-1:]
            return
    text = tokenizer.decode(ids)
    is_settled = not text.endswith("\N{REPLACEMENT CHARACTER}")  # a character may go on
    assert not is_settled or expected_text(text, strings) is None


def test_bytes_of_a_character_that_begins_the_stop_string_are_not_kept() -> None:
    """They were, and the answer ended with a broken character."""
    stop = StopStrings(PieceTokenizer(), ["€"])
    assert [stop([0, 8, 9, 10][:length]) for length in range(1, 5)] == [None, None, None, 1]
    assert stop.remainder == ""


def test_what_a_token_says_before_the_stop_string_stays() -> None:
    """The whole token was cut off."""
    stop = StopStrings(PieceTokenizer(), ["\n"])
    assert stop([0]) is None
    assert stop([0, 3]) == 1
    assert stop.remainder == "ba"
    transcript = Transcript(PieceTokenizer(), GenerationStats(), stop)
    transcript.take(lookahead.PrefillDone((0,), 0, 3, 1, 0.1))
    transcript.take(lookahead.Finished((0,), FinishReason.STOP, GenerationStats()))
    for _ in range(2):
        transcript.finish()
        assert (transcript.text, transcript.text_lengths) == ("aba", [3])


@pytest.mark.parametrize(
    ("strings", "kept"),
    [(["b", "a"], ""), (["a", "b"], ""), (["\n", "a\n"], "b"), (["a\n", "\n"], "b"), (["a"], "b")],
)
def test_of_overlapping_strings_the_first_complete_counts_the_longer_of_two(
    strings: list[str], kept: str
) -> None:
    """All of them complete within the one token `ba` and an end of a line."""
    stop = StopStrings(PieceTokenizer(), strings)
    assert (stop([3]), stop.remainder) == (0, kept)


def answer(
    strings: Sequence[str], seed: int, drafter: OracleDrafter | None = None
) -> tuple[Transcript, list[lookahead.StepDone]]:
    """An answer of a tiny model that ends at the strings, and its steps."""
    tokenizer = PieceTokenizer()
    stop = StopStrings(tokenizer, strings) if strings else None
    transcript = Transcript(tokenizer, GenerationStats(), stop)
    steps = []
    for event in lookahead.generate(
        tiny_model("llama"),
        [7, 3, 9],
        drafter=drafter,
        decoding=DecodingConfig(max_new_tokens=25, adaptive=False),
        sampling=SamplingConfig(temperature=1.2, seed=seed),
        stop=stop,
    ):
        transcript.take(event)
        if isinstance(event, lookahead.StepDone):
            steps.append(event)
    transcript.finish()
    return transcript, steps


@pytest.mark.tiny
def test_drafting_cuts_where_plain_decoding_does() -> None:
    """Inside an accepted branch, across steps, across the bytes of a character, and overlapping."""
    choose = random.Random(5)
    met = dict.fromkeys(("inside a branch", "across steps", "in a character", "overlapping"), 0)
    for seed in range(30):
        whole, _ = answer((), seed)
        text = PieceTokenizer().decode(whole.token_ids)
        if len(text) < 8:
            continue
        start = choose.randrange(1, len(text) - 4)
        stop = text[start : start + choose.randint(1, 4)]
        if "\N{REPLACEMENT CHARACTER}" in stop:
            stop = "€"
        strings = (stop, stop[:-1] + "?", stop[1:] + text[start + len(stop)] or "?")
        plain, _ = answer(strings, seed)
        oracle = OracleDrafter([7, 3, 9, *whole.token_ids], VOCAB_SIZE, seed)
        drafted, steps = answer(strings, seed, oracle)
        assert (drafted.text, drafted.token_ids) == (plain.text, plain.token_ids)
        assert drafted.reason == plain.reason
        if plain.reason is not FinishReason.STOP:
            continue
        assert plain.text == expected_text(text, strings)
        num_cut = drafted.stats.num_cut_tokens
        last = steps[-1] if steps else None
        if last is not None:
            met["inside a branch"] += num_cut > 1 and last.accepted_length > len(last.token_ids)
            taken_back = sum(len(step.token_ids) for step in steps) + 1 - len(plain.token_ids)
            met["across steps"] += taken_back > 0
        kept = len(plain.token_ids)
        met["in a character"] += bool(whole.text_lengths[kept : kept + 1] == [0])
        met["overlapping"] += text.startswith(strings[2], start + 1)
    assert all(count >= 2 for count in met.values()), met
    assert END_TOKEN_ID not in plain.token_ids
