"""What was learned about a model: read at start, saved, and never in the way of starting."""

import logging

import numpy as np
import pytest

from app.services import learned_keeper
from app.services.learned_keeper import LearnedKeeper
from lookahead.calibration import Calibration
from lookahead.step_costs import CostPrior, StepCosts
from lookahead.successors import SuccessorTable
from storage import Database, DatabaseBusyError

ROW = np.arange(8, dtype=np.int32)[None]


def keeper(database: Database, model: str = "model", machine: str = "model") -> LearnedKeeper:
    return LearnedKeeper(database, model, 20, runtime_fingerprint=machine)


def test_another_machine_or_version_costs_the_prices_of_steps_alone(database: Database) -> None:
    """Every upgrade of a library had the whole vocabulary primed again."""
    kept = keeper(database)
    kept.learned.successors.update([3], ROW)
    kept.learned.calibration.learn([([7], [0.5], [0])], 7)
    kept.learned.step_costs.curve(
        "path", CostPrior.of(is_cpu=True, is_wide=False, attention="path")
    )
    kept.has_news = True
    kept.save()
    learned = keeper(database, machine="upgraded").learned
    assert learned.successors.successors(3) == list(range(8))
    assert learned.calibration.to_bytes() == kept.learned.calibration.to_bytes()
    assert learned.calibration.to_bytes() != Calibration().to_bytes()
    assert learned.step_costs.to_bytes() == StepCosts().to_bytes()
    again = keeper(database).learned
    assert again.step_costs.to_bytes() == kept.learned.step_costs.to_bytes()


def test_what_was_learned_is_read_again(database: Database) -> None:
    kept = keeper(database, "model")
    kept.learned.successors.update([3], ROW)
    kept.save()
    assert database.successors.load("model") is None, "there was no news"
    kept.has_news = True
    kept.save()
    assert keeper(database, "model").learned.successors.successors(3) == list(range(8))
    assert keeper(database, "other").learned.successors.known_share == 0


def test_it_is_not_saved_all_the_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keeper(database, "model")
    kept.has_news = True
    kept.save_if_due()
    assert database.successors.load("model") is None
    monkeypatch.setattr(learned_keeper, "_SAVE_SECONDS", -1.0)
    kept.save_if_due()
    assert database.successors.load("model") is not None


def test_what_a_busy_database_did_not_take_is_saved_later(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The news counted as saved before it was: a moment's trouble lost it for good."""
    monkeypatch.setattr(learned_keeper, "_SAVE_SECONDS", -1.0)
    kept = keeper(database, "model")
    kept.has_news = True

    def refuse(fingerprint: str, data: bytes) -> None:
        raise DatabaseBusyError("Another program is holding it.")

    with monkeypatch.context() as patch:
        patch.setattr(database.calibration, "save", refuse)
        kept.save_if_due()
        with pytest.raises(DatabaseBusyError):
            kept.save()
    assert "not saved yet: Another program" in caplog.text
    kept.save_if_due()
    assert database.calibration.load("model") is not None
    assert not kept.has_news


@pytest.mark.parametrize("kind", ["successors", "calibration", "step_costs"])
def test_a_damaged_part_starts_empty_with_a_line_in_the_log(
    database: Database, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    kept = keeper(database, "model")
    kept.learned.successors.update([3], ROW)
    kept.has_news = True
    kept.save()
    store = getattr(database, kind)
    data = store.load("model")
    assert data is not None
    store.save("model", data[:-3])
    with caplog.at_level(logging.WARNING):
        learned = keeper(database, "model").learned
    assert "start empty" in caplog.text
    assert learned.successors.known_share == (0 if kind == "successors" else 1 / 20)


def test_successors_of_another_vocabulary_are_not_taken(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.successors.save("model", SuccessorTable(10).to_bytes())
    assert keeper(database, "model").learned.successors.vocab_size == 20
    assert "another vocabulary" in caplog.text
