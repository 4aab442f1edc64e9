"""What a decode step takes here, by rows and context. Knows numbers only."""

__all__ = ["StepCosts"]


class StepCosts:
    """Milliseconds of a whole step; nothing is measured yet."""
