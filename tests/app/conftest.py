"""A chat service on folders of its own, started as often as a test wants."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from app.services import ChatService, ServiceConfig, workbench
from lookahead.config import DecodingConfig
from storage import Database
from tests.app.asking import WAIT, Start
from tests.app.scripted_engine import ScriptedEngine


@pytest.fixture
def config(tmp_path: Path) -> ServiceConfig:
    return ServiceConfig(tmp_path / "data", tmp_path / "cache", model="scripted")


@pytest.fixture
def verify_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of every draft is verified, so that what is accepted depends on no clock."""
    monkeypatch.setattr(
        workbench, "DecodingConfig", partial(DecodingConfig, adaptive=False, max_rows=16)
    )


@pytest.fixture
def start(config: ServiceConfig) -> Iterator[Start]:
    """Start a service on the same folders; all are closed at the end."""
    services = []

    def start(engine: ScriptedEngine, *, is_ready: bool = True) -> ChatService:
        services.append(service := ChatService(config, engine=engine))
        service.start()
        if is_ready:
            assert service.wait_until_ready(WAIT).is_ready
        return service

    yield start
    for service in services:
        service.close()


@pytest.fixture
def database(config: ServiceConfig) -> Iterator[Database]:
    """Another view of the database that the services write."""
    with Database(config.data_dir) as database:
        yield database
