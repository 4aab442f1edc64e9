"""Streamed text: never half a character, the whole text at the end, in linear time."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.services.stop_strings import StopStrings
from app.services.text_stream import TextStream
from tests.app.scripted_engine import END, ByteTokenizer

ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\N{REPLACEMENT CHARACTER}"))
CUTS = st.lists(st.integers(1, 5), min_size=1)


def pieces(token_ids: list[int], cuts: list[int]) -> list[list[int]]:
    edges = [0, *accumulate(cuts * (len(token_ids) + 1))]
    edges = [min(edge, len(token_ids)) for edge in edges]
    return [token_ids[a:b] for a, b in pairwise(edges) if a < b]


@given(text=ANY_TEXT, cuts=CUTS)
def test_the_text_grows_by_whole_characters_to_the_whole_text(text: str, cuts: list[int]) -> None:
    stream = TextStream(ByteTokenizer())
    shown = ""
    for piece in pieces(list(text.encode()), cuts):
        shown += stream.append(piece)
        assert text.startswith(shown)
        assert stream.text == shown
    assert shown == text


def test_control_tokens_are_not_shown() -> None:
    stream = TextStream(ByteTokenizer())
    assert "".join(stream.append([token_id]) for token_id in [65, END, 66]) == "AB"


def test_bytes_that_are_no_text_do_not_hold_back_what_follows() -> None:
    stream = TextStream(ByteTokenizer())
    shown = "".join(stream.append([token_id]) for token_id in [0xFF] * 40 + list(b" and on"))
    assert shown.endswith(" and on")


def test_decoding_is_linear_in_the_number_of_ids() -> None:
    tokenizer = ByteTokenizer()
    stream = TextStream(tokenizer)
    for token_id in list("äöü €".encode() * 500) + [0xFF] * 1000:
        stream.append([token_id])
    num_ids = 500 * len("äöü €".encode()) + 1000
    assert tokenizer.num_decoded < 40 * num_ids


@given(
    before=ANY_TEXT.filter(lambda text: "\nUser:" not in f"{text}\nUser"),
    after=ANY_TEXT,
)
def test_an_answer_is_cut_before_its_stop_string(before: str, after: str) -> None:
    token_ids = list(f"{before}\nUser:{after}".encode())
    stop = StopStrings(ByteTokenizer(), ["\nUser:", "never"])
    for length in range(1, len(token_ids) + 1):
        kept = stop(token_ids[:length])
        if kept is not None:
            assert bytes(token_ids[:kept]).decode() == before
            assert length == len(f"{before}\nUser:".encode())
            return
    raise AssertionError("the stop string was not seen")
