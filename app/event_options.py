"""How the page's events are asked of gradio: what all tabs have in common."""

from typing import Any

__all__ = ["QUIET", "WATCH"]

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# Watching costs the model nothing, so tabs never wait for one another.
WATCH: dict[str, Any] = {**QUIET, "concurrency_limit": None}
