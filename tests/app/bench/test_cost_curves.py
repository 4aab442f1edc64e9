"""Cost curves: what tokens per step are worth, and that measuring is done in the real loop."""

import json
import math
from collections.abc import Mapping

import pytest

from app.bench.cost_curves import (
    FLAT,
    RECORDED_CURVES,
    WIDTHS,
    CostCurve,
    known_curve,
    measure_curve,
    typical_parents,
)
from app.bench.replay import PromptReplay, ReplayResult, ReplaySetting
from lookahead.config import DecodingConfig

CURVE = CostCurve("some", "some machine", "By hand.", {1: 10.0, 4: 16.0, 16: 40.0})
RECORDED = RECORDED_CURVES[0]


def result(widths: list[int], accepted: list[int], drafting_seconds: float = 0.0) -> ReplayResult:
    prompt = PromptReplay(
        "one",
        "any",
        accepted_lengths=accepted,
        widths=widths,
        drafting_seconds=drafting_seconds,
        remember_seconds=5.0,
    )
    return ReplayResult("some", ReplaySetting(16), (prompt,))


def test_the_line_between_two_measured_widths_is_straight_and_ends_with_the_last() -> None:
    assert [CURVE.at(width) for width in (1, 2, 4, 10, 16)] == [10.0, 12.0, 16.0, 28.0, 40.0]
    assert math.isnan(CURVE.at(17))


def test_a_speedup_is_plain_time_over_time_with_every_steps_own_width() -> None:
    # Four plain steps' tokens in two steps of 16 and 10 ms and 4 ms of drafting; history is apart.
    found = result([4, 1], [2, 0], drafting_seconds=0.004)
    assert CURVE.speedup(found) == pytest.approx(40.0 / (16 + 10 + 4))


def test_drafting_nothing_at_no_cost_is_worth_nothing() -> None:
    for curve in (CURVE, FLAT, *RECORDED_CURVES):
        assert curve.speedup(result([1, 1, 1], [0, 0, 0])) == pytest.approx(1.0)


def test_what_the_curve_does_not_reach_is_not_estimated() -> None:
    assert CURVE.speedup(result([1, 32], [0, 0])) is None
    assert CURVE.speedup(result([], [])) is None


@pytest.mark.parametrize("width", [1, 2, 3, 8, 16, 32, 64])
def test_a_typical_draft_is_a_tree_of_its_width_in_depth_first_order(width: int) -> None:
    parents = typical_parents(width)
    assert len(parents) == width
    assert parents[0] == -1
    path = [0]
    for node, parent in enumerate(parents[1:], start=1):
        assert parent in path, "depth first: the parent is on the path of the node before"
        path = [*path[: path.index(parent) + 1], node]
        assert len(path) <= 1 + DecodingConfig().max_draft_depth
    assert width < 4 or len(set(parents)) < width, "it has branches"


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"step_cost:cpu-fp32:other": '{"1": 5}'},
        {"step_cost:cpu-fp32:here": "not JSON"},
        {"step_cost:cpu-fp32:here": "[1]"},
        {"step_cost:cpu-fp32:here": '{"2": 5}'},
        {"step_cost:cpu-fp32:here": '{"1": 0}'},
        {"step_cost:cpu-fp32:here": '{"1": NaN}'},
        {"step_cost:cpu-fp32:here": '{"1": null}'},
    ],
)
def test_without_a_measurement_the_recorded_curve_stands_in_and_says_so(
    facts: Mapping[str, str],
) -> None:
    assert known_curve(RECORDED, facts, ["gone", "here"], is_embedded=True) is RECORDED
    assert known_curve(RECORDED, facts, ["gone", "here"], is_embedded=False) is None, (
        "another model's"
    )
    assert "--measure-costs" in RECORDED.source


def test_a_measurement_is_found_again_by_name_and_machine() -> None:
    facts = {"step_cost:cpu-fp32:here": json.dumps({1: 5.0, 8: 6.0})}
    curve = known_curve(RECORDED, facts, ["gone", "here"], is_embedded=False)
    assert curve is not None
    assert (curve.name, curve.title) == (RECORDED.name, RECORDED.title)
    assert curve.milliseconds == {1: 5.0, 8: 6.0}
    assert "Measured on this machine" in curve.source


@pytest.mark.tiny
def test_measuring_takes_steps_of_every_width_in_the_decode_loop() -> None:
    from tests.lookahead.tiny_models import tiny_model

    model = tiny_model("llama")
    facts: dict[str, str] = {}
    curve = measure_curve(model, RECORDED, facts, strict=False, num_rounds=2)
    assert tuple(curve.milliseconds) == WIDTHS
    assert all(value > 0 for value in curve.milliseconds.values())
    known = known_curve(RECORDED, facts, [model.fingerprint], is_embedded=False)
    assert known is not None
    assert known.milliseconds == curve.milliseconds
