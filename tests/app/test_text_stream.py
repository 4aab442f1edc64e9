"""Streamed text: never half a character, the whole text at the end, in linear time."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.services.stop_strings import StopStrings
from app.services.text_stream import TextStream, token_texts
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


@given(text=ANY_TEXT, cuts=CUTS)
def test_a_character_is_counted_for_the_token_that_completes_it(text: str, cuts: list[int]) -> None:
    stream = TextStream(ByteTokenizer())
    for piece in pieces(list(text.encode()), cuts):
        stream.append(piece)
    expected = [n for c in text for n in (*[0] * (len(c.encode()) - 1), 1)]
    assert stream.text_lengths == expected
    assert stream.settle(len(expected)) == text
    assert stream.text_lengths == expected


@given(ids=st.lists(st.integers(0, END), max_size=60), kept=st.integers(0, 60))
def test_the_lengths_add_up_to_the_text_whatever_the_ids_and_wherever_it_is_cut(
    ids: list[int], kept: int
) -> None:
    stream = TextStream(ByteTokenizer())
    stream.append(ids)
    assert sum(stream.text_lengths) == len(stream.text)
    kept = min(kept, len(ids))
    text = stream.settle(kept)
    assert text == ByteTokenizer().decode(ids[:kept])
    assert (len(stream.text_lengths), sum(stream.text_lengths)) == (kept, len(text))
    assert min(stream.text_lengths, default=0) >= 0
    assert stream.settle(kept) == text
    assert "".join(token_texts(ByteTokenizer(), ids)) == ByteTokenizer().decode(ids)


def test_half_a_character_at_the_end_belongs_to_the_last_token() -> None:
    assert token_texts(ByteTokenizer(), [65, *"🎉".encode()[:2]]) == ["A", "", "\ufffd"]


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
