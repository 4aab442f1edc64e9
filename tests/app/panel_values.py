"""The panel's value made at once, as for a page that is opened."""

from collections.abc import Sequence
from typing import Any

from app.panel_presenter import OriginLabels, PanelPresenter
from app.services.views import AnswerSnapshot, ChatMessage


def panel_value(
    messages: Sequence[ChatMessage], snapshot: AnswerSnapshot | None, origin_labels: OriginLabels
) -> dict[str, Any]:
    return PanelPresenter(origin_labels).value(messages, snapshot)
