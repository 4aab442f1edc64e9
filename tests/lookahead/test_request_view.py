"""The request view against a plain list, and what it promises about its own end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import TokenSource
from lookahead.request_view import RequestView
from tests.lookahead.list_of_windows import found_in_request
from tests.lookahead.lookups import position_of

PROMPT, OUTPUT, DOCUMENT = TokenSource.PROMPT, TokenSource.OUTPUT, TokenSource.DOCUMENT


def view_of(*parts: tuple[list[int], TokenSource]) -> RequestView:
    request = RequestView()
    for token_ids, source in parts:
        request.append(token_ids, source)
    return request


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=20), st.integers(0, 60)), max_size=6),
    st.integers(1, 7),
)
def test_finds_what_a_list_of_windows_finds_after_any_changes(
    changes: list[tuple[list[int], int]], depth: int
) -> None:
    request, tokens = RequestView(), list[int]()
    for added, length in changes:
        request.append(added, PROMPT)
        tokens += added
        request.truncate(min(length, len(tokens)))
        del tokens[length:]
        found = request.candidates(depth)
        places = [(0, position) for position in found.positions.tolist()]
        windows = [tuple(window) for window in found.windows.tolist()]
        lengths = found.match_lengths.tolist()
        expected = found_in_request(tokens, depth) if len(tokens) > 1 else {}
        assert dict(zip(places, zip(lengths, windows, strict=True), strict=True)) == expected
        assert len(places) == len(expected)
        for candidate, window in enumerate(windows):
            for step, token in enumerate(window):
                assert tokens[position_of(found, candidate, step)] == token


def test_longest_matches_come_first_and_of_equal_ones_the_latest() -> None:
    request = view_of(([1, 2, 9, 5, 2, 8, 1, 2, 7, 1, 2], PROMPT))
    assert request.candidates(1).windows[:, 0].tolist() == [7, 9, 8]


def test_a_match_runs_across_the_border_of_prompt_and_answer() -> None:
    request = view_of(([4, 5], PROMPT), ([6, 7], OUTPUT), ([5, 6], OUTPUT))
    found = request.candidates(2)
    assert found.windows.tolist() == [[7, 5]]
    assert found.match_lengths.tolist() == [2]


def test_text_that_repeats_is_expected_to_go_on() -> None:
    request = view_of(([1, 2, 3, 1, 2, 3, 1], PROMPT))
    assert request.candidates(7).windows[0].tolist() == [2, 3, 1, 2, 3, 1, 2]


def test_grows_without_losing_tokens_or_sources() -> None:
    request = RequestView()
    for begin in range(0, 5_000, 700):
        request.append(range(begin, begin + 700), PROMPT if begin % 1400 else OUTPUT)
    assert request.token_ids.tolist() == list(range(len(request)))
    assert [request.source_at(position) for position in (0, 699, 700, 1400)] == [
        OUTPUT,
        OUTPUT,
        PROMPT,
        OUTPUT,
    ]


def test_what_was_truncated_is_gone() -> None:
    request = view_of(([1, 2, 3], PROMPT))
    request.truncate(1)
    request.append([9], DOCUMENT)
    assert request.token_ids.tolist() == [1, 9]
    assert request.source_at(1) is DOCUMENT
    with pytest.raises(ValueError, match="truncate"):
        request.truncate(3)


def test_its_tokens_can_be_read_but_not_written() -> None:
    request = view_of(([1, 2], PROMPT))
    with pytest.raises(ValueError, match="read-only"):
        request.token_ids[0] = 5
    request.append(np.array([3]), OUTPUT)
    assert request.token_ids.tolist() == [1, 2, 3]


def test_only_a_requests_own_sources_are_taken() -> None:
    with pytest.raises(ValueError, match="history"):
        view_of(([1], TokenSource.HISTORY))


def test_what_a_prompt_quotes_is_a_document_s_and_nothing_behind_its_end_is() -> None:
    request = view_of(([1, 2, 3], PROMPT), ([4], OUTPUT))
    request.mark_document(1, 2)
    request.mark_document(3, 900)
    request.append([5], OUTPUT)
    assert [request.source_at(i) for i in range(5)] == [PROMPT, DOCUMENT, PROMPT, DOCUMENT, OUTPUT]
