"""The hostile Trie is hostile, at every place of the answers; and arms take fair turns."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from app.bench.arms import ArmResult, BenchRequest, SteppedArm
from app.bench.engine_arms import ColdArm, HistoryArm, PlainArm
from app.bench.interleaving import answer_in_turns, answer_whole
from app.bench.worst_case_suite import hostile_sequences
from lookahead.draft import TokenSource
from lookahead.drafter import DraftLimits, TrieDrafter
from lookahead.events import Event
from lookahead.request_view import RequestView
from lookahead.trie import Trie
from tests.app.bench.scripted_runner import ScriptedRunner, scripted_requests

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


class Drifting(ScriptedRunner):
    """Drafting gains nothing, and the machine gets slower with every forward."""

    def __init__(self) -> None:
        super().__init__(slowdown=2.0, noise=0.0)
        self._forwards = 0

    def generate(self, request: BenchRequest, **given: Any) -> Iterator[Event]:
        started = self.clock.seconds
        for event in super().generate(request, **given):
            self._forwards += 1
            self.clock.advance((self.clock.seconds - started) * 0.2 * self._forwards)
            yield event
            started = self.clock.seconds


def test_drift_of_the_machine_falls_on_arms_that_take_turns_alike() -> None:
    request = scripted_requests(1)[0]

    def ratio(
        answer: Callable[[Sequence[SteppedArm], BenchRequest], dict[str, ArmResult]],
    ) -> float:
        runner = Drifting()
        results = answer([PlainArm(runner), ColdArm(runner)], request)
        return results["plain"].decode_seconds / results["cold"].decode_seconds

    assert ratio(answer_whole) < 0.6
    assert ratio(answer_in_turns) == pytest.approx(1.0, abs=0.15)


def test_an_answer_in_turns_is_the_answer_and_its_time_is_its_own() -> None:
    whole, in_turns = (
        answer([PlainArm(runner), HistoryArm(runner), ColdArm(runner)], scripted_requests(1)[0])
        for answer in (answer_whole, answer_in_turns)
        for runner in [ScriptedRunner(noise=0.0)]
    )
    for name, result in whole.items():
        other = in_turns[name]
        assert other.token_ids == result.token_ids
        assert other.accepted_lengths == result.accepted_lengths
        assert (other.num_rows, other.accepted_by_source) == (
            result.num_rows,
            result.accepted_by_source,
        )
        for seconds in ("prefill_seconds", "decode_seconds", "total_seconds", "draft_seconds"):
            assert getattr(other, seconds) == pytest.approx(getattr(result, seconds))
        assert (other.remember_seconds is None) == (result.remember_seconds is None)


def test_next_is_the_arm_with_the_fewest_tokens() -> None:
    """Plain decoding takes two steps while a drafting arm, which gets two tokens, takes one."""
    order: list[str] = []

    class Watched(ScriptedRunner):
        def generate(self, request: BenchRequest, **given: Any) -> Iterator[Event]:
            for event in super().generate(request, **given):
                order.append("plain" if given.get("trie") is None else "cold")
                yield event

    runner = Watched()
    answer_in_turns([PlainArm(runner), ColdArm(runner)], scripted_requests(1)[0])
    assert order[:8] == ["plain", "cold", "plain", "cold", "plain", "plain", "cold", "plain"]
