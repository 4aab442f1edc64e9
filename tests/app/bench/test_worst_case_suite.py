"""The hostile Trie is hostile: at every place of the answers it drafts, and it is wrong."""

from itertools import pairwise

from app.bench.worst_case_suite import hostile_sequences
from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.request_view import RequestView
from lookahead.trie import Trie

PROMPT = tuple(range(100, 130))
ANSWER = tuple((at * at) % 97 for at in range(60))  # tokens come back, with others behind them
VOCAB_SIZE = 512


def test_at_every_place_of_the_answer_the_hostile_trie_drafts_and_is_wrong() -> None:
    """Its first version knew eight tokens before each place, and so every transition that is right:
    what it drafted was accepted, and the run was faster than plain."""
    trie = Trie()
    wrong = hostile_sequences(PROMPT, ANSWER, VOCAB_SIZE)
    trie.add_many((None, TokenSource.HISTORY, ids) for ids in wrong)
    drafter = TrieDrafter(trie, None)
    inside = {at for place in range(8, len(ANSWER), 24) for at in range(place - 7, place)}
    for length, right in enumerate(ANSWER):
        request = RequestView()
        last = [*PROMPT, *ANSWER[:length]][-1]
        request.append([500, last], TokenSource.PROMPT)  # nothing of its own to match
        draft = drafter.draft(request, DraftLimits(16, 15))
        assert draft.width >= 4, "it has something to say"
        children = draft.children()[0]
        assert children
        assert right not in children or length in inside
        assert draft.token_ids[1] != right


def test_hostile_sequences_hold_no_transition_of_the_text() -> None:
    transitions = set(pairwise([*PROMPT, *ANSWER]))
    sequences = list(hostile_sequences(PROMPT, ANSWER, VOCAB_SIZE))
    short = [ids for ids in sequences if len(ids) == 17]
    assert all(transitions.isdisjoint(pairwise(ids)) for ids in short)
    assert {ids[0] for ids in short} == {PROMPT[-1], *ANSWER[:-1]}
    long = [ids for ids in sequences if len(ids) != 17]
    assert len(long) == 3
    assert all(transitions.isdisjoint(pairwise(ids[7:])) for ids in long)
    assert all(0 <= token_id < VOCAB_SIZE for ids in sequences for token_id in ids)
    ring = (0, 1, 2, 3) * 5  # in a vocabulary so small that chance alone would hit one
    few = list(hostile_sequences(ring[:4], ring[4:], 5))
    assert all(set(pairwise(ring)).isdisjoint(pairwise(ids)) for ids in few if len(ids) == 17)
    assert sequences == list(hostile_sequences(PROMPT, ANSWER, VOCAB_SIZE))


def test_now_and_then_a_long_match_is_followed_by_what_is_wrong() -> None:
    """Matches of one token only were all that the first hostile Trie had."""
    trie = Trie()
    wrong = hostile_sequences(PROMPT, ANSWER, VOCAB_SIZE)
    trie.add_many((None, TokenSource.HISTORY, ids) for ids in wrong)
    drafter = TrieDrafter(trie, None)
    for place in range(8, len(ANSWER), 24):
        request = RequestView()
        request.append(ANSWER[place - 8 : place], TokenSource.PROMPT)
        draft = drafter.draft(request, DraftLimits(16, 15))
        assert draft.match_length == 8
        assert draft.probabilities[1] > 0.2, "it is believed"
        assert draft.token_ids[1] != ANSWER[place]
