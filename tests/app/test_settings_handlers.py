"""The settings on the page: shown as they stand, kept for good."""

import dataclasses

import pytest

from app.services import ChatService, ServiceConfig
from app.services.idle_learning import IDLE_LEARNING_SETTING
from app.settings_handlers import SettingsHandlers
from app.tab_view import TabView
from storage import Database
from tests.app.asking import Start
from tests.app.scripted_engine import ScriptedEngine


def test_the_switch_is_shown_as_it_stands_and_kept(start: Start, database: Database) -> None:
    service = start(ScriptedEngine())
    handlers = SettingsHandlers(service)
    assert handlers.show()["value"] is True
    handlers.switch(TabView(), False)
    assert handlers.show()["value"] is False
    assert database.settings.get(IDLE_LEARNING_SETTING) is False
    service.close()
    assert SettingsHandlers(start(ScriptedEngine())).show()["value"] is False


def test_what_the_command_line_forbids_cannot_be_switched_on(
    config: ServiceConfig, database: Database
) -> None:
    """A page that was left open, or a crafted event, stored what it was not asked."""
    forbidding = dataclasses.replace(config, idle_learning=False)
    service = ChatService(forbidding, engine=ScriptedEngine())
    handlers = SettingsHandlers(service)
    shown = handlers.show()
    assert (shown["value"], shown["interactive"]) == (False, False)
    assert "--no-idle-learning" in shown["info"]
    with pytest.warns(UserWarning, match="--no-idle-learning"):
        handlers.switch(TabView(), False)
    assert database.settings.get(IDLE_LEARNING_SETTING) is None
    service.close()
