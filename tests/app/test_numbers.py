"""Numbers of an answer in words."""

from dataclasses import replace

from app.numbers import PANEL_NUMBERS
from app.services.views import AnswerNumbers
from lookahead.events import GenerationStats

NUMBERS = AnswerNumbers.from_stats(GenerationStats())


def sampling(**settings: object) -> str:
    (number,) = (number for number in PANEL_NUMBERS if number.name == "sampling")
    return number.write(replace(NUMBERS, **settings))  # type: ignore[arg-type]


def test_no_more_is_promised_of_a_seed_than_is_kept() -> None:
    """ "Whatever was drafted" is true of strict mode only."""
    (definition,) = (n.definition for n in PANEL_NUMBERS if n.name == "sampling")
    assert "exactly in strict mode, up to ties in flexible mode" in definition


def test_how_an_answer_was_sampled_is_told_so_that_it_can_be_made_again() -> None:
    everything = {"top_k": 40, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.1}
    assert sampling() == "greedy"
    assert sampling(**everything) == "greedy, repetition penalty 1.1"
    assert sampling(temperature=0.8, seed=2**53 - 1) == "temperature 0.8, seed 9007199254740991"
    assert sampling(temperature=0.8, seed=1, **everything) == (
        "temperature 0.8, top-k 40, top-p 0.9, min-p 0.05, repetition penalty 1.1, seed 1"
    )
