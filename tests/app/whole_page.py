"""The whole page over a scripted service, without a browser."""

from pathlib import Path
from typing import Any

import gradio as gr

from app.compare_handlers import CompareHandlers
from app.demo_handlers import DemoHandlers
from app.document_handlers import DocumentHandlers
from app.handlers import PageHandlers
from app.settings_handlers import SettingsHandlers
from app.trie_handlers import TrieHandlers
from app.ui import Handlers, build_page
from app.undo_handlers import UndoHandlers
from app.uploads import Uploads


def whole_page(service: Any) -> gr.Blocks:
    """As the server builds it."""
    handlers = PageHandlers(service)
    return build_page(
        Handlers(
            handlers,
            DemoHandlers(service, handlers),
            CompareHandlers(service),
            DocumentHandlers(service, handlers.panel, Uploads(Path())),
            UndoHandlers(service, handlers),
            TrieHandlers(service),
            SettingsHandlers(service),
        )
    )
