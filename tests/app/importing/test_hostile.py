"""Files that were made to hurt: each is taken in or skipped with its reason, and chats go on."""

import os
from pathlib import Path

import pytest

from app.importing.files import displayable_name
from app.services import AnswerOptions, ChatService, ServiceConfig
from tests.app.importing.hostile import write_hostile_folder
from tests.app.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.real

WAIT = 300.0


@pytest.mark.skipif(os.name == "nt", reason="half of these names cannot be there")
def test_none_of_many_hostile_files_does_harm_and_each_has_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    expected = write_hostile_folder(folder)
    assert len(expected) >= 50
    service = ChatService(
        ServiceConfig(tmp_path / "data", tmp_path / "cache", model="scripted"),
        engine=ScriptedEngine(),
    )
    service.start()
    snapshot = service.import_paths([folder]).wait_until_over(WAIT)
    assert (snapshot.status, snapshot.error) == ("complete", "")
    prefix = f"{displayable_name(str(folder))}/"
    told = {path.removeprefix(prefix): reason for path, reason in snapshot.skipped}
    taken = {source.name for source in service.documents()}
    wrong = {}
    for name, reason in expected.items():
        shown = displayable_name(name)
        if reason is None and (shown not in taken or shown in told):
            wrong[shown] = told.get(shown, "nothing became of it")
        elif reason and reason not in told.get(shown, "it was taken in"):
            wrong[shown] = told.get(shown, "it was taken in")
        elif reason == "":  # either, as long as it is one of them
            assert (shown in taken) != (shown in told), shown
    assert wrong == {}
    assert taken | told.keys() == {displayable_name(name) for name in expected}
    answer = service.ask(None, "hello", AnswerOptions()).wait_until_over(WAIT)
    assert answer.status == "complete"
    texts = [service._database.sources.text(source.id) for source in service.documents()]
    assert not any("root:" in text for text in texts), "nothing from outside the folder"
    service.close()
