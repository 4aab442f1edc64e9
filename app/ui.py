"""The page: components first, wiring second. Looks are in `static/*.css`.

Knows no service; `app.server` mounts what `build_page` returns. Text that people or the model wrote
reaches `gr.HTML` as data only: its scripts set `textContent`, its templates are static (a template
with a value in it would run the value as code).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.data_classes import BlocksConfigDict
from gradio.events import Dependency

from app import presenters
from app.chat_tab import ChatTab, SideBar, chat_tab, wire_chat
from app.compare_handlers import CompareHandlers
from app.compare_tab import COMPARE_CSS, CompareTab, compare_tab, wire_compare
from app.demo_handlers import DemoHandlers
from app.document_handlers import DocumentHandlers
from app.documents_tab import DOCUMENTS_CSS, DocumentsTab, documents_tab, wire_documents
from app.event_options import QUIET, WATCH
from app.handlers import PageHandlers
from app.panel import PANEL_CSS, panel_component
from app.settings_handlers import SettingsHandlers
from app.settings_tab import settings_tab, wire_settings
from app.tab_view import TabView
from app.trie_handlers import TrieHandlers
from app.trie_tab import TRIE_CSS, trie_tab, wire_trie
from app.undo_bar import UNDO_CSS, undo_bar, wire_undo
from app.undo_handlers import UndoHandlers

__all__ = ["PAGE_CSS", "Handlers", "build_page", "page_theme"]

_STATIC = Path(__file__).parent / "static"
PAGE_CSS = [_STATIC / "page.css", PANEL_CSS, COMPARE_CSS, DOCUMENTS_CSS, TRIE_CSS, UNDO_CSS]

_CHAT_LIST = '<nav aria-label="Chats"><ul></ul><p>No chats yet.</p></nav>'
_STATUS_LINE = '<p role="status"><span class="dot"></span><span class="text"></span></p>'
# The side bar covers a narrow screen: it starts closed, and opens where there is room beside it.
_SIDEBAR_OPEN = """() => {
  const style = getComputedStyle(document.querySelector('#chat-row'));
  return { open: style.getPropertyValue('--room').trim() !== 'narrow', __type__: 'update' };
}"""
_WHETHER_HIDDEN = "(view, line) => [view, { ...line, is_hidden: document.hidden }]"
_SHOW_CHAT = "() => ({ selected: 'chat', __type__: 'update' })"
_OPEN_DEMO = (_STATIC / "open_demo.js").read_text(encoding="utf-8")


def page_theme() -> gr.themes.Base:
    """Quiet greys with one accent, in the system's own fonts (no request leaves the machine)."""
    return gr.themes.Base(
        primary_hue="teal",
        neutral_hue="slate",
        radius_size="md",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"],
        font_mono=["ui-monospace", "SF Mono", "Menlo", "Consolas", "monospace"],
    ).set(
        # white on these reads at 4.5:1 and better
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
        checkbox_background_color_selected="*primary_700",
        checkbox_background_color_selected_dark="*primary_700",
        block_info_text_color="*neutral_500",
        block_info_text_color_dark="*neutral_400",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
    )


class _Page(gr.Blocks):
    """A page without gradio's heartbeat, a stream for each tab that nothing here needs.

    A browser has six connections to one address for all of its tabs: what a tab holds for good is
    taken from the others.
    """

    def get_config_file(self) -> BlocksConfigDict:
        config = super().get_config_file()
        config["connect_heartbeat"] = False
        return config


@dataclass(frozen=True, slots=True)
class Handlers:
    """What happens on the page, by its parts."""

    page: PageHandlers
    demo: DemoHandlers
    compare: CompareHandlers
    documents: DocumentHandlers
    undo: UndoHandlers
    trie: TrieHandlers
    settings: SettingsHandlers


@dataclass(frozen=True, slots=True)
class _Components:
    """All of the page; `shown_*` are the tabs that are told when they are opened."""

    view: gr.State
    sidebar: gr.Sidebar
    side: SideBar
    status: gr.HTML
    tabs: gr.Tabs
    chat: ChatTab
    panel: gr.HTML
    documents: DocumentsTab
    shown_documents: gr.Tab
    trie: gr.HTML
    shown_trie: gr.Tab
    comparison: CompareTab
    shown_comparison: gr.Tab
    idle_learning: gr.Checkbox
    shown_settings: gr.Tab
    undo: gr.HTML

    @property
    def shown_chat(self) -> list[gr.components.Component]:
        """What the view of a chat fills."""
        chat = self.chat
        return [chat.chatbot, self.side.chats, chat.send, chat.stop, self.panel]


def build_page(handlers: Handlers, *, default_lookahead: bool = True) -> gr.Blocks:
    """The whole page, wired to its handlers."""
    page: gr.Blocks
    with _Page(
        title="Lookahead Chat", analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)
    ) as page:
        parts = _components(handlers, default_lookahead)
        deletions = _wire_tabs(page, handlers, parts)
        wire_undo(
            page,
            handlers.undo,
            handlers.documents,
            parts.undo,
            deletions=deletions,
            view=parts.view,
            shown=parts.shown_chat,
            documents=parts.documents.documents,
        )
        _wire_sight(page, handlers.page, parts)
        page.load(None, None, parts.sidebar, js=_SIDEBAR_OPEN)
    return page


def _components(handlers: Handlers, default_lookahead: bool) -> _Components:
    view = gr.State(TabView())
    with gr.Sidebar(open=False, width=288, elem_id="sidebar") as sidebar:
        gr.HTML("<h1>Lookahead Chat</h1>", elem_id="brand")
        new_chat = gr.Button("New chat", elem_id="new-chat", size="md")
        demo = gr.Button("Demo", elem_id="demo", size="md")
        chats = _scripted("chat_list", presenters.chat_list([], None), _CHAT_LIST)
    nothing = {"status": "", "text": "", "more": "", "wake": 0, "beat": 0}
    status = _scripted("status_line", nothing, _STATUS_LINE)
    with gr.Tabs() as tabs:
        with gr.Tab("Chat", id="chat"), gr.Row(elem_id="chat-row"):
            chat = chat_tab(default_lookahead)
            panel = panel_component(handlers.page.panel.step_details)
        with gr.Tab("Documents") as shown_documents:
            documents = documents_tab()
        with gr.Tab("Trie") as shown_trie:
            trie = trie_tab(handlers.trie)
        with gr.Tab("Compare") as shown_comparison:
            comparison = compare_tab()
        with gr.Tab("Settings") as shown_settings:
            idle_learning = settings_tab()
    return _Components(
        view=view,
        sidebar=sidebar,
        side=SideBar(new_chat, demo, chats),
        status=status,
        tabs=tabs,
        chat=chat,
        panel=panel,
        documents=documents,
        shown_documents=shown_documents,
        trie=trie,
        shown_trie=shown_trie,
        comparison=comparison,
        shown_comparison=shown_comparison,
        idle_learning=idle_learning,
        shown_settings=shown_settings,
        undo=undo_bar(),
    )


def _wire_tabs(page: gr.Blocks, handlers: Handlers, parts: _Components) -> list[Dependency]:
    """Everything of the tabs. Returns the events after which there may be something to undo."""
    view, status, panel, trie = parts.view, parts.status, parts.panel, parts.trie
    started, deleted_chat = wire_chat(
        page,
        handlers.page,
        handlers.demo,
        parts.chat,
        view=view,
        side=parts.side,
        links=(panel, trie),
    )
    started.success(None, None, [parts.tabs, parts.sidebar], js=_OPEN_DEMO)
    trie.open_chat(None, None, parts.tabs, js=_SHOW_CHAT)
    wire_trie(handlers.trie, trie, parts.shown_trie)
    wire_compare(
        page, handlers.compare, parts.comparison, parts.shown_comparison, view=view, status=status
    )
    wire_settings(page, handlers.settings, parts.idle_learning, parts.shown_settings, view=view)
    deleted_documents, ended_imports = wire_documents(
        page,
        handlers.documents,
        parts.documents,
        view=view,
        status=status,
        panel=panel,
        shown=parts.shown_documents,
    )
    for deletion in deleted_documents:
        deletion.then(handlers.page.conversation, view, parts.chat.chatbot, **QUIET)
    status.enter_tab(
        handlers.demo.watch_again, view, parts.shown_chat, trigger_mode="multiple", **WATCH
    )
    return [deleted_chat, *deleted_documents, *ended_imports]


def _wire_sight(page: gr.Blocks, handlers: PageHandlers, parts: _Components) -> None:
    """The status line, and what ends when the browser's tab goes out of sight."""
    view, status = parts.view, parts.status
    # with the page's first events, so that the stream has no moment without something pending
    page.load(handlers.watch_engine, [view, status], status, js=_WHETHER_HIDDEN, **WATCH)
    status.enter_tab(handlers.watch_engine, view, status, trigger_mode="multiple", **WATCH)
    status.leave_tab(handlers.leave_tab, view, None, trigger_mode="multiple", queue=False, **QUIET)


def _scripted(name: str, value: Any, template: str) -> gr.HTML:
    """An HTML component with a static template, filled by `static/<name>.js`."""
    return gr.HTML(
        value,
        html_template=template,
        js_on_load=(_STATIC / f"{name}.js").read_text(encoding="utf-8"),
        elem_id=name.replace("_", "-"),
        apply_default_css=False,
    )
