"""What was learned about a model: read at start, saved, and never in the way of starting."""

import logging

import numpy as np
import pytest

from app.services import learned_keeper
from app.services.learned_keeper import LearnedKeeper
from lookahead.successors import SuccessorTable
from storage import Database, DatabaseBusyError

ROW = np.arange(8, dtype=np.int32)[None]


def test_what_was_learned_is_read_again(database: Database) -> None:
    kept = LearnedKeeper(database, "model", 20)
    kept.learned.successors.update([3], ROW)
    kept.save()
    assert database.successors.load("model") is None, "there was no news"
    kept.has_news = True
    kept.save()
    assert LearnedKeeper(database, "model", 20).learned.successors.successors(3) == list(range(8))
    assert LearnedKeeper(database, "other", 20).learned.successors.known_share == 0


def test_it_is_not_saved_all_the_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = LearnedKeeper(database, "model", 20)
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
    kept = LearnedKeeper(database, "model", 20)
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
    kept = LearnedKeeper(database, "model", 20)
    kept.learned.successors.update([3], ROW)
    kept.has_news = True
    kept.save()
    store = getattr(database, kind)
    data = store.load("model")
    assert data is not None
    store.save("model", data[:-3])
    with caplog.at_level(logging.WARNING):
        learned = LearnedKeeper(database, "model", 20).learned
    assert "start empty" in caplog.text
    assert learned.successors.known_share == (0 if kind == "successors" else 1 / 20)


def test_successors_of_another_vocabulary_are_not_taken(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.successors.save("model", SuccessorTable(10).to_bytes())
    assert LearnedKeeper(database, "model", 20).learned.successors.vocab_size == 20
    assert "another vocabulary" in caplog.text
