"""The panel's component: what its scripts are made of."""

import re
from pathlib import Path

import pytest

from app import panel as panel_module
from app.panel import panel_component

SCRIPTS = panel_module.PANEL_CSS.parent / "panel"


def script() -> str:
    return str(panel_component(lambda payload: {}).js_on_load)


def test_every_script_of_the_panel_is_part_of_it_once() -> None:
    joined = script()
    paths = sorted(SCRIPTS.glob("*.js"))
    assert len(paths) > 10
    for path in paths:
        assert joined.count(path.read_text(encoding="utf-8")) == 1, path.name


def test_no_name_is_given_twice() -> None:
    """The scripts are one function in the browser."""
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script(), re.MULTILINE)
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))


def test_text_is_put_in_as_text_only() -> None:
    """A template with a value in it runs the value as code; so would markup made of text."""
    component = panel_component(lambda payload: {})
    assert "value" not in component.html_template
    found = re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write|eval\(",
        script(),
    )
    assert found == []


def test_nothing_is_fetched_by_the_script() -> None:
    addresses = re.findall(r"https?://[^'\"\s]+", script())
    assert addresses == ["http://www.w3.org/2000/svg"]  # a name, not a place
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(", script())


def test_the_page_can_ask_for_a_step_and_for_nothing_else() -> None:
    component = panel_component(lambda payload: {"asked": payload})
    assert [function.__name__ for function in component.server_fns] == ["step_details"]
    assert component.step_details({"answer": 1}) == {"asked": {"answer": 1}}


def test_an_update_that_skips_the_panel_does_not_search_its_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each cost 3 ms, for the panel being closed; and no stub file may appear for its class."""
    panel = panel_component(lambda payload: {})
    assert callable(panel.toggle_panel)
    monkeypatch.setattr("gradio.components.html.re.search", lambda *_: pytest.fail("searched"))
    assert not hasattr(panel, "nothing_of_this_name")
    assert not Path(panel_module.__file__).with_suffix(".pyi").exists()
