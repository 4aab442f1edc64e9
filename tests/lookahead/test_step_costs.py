"""Step costs: a prior gives their shape, the first step their scale, later ones both."""

import random

import numpy as np
import pytest

from lookahead.step_costs import CostPrior, StepCostFormatError, StepCosts, StepCurve, StepShapes

FLEXIBLE = CostPrior.of(is_cpu=True, is_wide=True)
STRICT = CostPrior.of(is_cpu=True, attention="path")
CONTEXT = 300


def chain(width: int) -> StepShapes:
    return StepShapes((width,), (width,), (1,))


def cost(curve: StepCurve, width: int, context_length: int = CONTEXT) -> float:
    return float(curve.milliseconds(chain(width), context_length)[0])


def taught(curve: StepCurve, truth: dict[int, float], *, rounds: int, seed: int = 1) -> StepCurve:
    """Steps of these widths in turns, each a bit off, every twentieth held up by something else."""
    chance = random.Random(seed)
    for _ in range(rounds):
        for width, milliseconds in truth.items():
            held_up = 5.0 if chance.random() < 0.05 else 1.0
            noisy = milliseconds * chance.gauss(1.0, 0.05) * held_up
            curve.observe(width, width, 1, context_length=CONTEXT, milliseconds=noisy)
    return curve


def test_the_first_step_sets_the_scale_and_the_prior_the_shape() -> None:
    curve = StepCurve.from_prior(FLEXIBLE)
    before = cost(curve, 16) / cost(curve, 1)
    curve.observe(1, 1, 1, context_length=CONTEXT, milliseconds=900.0)  # sets up kernels
    for _ in range(2):
        curve.observe(1, 1, 1, context_length=CONTEXT, milliseconds=6.0)
    assert cost(curve, 1) == pytest.approx(6.0, rel=0.05)
    assert cost(curve, 16) / cost(curve, 1) == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("prior", [FLEXIBLE, STRICT], ids=["flexible", "strict"])
def test_what_steps_took_replaces_the_prior(prior: CostPrior) -> None:
    truth = {1: 20.0, 4: 21.0, 16: 90.0}
    curve = taught(StepCurve.from_prior(prior), truth, rounds=60)
    for width, milliseconds in truth.items():
        assert cost(curve, width) == pytest.approx(milliseconds, rel=0.15)


def test_a_row_count_tells_of_those_beside_it() -> None:
    """Nothing was ever run at 16 rows, but 8 and 32 turned out to be cheap."""
    curve = StepCurve.from_prior(FLEXIBLE)
    unknown = cost(curve, 16) / cost(curve, 1)
    taught(curve, {1: 50.0, 8: 52.0, 32: 56.0}, rounds=40)
    assert cost(curve, 16) / cost(curve, 1) < 0.7 * unknown


def test_a_machine_that_gets_busy_makes_every_width_dearer_alike() -> None:
    curve = taught(StepCurve.from_prior(FLEXIBLE), {1: 50.0, 8: 70.0}, rounds=40)
    ratio = cost(curve, 8) / cost(curve, 1)
    for _ in range(30):
        curve.observe(1, 1, 1, context_length=CONTEXT, milliseconds=150.0)
    assert cost(curve, 1) == pytest.approx(150.0, rel=0.1)
    assert cost(curve, 8) / cost(curve, 1) == pytest.approx(ratio, rel=0.25)


def test_one_step_that_was_held_up_is_hardly_believed() -> None:
    curve = taught(StepCurve.from_prior(FLEXIBLE), {1: 50.0, 8: 70.0}, rounds=40)
    before = cost(curve, 8)
    for factor in (3, 100):
        curve.observe(8, 8, 1, context_length=CONTEXT, milliseconds=factor * 70.0)
        assert cost(curve, 8) == pytest.approx(before, rel=0.15)


def test_strict_nodes_and_long_contexts_are_charged_for() -> None:
    curve = StepCurve.from_prior(STRICT)
    shapes = StepShapes((16, 16), (2, 16), (1, 8))
    few, many = curve.milliseconds(shapes, CONTEXT)
    assert many > few, "as many rows, more nodes"
    assert many / few < np.divide(*curve.milliseconds(shapes, 4000)[::-1])


def test_a_wider_step_is_never_taken_to_be_cheaper() -> None:
    curve = taught(StepCurve.from_prior(FLEXIBLE), {2: 90.0, 4: 70.0, 1: 50.0}, rounds=30)
    costs = curve.milliseconds(StepShapes((1, 2, 4, 8), (1, 2, 4, 8), (1, 1, 1, 1)), CONTEXT)
    assert (np.diff(costs) >= 0).all()
    assert costs[0] > 0


def test_what_was_learned_outlives_the_program() -> None:
    costs = StepCosts()
    taught(costs.curve("path", STRICT), {2: 40.0, 8: 44.0}, rounds=30)
    again = StepCosts.from_bytes(costs.to_bytes())
    read = StepCosts.from_bytes(again.to_bytes())  # not asked for in between
    assert cost(read.curve("path", STRICT), 8) == cost(costs.curve("path", STRICT), 8)
    untouched = cost(StepCurve.from_prior(FLEXIBLE), 8)
    assert cost(read.curve("flexible", FLEXIBLE), 8) == untouched
    assert StepCosts.from_bytes(StepCosts().to_bytes()).to_bytes() == StepCosts().to_bytes()


@pytest.mark.parametrize("place", [0, 30, -5])
def test_damaged_costs_are_refused(place: int) -> None:
    costs = StepCosts()
    costs.curve("path", STRICT)
    damaged = bytearray(costs.to_bytes())
    damaged[place] ^= 1
    with pytest.raises(StepCostFormatError, match="nothing learned"):
        StepCosts.from_bytes(bytes(damaged))


@pytest.mark.parametrize(("feature", "spread"), [(0, 0.0), (3, -1.0), (9, -1e-9)])
def test_costs_surer_than_they_can_be_are_refused(feature: int, spread: float) -> None:
    """A negative variance turned every correction around."""
    costs = StepCosts()
    costs.curve("path", STRICT).covariance[feature, feature] = spread
    with pytest.raises(StepCostFormatError, match="surer"):
        StepCosts.from_bytes(costs.to_bytes())


@pytest.mark.parametrize("milliseconds", [0.0, 50.0])
def test_a_curve_that_rounding_made_too_sure_goes_on(milliseconds: float) -> None:
    """Less than no variance was the root of a negative number, and the costs became complex."""
    curve = StepCurve.from_prior(FLEXIBLE)
    curve.covariance = -1e9 * np.eye(len(curve.mean))
    curve.mean[0] = 0.0
    for _ in range(2):
        curve.observe(1, 1, 1, context_length=0, milliseconds=milliseconds)
    assert np.isfinite(curve.mean).all()
    assert np.isfinite(curve.covariance).all()


def test_costs_that_are_no_numbers_are_refused() -> None:
    costs = StepCosts()
    costs.curve("path", STRICT).mean[3] = np.nan
    with pytest.raises(StepCostFormatError, match="milliseconds"):
        StepCosts.from_bytes(costs.to_bytes())
