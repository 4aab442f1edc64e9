"""Whoever acts in a tab looks at it, though leaving it may have been told last."""

import asyncio
import contextlib
import inspect
import warnings
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr
import pytest

from app.tab_view import TabView
from tests.app.scripted_service import ScriptedService
from tests.app.whole_page import whole_page

# What a script of the page says, too, when nobody acts: the panel when it is made, and when it lets
# an answer go.
NO_ACTS = {"load", "enter_tab", "leave_tab", "toggle_panel", "show_answer", "hold_answer"}


def acts(page: gr.Blocks) -> dict[str, Any]:
    """What happens when somebody presses, types or chooses something, by the name of its event.

    Opening a tab is an act where something is watched there.
    """
    found = {}
    for function in page.fns.values():
        names = {name for _, name in function.targets} - NO_ACTS
        follows = function.trigger_after is not None
        if function.fn is None or follows or not names:
            continue
        if names != {"select"} or inspect.isasyncgenfunction(function.fn):
            found[f"{'/'.join(sorted(names))} → {function.name}"] = function
    return found


def does(function: Any, view: TabView) -> None:
    """Somebody does it; the rest of what it needs is wrong, which is told and no more."""
    rest: list[Any] = [None for _ in function.inputs[1:]]
    if "event" in inspect.signature(function.fn).parameters:
        rest.append(gr.EventData(None, {"is_hidden": False}))
    with warnings.catch_warnings(), contextlib.suppress(gr.Error):
        warnings.simplefilter("ignore")
        result = function.fn(view, *rest)
        if isinstance(result, AsyncIterator):
            asyncio.run(anext(result))  # type: ignore[arg-type]


def test_whatever_somebody_does_on_the_page_its_tab_is_in_sight() -> None:
    """The demo, a comparison and an import were not shown to those who had just begun them."""
    found = acts(whole_page(ScriptedService()))
    for name in ("ask", "stop", "start", "run", "open_tab", "undo", "import_uploads", "switch"):
        assert any(known.endswith(f"→ {name}") for known in found), name
    unseen = []
    for name, function in found.items():
        view = TabView()
        view.go_out_of_sight()
        wake = view.num_wakes
        does(function, view)
        if not view.is_in_sight or view.num_wakes != wake:
            unseen.append(name)
    assert len(found) >= 20
    assert unseen == []


@pytest.mark.parametrize("is_hidden", [True, False])
def test_an_upload_that_ends_out_of_sight_brings_no_tab_into_sight(is_hidden: bool) -> None:
    """What is watched out of sight keeps one of six connections of all tabs."""
    found = acts(whole_page(ScriptedService()))
    (uploaded,) = (found[name] for name in found if name.endswith("→ import_uploads"))
    view = TabView()
    view.go_out_of_sight()
    with pytest.warns(UserWarning, match="unexpected"):
        uploaded.fn(view, False, gr.EventData(None, {"is_hidden": is_hidden}))
    assert view.is_in_sight is not is_hidden
